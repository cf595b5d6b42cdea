"""From a name to an environment: `make("CartPole-v1", num_envs=64)`.

Three forms of name are understood: an id that a family knows ("CartPole-v1", "Breakout-MinAtar"), the same with the
family in front ("probe:two-step"), and "module:function" for an environment of the user's own. Importing this module
costs nothing: jax and the simulators are loaded when an environment is made.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pqn.envs import atari_games
from pqn.errors import EnvError

if TYPE_CHECKING:
    from pqn.envs.contract import HostEnv, JaxEnv


class EnvInfo(NamedTuple):
    """A row of `pqn envs`."""

    name: str
    family: str
    description: str


class Family(NamedTuple):
    """Where a family lives; its module has `make(name, num_envs, **kwargs)`, which gives a `JaxEnv` or a `HostEnv`."""

    module: str
    names: dict[str, str]  # name -> short description
    refused: dict[str, str]  # names that exist but that we do not offer -> why, as the rest of a sentence
    extra: str | None = None  # the optional dependency that brings its package; None: a core dependency
    prefixed: bool = False  # whether names are written "family:name"; otherwise the bare name is the common form
    summary: str = ""  # where there are too many names for a row each in `pqn envs`: what they have in common
    open: bool = False  # whether any name may follow the prefix: the package has a registry of its own
    packages: tuple[str, ...] = ()  # distributions whose versions decide what its environments do


GIVEN_IN_PYTHON = "python"  # the prefix under which a run records an environment that has no name here

_CONTINUOUS = "has continuous actions, and Q-learning takes a maximum over finitely many"

# Ids are listed here, and not asked of gymnax, because asking means importing it. A test compares the two.
_GYMNAX = Family(
    module="pqn.envs.adapters.gymnax",
    names={
        "CartPole-v1": "balance a pole on a cart; 500 steps",
        "Acrobot-v1": "swing a two-link pendulum up; 500 steps",
        "MountainCar-v0": "rock a car out of a valley; sparse reward, 200 steps",
        "Asterix-MinAtar": "collect gold, avoid enemies; 10x10x4",
        "Breakout-MinAtar": "break bricks with a ball; 10x10x4",
        "Freeway-MinAtar": "cross the road; 10x10x7",
        "Seaquest-MinAtar": "rescue divers under fire; 10x10x10 (slow to simulate)",
        "SpaceInvaders-MinAtar": "shoot the aliens; 10x10x6",
        "Catch-bsuite": "catch the falling ball; option rows, columns",
        "DeepSea-bsuite": "deep exploration; option size",
        "MemoryChain-bsuite": "recall a bit after memory_length steps",
        "UmbrellaChain-bsuite": "credit assignment over chain_length steps with noisy rewards",
        "DiscountingChain-bsuite": "choose among rewards after 1, 3, 10, 30 or 100 steps",
        "SimpleBandit-bsuite": "one-step bandit whose arms are shuffled every episode",
        "FourRooms-misc": "navigate four rooms with slipping moves",
        "MetaMaze-misc": "find the hidden goal of a maze again and again; needs memory",
        "BernoulliBandit-misc": "two-armed Bernoulli bandit over 100 pulls; needs memory",
        "GaussianBandit-misc": "fixed arm against a Gaussian one over 100 pulls; needs memory",
        "Pong-misc": "keep the ball in play; 30x40x3",
        "FrozenLake-misc": "cross the slippery ice; option map_name 4x4 or 8x8",
    },
    refused={
        "Pendulum-v1": _CONTINUOUS,
        "MountainCarContinuous-v0": _CONTINUOUS,
        "PointRobot-misc": _CONTINUOUS,
        "Reacher-misc": _CONTINUOUS,
        "Swimmer-misc": _CONTINUOUS,
        "MNISTBandit-bsuite": "downloads its data set when it is made, which we do not do behind your back",
    },
    packages=("gymnax",),
)
_PROBE = Family(
    module="pqn.envs.probe",
    names={
        "one-step": "one state, one reward: V = 1",
        "observed-reward": "the reward is the observation",
        "two-step": "the reward comes one step late: V = γ, then 1",
        "action-matters": "one action pays 1, the other -1",
        "match": "pays 1 for the action that matches the observation",
        "endless": "reward 1 for ever, cut by a time limit: V = 1/(1-γ) with bootstrapping at truncation",
        "end-or-cut": "one start terminates, another is truncated into a third",
        "random-length": "reward 1, goes on with probability p: V = 1/(1-γp)",
        "gridworld": "4x3 slippery grid with a known model, for value iteration",
        "masked": "the illegal action would pay the most",
        "memory": "recall the cue of the first step after `delay` steps",
        "counter": "every transition can be verified from its observation",
        "team-match": "two agents, a cue each: a sum of values is exact",
        "two-step-game": "two agents whose payoff no sum of values can express, but QMIX can",
    },
    refused={},
    prefixed=True,
)
_CRAFTAX = Family(
    module="pqn.envs.adapters.craftax",
    names={
        "Craftax-Symbolic-v1": "survive and explore nine floors, 67 achievements; 8268 numbers",
        "Craftax-Classic-Symbolic-v1": "Crafter on the surface, 22 achievements; 1345 numbers",
        "Craftax-Pixels-v1": "Craftax from images; 130x110x3 (prepares textures once)",
        "Craftax-Classic-Pixels-v1": "Craftax-Classic from images; 63x63x3 (prepares textures once)",
    },
    refused={},
    extra="craftax",
    packages=("craftax",),
)
_SMAX = Family(
    module="pqn.envs.adapters.smax",
    names={
        "3m": "3 marines a side",
        "2s3z": "2 stalkers and 3 zealots a side",
        "25m": "25 marines a side",
        "3s5z": "3 stalkers and 5 zealots a side",
        "8m": "8 marines a side",
        "5m_vs_6m": "5 marines against 6",
        "10m_vs_11m": "10 marines against 11",
        "27m_vs_30m": "27 marines against 30",
        "3s5z_vs_3s6z": "3 stalkers and 5 zealots against 3 and 6",
        "3s_vs_5z": "3 stalkers against 5 zealots",
        "6h_vs_8z": "6 hydralisks against 8 zealots",
        "smacv2_5_units": "5 units a side, types and places drawn anew for every battle",
        "smacv2_10_units": "10 units a side, types and places drawn anew for every battle",
        "smacv2_20_units": "20 units a side, types and places drawn anew for every battle",
    },
    refused={},
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_OVERCOOKED = Family(
    module="pqn.envs.adapters.overcooked",
    names={
        "cramped_room": "two cooks in one small kitchen; option shaping_steps",
        "asymm_advantages": "two kitchens, each closer to something; option shaping_steps",
        "coord_ring": "two cooks must circle the same way; option shaping_steps",
        "forced_coord": "two cooks pass everything over a counter; option shaping_steps",
        "counter_circuit": "a ring around a long counter; option shaping_steps",
    },
    refused={},
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_HANABI = Family(
    module="pqn.envs.adapters.hanabi",
    names={str(n): f"the card game for {n} players; options num_colors, num_ranks, hand_size" for n in range(2, 6)},
    refused={},
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_MPE = Family(
    module="pqn.envs.adapters.mpe",
    names={
        "simple_spread": "3 particles cover 3 landmarks without colliding; option num_agents, local_ratio",
        "simple_speaker_listener": "one particle tells the other where to go; agents that differ",
    },
    refused={},
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_ATARI = Family(
    module="pqn.envs.adapters.atari",
    names={
        game: f"Atari 2600: {atari_games.title(game)}" for game in sorted((*atari_games.ATARI_57, *atari_games.OTHERS))
    },
    refused=dict.fromkeys(atari_games.TWO_PLAYERS, "needs two players"),
    extra="atari",
    prefixed=True,
    summary="Atari 2600 on ale-py, which is GPL-2.0; options protocol (paper, dopamine), threads, sticky_actions, …",
    packages=("ale-py",),
)
_GYMNASIUM = Family(
    module="pqn.envs.adapters.gymnasium",
    names={
        "LunarLander-v3": "land between the flags (needs gymnasium[box2d]); any other id of your gymnasium works, too",
    },
    refused={},
    extra="gymnasium",
    prefixed=True,
    open=True,
    packages=("gymnasium",),
)
FAMILIES: dict[str, Family] = {
    "gymnax": _GYMNAX,
    "probe": _PROBE,
    "craftax": _CRAFTAX,
    "smax": _SMAX,
    "overcooked": _OVERCOOKED,
    "hanabi": _HANABI,
    "mpe": _MPE,
    "atari": _ATARI,
    "gymnasium": _GYMNASIUM,
}


def make(name: str, /, num_envs: int, **kwargs: Any) -> JaxEnv | HostEnv:
    """Builds N copies of the environment `name`; kwargs are its own options.

    Raises:
      EnvError: with one sentence that says what is wrong and, for a misspelt name, what was probably meant.
    """
    if num_envs < 1:
        raise EnvError(f"num_envs must be at least 1, not {num_envs}.")
    family_name, short = _resolve(name)
    if family_name is None:
        return _make_user_env(name, num_envs, kwargs)
    for taken in {"name", "game"} & set(kwargs):  # our own functions' first parameter
        raise EnvError(f"{name} has no option {taken!r}.")
    return _load(family_name).make(short, num_envs, **kwargs)


def is_registered(name: str) -> bool:
    """Whether `name` is of a family here, and not "module:function".

    Raises:
      EnvError: it is neither.
    """
    return _resolve(name)[0] is not None


def canonical(name: str) -> str:
    """One spelling for each environment: "gymnax:CartPole-v1" of "CartPole-v1"; a function's name stays as it is."""
    family, short = _resolve(name)
    return name if family is None else f"{family}:{short}"


def is_harmless(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether making this environment runs nothing but code of pqn and of the packages that its family names.

    This is what a name in somebody's run directory must be to be made without the user naming it again. A function is
    not; nor is an id of Gymnasium that makes it import a module ("module:Name-v0"), that is not Gymnasium's own, or
    whose options could be a path or another id.
    """
    family, short = _resolve(name)
    if family is None:
        return False
    if not FAMILIES[family].open:
        return True
    words = all(
        isinstance(value, bool | int | float) or (isinstance(value, str) and re.fullmatch(r"[\w+-]{0,64}", value))
        for value in kwargs.values()
    )
    return words and "render_mode" not in kwargs and ":" not in short and _load(family).is_own(short)


def packages(name: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The distributions behind a registered environment."""
    family, _ = _resolve(name)
    if family == "atari" and kwargs.get("backend") == "envpool":
        return ("envpool",)
    return FAMILIES[family].packages if family else ()


def available() -> list[EnvInfo]:
    """Every environment that `make` can build by name, in the order of the families."""
    return [
        EnvInfo(f"{family}:{name}" if entry.prefixed else name, family, description)
        for family, entry in FAMILIES.items()
        for name, description in entry.names.items()
    ]


def as_jax_env(env: Any, num_envs: int, source: str = "the environment") -> JaxEnv:
    """Accepts a `JaxEnv` of the right size, or wraps a `SingleEnv` in `Autoreset`.

    Raises:
      EnvError: `env` is neither, naming what it lacks, or has another number of environments.
    """
    from pqn.envs.contract import Autoreset
    from pqn.types import EnvSpec

    missing = _missing(env, ("spec",), ("reset", "step"))
    if missing:
        parts = " and ".join(f"`{part}`" for part in missing)
        raise EnvError(f"{source} is a {type(env).__name__} without {parts}; see JaxEnv and SingleEnv in pqn.envs.")
    if not isinstance(env.spec, EnvSpec):
        raise EnvError(f"{source} has a `spec` of type {type(env.spec).__name__}; it must be a pqn.types.EnvSpec.")
    if not hasattr(env, "num_envs"):
        return Autoreset(env, num_envs)
    if env.num_envs != num_envs:
        raise EnvError(f"{source} has {env.num_envs} environments where {num_envs} were asked for.")
    return env


def as_env(env: Any, num_envs: int, source: str = "the environment") -> JaxEnv | HostEnv:
    """`as_jax_env`, which also lets a `HostEnv` of the right size pass."""
    from pqn.envs.contract import HostEnv
    from pqn.types import EnvSpec

    if not hasattr(env, "send"):
        return as_jax_env(env, num_envs, source)
    missing = _missing(env, ("spec", "num_envs"), ("reset", "send", "recv", "close"))
    if missing or not isinstance(env, HostEnv):
        parts = " and ".join(f"`{part}`" for part in missing)
        raise EnvError(f"{source} is a {type(env).__name__} without {parts}; see HostEnv in pqn.envs.")
    if not isinstance(env.spec, EnvSpec):
        raise EnvError(f"{source} has a `spec` of type {type(env.spec).__name__}; it must be a pqn.types.EnvSpec.")
    if env.num_envs != num_envs:
        raise EnvError(f"{source} has {env.num_envs} environments where {num_envs} were asked for.")
    return env


def _missing(env: Any, attributes: tuple[str, ...], methods: tuple[str, ...]) -> list[str]:
    lacking = [name for name in attributes if not hasattr(env, name)]
    return lacking + [name for name in methods if not callable(getattr(env, name, None))]


def _resolve(name: str) -> tuple[str | None, str]:
    """The family and the name within it; family None for "module:function"."""
    prefix, colon, rest = name.partition(":")
    if prefix == GIVEN_IN_PYTHON and colon:
        raise EnvError(f"{name} was given in Python and has no name by which it could be made; give it again as env=…")
    if colon:
        if prefix not in FAMILIES:
            return None, name
        families, short = [prefix], rest
        if FAMILIES[prefix].open:
            return prefix, short
    else:
        families, short = [family for family, entry in FAMILIES.items() if not entry.prefixed], name
    for family in families:
        if short in FAMILIES[family].names:
            return family, short
        if short in FAMILIES[family].refused:
            raise EnvError(f"{name} {FAMILIES[family].refused[short]}.")
    # What the user registered with gymnax at run time works as well; that cannot be unless gymnax is loaded.
    if "gymnax" in families and "gymnax" in sys.modules and _load("gymnax").is_registered(short):
        return "gymnax", short
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


def _load(family: str) -> Any:
    """Imports the module of a family; a package that it lacks becomes a sentence with the command that installs it."""
    entry = FAMILIES[family]
    try:
        module = importlib.import_module(entry.module)
        getattr(module, "ensure_installed", lambda: None)()
    except ModuleNotFoundError as error:
        package = (error.name or family).partition(".")[0]
        if package == "pqn":
            raise
        what = f"pip install 'pqn-jax[{entry.extra}]'" if entry.extra else f"pip install {package}"
        raise EnvError(f"{package} is not installed: {what}") from error
    return module


def _make_user_env(name: str, num_envs: int, kwargs: dict[str, Any]) -> JaxEnv | HostEnv:
    """Imports "module:function" with the current directory on the path, calls it, and wraps the result."""
    function = _import_function(name)
    arguments = dict(kwargs)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables written in C have none
        signature = None
    if signature is not None:
        if "num_envs" in signature.parameters:
            arguments["num_envs"] = num_envs
        try:
            signature.bind(**arguments)
        except TypeError as error:
            takes = ", ".join(p for p in signature.parameters if p != "num_envs") or "none"
            raise EnvError(f"{name} cannot be called with these options: {error}; its options are: {takes}.") from error
    try:
        env = function(**arguments)
    except Exception as error:
        raise EnvError(f"{name} raised {in_one_line(error)}") from error
    return as_env(env, num_envs, source=f"what {name} returned")


def _import_function(name: str) -> Any:
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise EnvError(f"{name!r} names no environment; write module:function, as in my_module:make_env.")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does, and kept: the module may import its neighbours later
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            known = ", ".join(FAMILIES)
            raise EnvError(
                f"There is no module {error.name!r} for {name!r}, in this directory or installed, "
                f"and the families of environments are {known}{_suggest(name)}"
            ) from error
        raise EnvError(f"The module {module_name} needs {error.name!r}, which is not installed.") from error
    except Exception as error:
        raise EnvError(f"The module {module_name} could not be imported: {in_one_line(error)}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        close = difflib.get_close_matches(function_name, names, n=1)
        hint = f", did you mean {close[0]}?" if close else "."
        what = "is not a function" if hasattr(module, function_name) else "does not exist"
        raise EnvError(f"{function_name} {what} in the module {module_name}{hint}")
    return function


def in_one_line(error: Exception) -> str:
    """The error of the user's code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    message = str(error).strip().splitlines()
    return f"{type(error).__name__}: {message[0] if message else 'no message'}{where}"
