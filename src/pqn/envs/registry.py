"""From a name to an environment: `make("CartPole-v1", num_envs=64)`.

Three forms of name are understood: an id of `pqn.envs.catalog` ("CartPole-v1", "Breakout-MinAtar"), the same with the
family in front ("probe:two-step"), and "module:function" for an environment of the user. Importing this module does not
load jax or a simulator: they are loaded when an environment is made.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from pqn.envs import user_function
from pqn.envs.catalog import FAMILIES
from pqn.errors import EnvError, how_to_install

if TYPE_CHECKING:
    from pqn.envs.contract import HostEnv, JaxEnv

GIVEN_IN_PYTHON = "python"  # the prefix under which a run records an environment that has no name here


class EnvInfo(NamedTuple):
    """A row of `pqn envs`."""

    name: str
    family: str
    description: str


def make(name: str, /, num_envs: int, **kwargs: object) -> JaxEnv | HostEnv:
    """Builds N copies of the environment `name`; kwargs are its own options.

    Raises:
      EnvError: with one sentence that says what is wrong and, for a misspelt name, which name is close.
    """
    if num_envs < 1:
        raise EnvError(f"num_envs must be at least 1, not {num_envs}.")
    family, short = _resolve(name)
    if family is not None:
        if "name" in kwargs:  # the first parameter of every `make`
            raise EnvError(f"{name} has no option 'name'.")
        return _load(family).make(short, num_envs, **kwargs)
    from pqn.envs.objects import as_env

    unknown = f"and the families of environments are {', '.join(FAMILIES)}{_suggest(name)}"

    def call() -> object:
        return user_function.call(name, num_envs, kwargs, unknown)

    return as_env(call(), num_envs, f"what {name} returned", call)


def is_registered(name: str) -> bool:
    """Whether `name` is of a family here, and not "module:function".

    Raises:
      EnvError: it is neither.
    """
    return _resolve(name)[0] is not None


def spelled_out(name: str) -> str:
    """ "gymnasium:Taxi-v3" for "Taxi-v3": an id of Gymnasium that no other family has. Other names stay as they are."""
    try:
        _resolve(name)
    except EnvError:
        known = ":" not in name and importlib.util.find_spec("gymnasium") and _load("gymnasium").is_known(name)
        return f"gymnasium:{name}" if known else name
    return name


def canonical(name: str) -> str:
    """One spelling for each environment: "gymnax:CartPole-v1" for "CartPole-v1"; "module:function" stays as it is."""
    family, short = _resolve(name)
    return name if family is None else f"{family}:{short}"


def is_harmless(name: str, kwargs: Mapping[str, object]) -> bool:
    """Whether making this environment runs nothing but code of pqn and of the packages that its family names.

    A name in somebody's run directory must be harmless to be made without the user naming it again. "module:function"
    is not harmless. In a family that is open, the adapter decides.
    """
    family, short = _resolve(name)
    if family is None:
        return False
    return not FAMILIES[family].open or _load(family).is_harmless(short, kwargs)


def packages(name: str, kwargs: Mapping[str, object]) -> tuple[str, ...]:
    """The distributions behind a registered environment."""
    family, _ = _resolve(name)
    if family is None:
        return ()
    entry = FAMILIES[family]
    replaced = [those for (option, value), those in entry.packages_with.items() if kwargs.get(option) == value]
    return replaced[0] if replaced else entry.packages


def available() -> list[EnvInfo]:
    """Every environment that `make` can build by name, in the order of the families."""
    return [
        EnvInfo(f"{family}:{name}" if entry.prefixed else name, family, description)
        for family, entry in FAMILIES.items()
        for name, description in entry.names.items()
    ]


def _resolve(name: str) -> tuple[str | None, str]:
    """The family and the name within it; family None for "module:function"."""
    prefix, colon, rest = name.partition(":")
    if prefix == GIVEN_IN_PYTHON and colon:
        raise EnvError(f"{name} was given in Python and has no name by which it could be made; give it again as env=…")
    if colon:
        if prefix not in FAMILIES:
            return None, name
        families, short = [prefix], rest
    else:
        families, short = [family for family, entry in FAMILIES.items() if not entry.prefixed], name
    for family in families:
        if short in FAMILIES[family].names or (colon and FAMILIES[family].open):
            return family, short
        if short in FAMILIES[family].refused:
            raise EnvError(f"{name} {FAMILIES[family].refused[short]}.")
    for family in families:
        # What a user has registered is only there if the package is already loaded.
        if FAMILIES[family].user_registry in sys.modules and _load(family).is_registered(short):
            return family, short
    raise EnvError(f"There is no environment {name!r}{_suggest(name)} `pqn envs` lists them all.")


def _suggest(name: str) -> str:
    """The end of a sentence: ", did you mean …?", or a full stop when no name is close."""
    asked = name.lower().replace("_", "")
    family = name.partition(":")[0]
    rows = [info for info in available() if family not in FAMILIES or info.family == family]
    known = {info.name.lower().replace("_", ""): info.name for info in rows}
    stem = asked.partition(":")[2] or asked.partition("-")[0]
    close = [full for key, full in known.items() if len(stem) > 2 and stem in key]
    close = close or [known[key] for key in difflib.get_close_matches(asked, known, n=3, cutoff=0.6)]
    return f", did you mean {' or '.join(close[:3])}?" if close else "."


def _load(family: str) -> ModuleType:
    """Imports the module of a family; if a package is missing, the error names the command that installs it."""
    entry = FAMILIES[family]
    try:
        module = importlib.import_module(entry.module)
        if hasattr(module, "ensure_installed"):
            module.ensure_installed()
    except ModuleNotFoundError as error:
        package = (error.name or family).partition(".")[0]
        if package == "pqn":
            raise
        what = how_to_install(entry.extra) if entry.extra else f"pip install {package}"
        raise EnvError(f"{package} is not installed: {what}") from error
    return module
