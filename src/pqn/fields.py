"""What a field of a configuration may hold: declared once, in its type hint, and checked here whoever sets it.

    lr: Annotated[float, Within(above=0.0)] = 1e-4

From the hint follow the check, which Python, the command line and config.json all have to pass, and the words of the
error and of `--help`. A value that passes is stored as plain Python: numpy's numbers become `int`, `float` and `bool`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import reprlib
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal, TypeGuard

from pqn.errors import ConfigError, suggest

LARGEST = 1e30  # of a float that names no other limit; single precision ends at 3.4e38
LONGEST = 64  # entries of a list
DEEPEST = 4  # lists in lists, in the options of an environment


@dataclasses.dataclass(frozen=True)
class Within:
    """The bounds of a number, or of every number in a tuple."""

    least: float = -LARGEST
    most: float = LARGEST
    above: float = -math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most and value > self.above


@dataclasses.dataclass(frozen=True)
class OneOf:
    """The texts that a field may hold: those that `names` holds when the value is checked."""

    names: Collection[str]


@dataclasses.dataclass(frozen=True)
class Options:
    """Base of the configuration's frozen dataclasses: an instance whose fields break their hints cannot be made.

    `prefix` is what the group's options start with: errors name `learner.lr`, not `lr`.
    """

    prefix: ClassVar[str] = ""

    def __init_subclass__(cls, prefix: str = "") -> None:
        cls.prefix = prefix

    def __post_init__(self) -> None:
        for name, hint in hints(type(self)).items():
            object.__setattr__(self, name, checked(self.prefix + name, hint, getattr(self, name)))


@functools.cache
def hints(cls: type) -> dict[str, object]:
    """The type hint of every field of a dataclass, bounds included."""
    found = typing.get_type_hints(cls, include_extras=True)
    return {field.name: found[field.name] for field in dataclasses.fields(cls)}


def checked(name: str, hint: object, value: object) -> Any:
    """`value` as plain Python.

    Raises:
      ConfigError: it is not what `hint` asks for; the sentence calls it `name`.
    """
    try:
        return _convert(hint, value)
    except _Unfit as unfit:
        said = unfit.instead or f" is {brief(value)}; it must be {describe(hint)}{unfit.more}"
        raise ConfigError(name + said) from None


def describe(hint: object) -> str:
    """The values of a field in words: `a whole number from 1 to 65536`."""
    hint, bounds = split(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin is tuple:
        return f"a list, each entry {describe(_bounded(arguments[0], bounds))}"
    if origin in (typing.Union, types.UnionType):
        return f"{describe(_bounded(arguments[0], bounds))}, or none"
    if origin is dict:
        return f"names with values, each {_JSON}"
    if is_group(hint):
        return f"of the kind {hint.__name__}"
    if hint in (int, float):
        return ("a whole number" if hint is int else "a number") + _range(hint, bounds)
    return {bool: "true or false", str: "a text on one line, not empty"}[hint]


def is_group(hint: object) -> TypeGuard[type[Options]]:
    """Whether a field is itself a dataclass of options."""
    return isinstance(hint, type) and issubclass(hint, Options)


def brief(value: object) -> str:
    """A value for a sentence: on one line, and short whatever it is."""
    try:
        text = _short.repr(value)
    except Exception:  # a foreign object whose repr fails, or a number of more digits than Python prints
        text = f"a {type(value).__name__}"
    return " ".join(text.split())


def split(hint: object) -> tuple[Any, Within]:
    """The bare type of a field and its bounds. `OneOf` becomes a `Literal`."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, Within()
    bare, *notes = typing.get_args(hint)
    for note in notes:
        if isinstance(note, OneOf):
            literal: Any = Literal
            return literal[tuple(note.names)], Within()
    return bare, next((note for note in notes if isinstance(note, Within)), Within())


class _Unfit(Exception):
    """A value that its field refuses. `more` closes the sentence about it; `instead` takes its place."""

    def __init__(self, more: str = "", instead: str = ""):
        self.more, self.instead = more, instead


_JSON = "a text, a finite number, true, false, or a list or mapping of these"
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def _range(kind: type, bounds: Within) -> str:
    """` from 0 to 1`, ` greater than 0 and at most 10`."""
    write = str if kind is int else "{:g}".format
    if math.isfinite(bounds.above):
        return f" greater than {write(bounds.above)} and at most {write(bounds.most)}"
    return "" if kind is int and bounds == Within() else f" from {write(bounds.least)} to {write(bounds.most)}"


def _bounded(hint: object, bounds: Within) -> object:
    """An entry's hint with the bounds of its list, if it has none of its own."""
    return hint if typing.get_origin(hint) is typing.Annotated else typing.Annotated[hint, bounds]


def _convert(hint: object, value: object) -> object:
    bare, bounds = split(hint)
    value = _unwrap(value)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    if origin is Literal:
        return _choice(arguments, value)
    if origin is tuple:
        return _entries(_bounded(arguments[0], bounds), value)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _convert(_bounded(arguments[0], bounds), value)
    if origin is dict:
        return _pairs(value)
    if bare in (int, float):
        return _number(bare, bounds, value)
    if not isinstance(value, bare):
        raise _Unfit()
    if isinstance(value, str) and not (value and value.isprintable()):
        raise _Unfit()
    return value


def _unwrap(value: object) -> object:
    """numpy's and jax's scalars and arrays as Python's numbers and lists."""
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) and not isinstance(value, type) else value


def _number(kind: type, bounds: Within, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _Unfit()
    try:
        number = int(value) if isinstance(value, numbers.Integral) else float(value)
        number = _whole(number) if kind is int else float(number)
    except OverflowError:  # an integer that no float can hold
        raise _Unfit() from None
    if number not in bounds:  # as infinity and NaN never are
        raise _Unfit()
    return number


def _whole(number: float) -> int:
    if isinstance(number, float) and not number.is_integer():  # 1e6 is whole; infinity and NaN are not
        raise _Unfit()
    return int(number)


def _choice(choices: tuple[str, ...], value: object) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _Unfit(suggest(value, choices) if isinstance(value, str) else "")
    return choices[choices.index(value)]


def _entries(hint: object, value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise _Unfit()
    if len(value) > LONGEST:
        raise _Unfit(f", and there may be at most {LONGEST}")
    entries = tuple(_convert(hint, entry) for entry in value)
    if typing.get_origin(split(hint)[0]) is Literal and len(set(entries)) < len(entries):
        raise _Unfit(", and none twice")
    return entries


def _pairs(value: object) -> dict[str, object]:
    """Options by name. None stands for an option's own default, so such a pair is left out."""
    if not isinstance(value, Mapping):
        raise _Unfit()
    for key in value:
        if not (isinstance(key, str) and key.isidentifier()):
            raise _Unfit(instead=f" has {brief(key)}; a name is made of letters, digits and _")
    return {key: _json(key, entry, DEEPEST) for key, entry in value.items() if entry is not None}


def _json(key: str, value: object, depth: int) -> object:
    """A value that a trip through JSON does not change."""
    value = _unwrap(value)
    if isinstance(value, bool) or (isinstance(value, str) and value.isprintable()):
        return value
    if isinstance(value, numbers.Integral) and -(2**63) <= int(value) < 2**63:
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple) and depth:
        return [_json(key, entry, depth - 1) for entry in value]
    if isinstance(value, Mapping) and depth and all(isinstance(name, str) and name.isprintable() for name in value):
        return {name: _json(key, entry, depth - 1) for name, entry in value.items()}
    raise _Unfit(instead=f".{key} is {brief(value)}; it must be {_JSON}")
