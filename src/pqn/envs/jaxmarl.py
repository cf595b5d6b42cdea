"""What the JaxMARL adapters share: a quiet import, options in sentences, and agents as an axis.

jaxmarl keeps a dictionary per agent; the contract wants arrays [M, ...]. The adapters (`smax`, `overcooked`, `hanabi`,
`mpe`) stack the values in the order of `env.agents`, and go below jaxmarl's own `step`, which resets by itself and
loses the last observation, to its `step_env`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp

from pqn.errors import EnvError
from pqn.types import Array


class Option(NamedTuple):
    """An option of an environment: its default, whose type a given value must have, and what else must hold."""

    default: bool | int | float | str
    least: float | None = None
    choices: tuple[str, ...] = ()


def stack(agents: list[str], values: Mapping[str, Array]) -> Array:
    """name -> [...] to [M, ...], in the order of `agents`; other names, such as "world_state", are left out."""
    return jnp.stack([values[agent] for agent in agents])


def unstack(agents: list[str], values: Array) -> dict[str, Array]:
    """[M, ...] to name -> [...]."""
    return {agent: values[i] for i, agent in enumerate(agents)}


def choose(name: str, options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option's value: what was given, otherwise its default.

    Raises:
      EnvError: an option that does not exist, or a value of the wrong kind or out of range.
    """
    for key in given:
        if key not in options:
            raise EnvError(f"{name} has no option {key!r}; its options are {', '.join(sorted(options))}.")
    return {key: _checked(name, key, given.get(key, option.default), option) for key, option in options.items()}


def _checked(name: str, key: str, value: Any, option: Option) -> Any:
    """`value` as the type of the default."""
    default, least, choices = option
    if isinstance(default, str):
        if value not in choices:
            raise EnvError(f"{name}: {key} must be one of {', '.join(choices)}, not {value!r}.")
        return value
    if isinstance(default, bool):
        if not (isinstance(value, bool) or value in (0, 1)):
            raise EnvError(f"{name}: {key} must be true or false, not {value!r}.")
        return bool(value)
    whole = isinstance(default, int)
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or (whole and not float(value).is_integer()) or (least is not None and value < least):
        kind = "an integer" if whole else "a number"
        bound = "" if least is None else f" of at least {least:g}"
        raise EnvError(f"{name}: {key} must be {kind}{bound}, not {value!r}.")
    return type(default)(value)


def build(name: str, factory: Callable[..., Any], **arguments: Any) -> Any:
    """Calls jaxmarl's constructor; what it refuses becomes a sentence.

    Raises:
      EnvError: jaxmarl rejects the arguments.
    """
    try:
        with warnings.catch_warnings():
            # Overcooked announces its successor each time one is made; the paper's tasks are of the first version.
            warnings.simplefilter("ignore", DeprecationWarning)
            return factory(**arguments)
    except (AssertionError, ValueError, TypeError) as error:
        raise EnvError(f"{name} cannot be built: {str(error) or 'jaxmarl refuses these options'}.") from error


def load(module: str) -> Any:
    """Imports a module of jaxmarl without the lines that the package prints on its first import.

    Raises:
      ModuleNotFoundError: jaxmarl, or a package that it needs, is missing.
    """
    if sys.modules.get(module) is not None:
        return sys.modules[module]
    with _silence():
        return importlib.import_module(module)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Within the block nothing reaches stdout; afterwards stdout and stderr are what they were.

    While it loads, jaxmarl sets `sys.stdout` and `sys.stderr` to the original streams, which would undo a
    `redirect_stdout` and the capturing of a test runner: so the original stdout has to step aside as well.
    """
    before = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = before  # type: ignore[misc]


def ensure_installed() -> None:
    """Raises ModuleNotFoundError when jaxmarl, or a package that it needs, is missing."""
    load("jaxmarl")
