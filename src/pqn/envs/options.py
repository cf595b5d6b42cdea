"""Options of an environment, given as `--env.kwargs key=value`, and the sentences that wrong ones get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pqn.errors import EnvError
from pqn.fields import brief

LARGEST = {int: 2**31 - 1, float: 1e30}  # of an option that names no other limit; the compiled program has 32 bits


class Option(NamedTuple):
    """An option of an environment: its default, whose type a given value must have, and what else must hold."""

    default: bool | int | float | str
    least: float | None = None
    choices: tuple[str, ...] = ()
    most: float | None = None


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
    default, least, choices, most = option
    if isinstance(default, str):
        if value not in choices:
            raise EnvError(f"{name}: {key} must be one of {', '.join(choices)}, not {brief(value)}.")
        return value
    if isinstance(default, bool):
        if not (isinstance(value, bool) or value in (0, 1)):
            raise EnvError(f"{name}: {key} must be true or false, not {brief(value)}.")
        return bool(value)
    whole = isinstance(default, int)
    largest = LARGEST[int if whole else float]
    low, high = -largest if least is None else least, largest if most is None else most
    number = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not number or (whole and not float(value).is_integer()):
        kind = "an integer" if whole else "a number"
        bound = "" if least is None else f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"
        raise EnvError(f"{name}: {key} must be {kind}{bound}, not {brief(value)}.")
    return type(default)(value)
