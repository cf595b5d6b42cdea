"""Options of an environment, given as `--env.kwargs key=value`, and the sentences that wrong ones get."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pqn.errors import EnvError


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
            raise EnvError(f"{name}: {key} must be one of {', '.join(choices)}, not {value!r}.")
        return value
    if isinstance(default, bool):
        if not (isinstance(value, bool) or value in (0, 1)):
            raise EnvError(f"{name}: {key} must be true or false, not {value!r}.")
        return bool(value)
    whole = isinstance(default, int)
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if not number or (whole and not float(value).is_integer()) or not low <= value <= high:
        kind = "an integer" if whole else "a number"
        bound = "" if least is None else f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"
        raise EnvError(f"{name}: {key} must be {kind}{bound}, not {value!r}.")
    return type(default)(value)
