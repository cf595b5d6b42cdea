"""Options of an environment, given as `--env.kwargs key=value`: defaults, bounds, and the checks of given values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pqn.errors import EnvError
from pqn.fields import brief

LARGEST = {int: 2**31 - 1, float: 1e30}  # for options without `most`: compiled programs have 32 bits

Value = bool | int | float | str
Chosen = dict[str, Any]
"""A value for each option of an environment. Its type is that of the option's default."""


class Option(NamedTuple):
    """An option of an environment. A given value must have the type of the default and be within the bounds."""

    default: Value
    least: float | None = None
    choices: tuple[str, ...] = ()
    most: float | None = None


def choose(name: str, options: Mapping[str, Option], given: Mapping[str, object]) -> Chosen:
    """The value of every option: the given one, otherwise its default.

    Raises:
      EnvError: an option that does not exist, or a value of the wrong kind or out of range.
    """
    for key in given:
        if key not in options:
            raise EnvError(f"{name} has no option {key!r}; its options are {', '.join(sorted(options))}.")
    return {key: _checked(name, key, given.get(key, option.default), option) for key, option in options.items()}


def as_number(value: object) -> int | float | None:
    """`value` if it is a number, None otherwise; true and false are no numbers."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _checked(name: str, key: str, value: object, option: Option) -> Value:
    """`value` as the type of the default."""
    default, least, choices, most = option
    if isinstance(default, str):
        if not isinstance(value, str) or value not in choices:
            raise EnvError(f"{name}: {key} must be one of {', '.join(choices)}, not {brief(value)}.")
        return value
    if isinstance(default, bool):
        if not (isinstance(value, bool) or value in (0, 1)):
            raise EnvError(f"{name}: {key} must be true or false, not {brief(value)}.")
        return bool(value)
    whole = isinstance(default, int)
    largest = LARGEST[int if whole else float]
    low, high = -largest if least is None else least, largest if most is None else most
    number = as_number(value)
    if number is not None and low <= number <= high and (not whole or float(number).is_integer()):
        return type(default)(number)
    kind = "an integer" if whole else "a number"
    bound = "" if least is None else f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"
    raise EnvError(f"{name}: {key} must be {kind}{bound}, not {brief(value)}.")
