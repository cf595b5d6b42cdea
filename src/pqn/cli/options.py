"""From the configuration's dataclasses to command-line options and back.

Field names, types, defaults and docstrings are the only source: a field added to `pqn.options` is an option at once.
Written on argparse rather than taken from a library so that every mistake is answered by one sentence.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import math
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast

from pqn import renamed
from pqn.config import Config
from pqn.errors import ConfigError, suggest
from pqn.fields import Within, checked, describe, hints, is_group, split

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SHORT = {"env.name": ["--env"], "network.module": ["--network"]}
"""Shorter names of options."""

NEGATIVE = re.compile(r"-(\.?\d|inf|nan)", re.IGNORECASE)
"""How a word begins that is a value and no option. To argparse itself, -1e3 is an option up to Python 3.13."""

DASHES = "-–—−"  # texts that were typeset have other dashes than the shell wants

Fields = TypeVar("Fields", bound="DataclassInstance")


class Helped(Exception):
    """The help was asked for and shown; there is nothing else to do."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are `ConfigError`s and which suggests the word that was meant.

    Args:
      command: of `pqn`.
      names: words that may stand anywhere among the options, such as presets; `find_name` finds them.
      description: what the command does, for its help.
      usage: how it is called, where argparse would say it at too great length.
    """

    def __init__(
        self, command: str, names: Collection[str] = (), description: str | None = None, usage: str | None = None
    ):
        super().__init__(
            prog=f"pqn {command}",
            description=description,
            usage=usage,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.names = names
        self._negative_number_matcher = NEGATIVE

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (`{self.prog} --help` shows the options)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Helped

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parses; `_` and `-` are the same in option names, and options may come before or after other words."""
        argv = [_hyphenate(word) for word in argv]
        known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        for word in argv:
            name = word.partition("=")[0]
            if name.startswith("--") and len(name) > 2 and name not in known:
                new = renamed.OPTIONS.get(name[2:].replace("-", "_"))
                hint = f"; it is --{new.replace('_', '-')} now" if new else suggest(name.lower(), known)
                self.error(f"there is no option {name}{hint}")
        given, left = self.parse_known_intermixed_args(argv)
        if left:
            meant = left[0].lstrip(DASHES)
            option = meant != left[0] and meant[:1].isalpha()
            hint = suggest(f"--{meant.lower()}", known) if option else suggest(left[0], self.names)
            hint = "" if left[0] in self.names else hint
            self.error(f"{left[0]!r} is one word too many{hint}")
        return given

    def find_name(self, argv: list[str]) -> tuple[str | None, list[str]]:
        """The first of `names` that is not an option's value, and the other words.

        The first word is taken for a name if it is no option, whether it is known or not.
        """
        if argv and not argv[0].startswith("-"):
            return argv[0], argv[1:]
        for place, word in enumerate(argv):
            action = self._option_string_actions.get(_hyphenate(argv[place - 1])) if place else None
            if word in self.names and (action is None or action.nargs is not None):  # of one value, it would be that
                return word, argv[:place] + argv[place + 1 :]
        return None, argv


def _hyphenate(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def warn(text: str) -> None:
    """Tells the user something that is not part of the result."""
    print(f"pqn: {text}", file=sys.stderr, flush=True)


def add_config(parser: Parser, defaults: Config) -> None:
    """Adds an option for every field of the configuration; help shows the values of `defaults`."""
    for prefix, group in _groups(defaults):
        add_fields(parser, group, prefix or "run", prefix, skip=() if prefix else ("preset",))


def add_fields(
    parser: Parser, defaults: DataclassInstance, title: str, prefix: str = "", skip: Sequence[str] = ()
) -> None:
    """Adds a section with an option for every plain field of a dataclass; its docstring introduces the section."""
    section = parser.add_argument_group(title, inspect.cleandoc(type(defaults).__doc__ or ""))
    helps = field_docs(type(defaults))
    for name, hint in hints(type(defaults)).items():
        if is_group(hint) or name in skip:
            continue
        full = f"{prefix}.{name}" if prefix else name
        flags = [f"--{full.replace('_', '-')}", *SHORT.get(full, [])]
        about = [f"default: {_show(getattr(defaults, name))}", *_bounds(hint)]
        text = f"{helps[name]} ({'; '.join(about)})".replace("%", "%%")
        section.add_argument(*flags, dest=full, default=argparse.SUPPRESS, help=text, **_kind(hint))


def flat(config: Config) -> dict[str, object]:
    """Every option by its name on the command line."""
    entries = [
        (f"{prefix}.{name}" if prefix else name, getattr(group, name), hint)
        for prefix, group in _groups(config)
        for name, hint in hints(type(group)).items()
    ]
    return {name: value for name, value, hint in entries if not is_group(hint)}


def apply(defaults: Config, options: argparse.Namespace) -> Config:
    """The configuration with the options that were given."""
    names = {name for prefix, group in _groups(defaults) for name in _names(prefix, group)}
    return defaults.replace({name: value for name, value in vars(options).items() if name in names})


def replace(defaults: Fields, options: argparse.Namespace) -> Fields:
    """Any dataclass with the options that were given."""
    fields = hints(type(defaults))
    given = {name: value for name, value in vars(options).items() if name in fields}
    return dataclasses.replace(defaults, **{name: checked(name, fields[name], value) for name, value in given.items()})


def _groups(config: Config) -> list[tuple[str, DataclassInstance]]:
    parts = [(field.name, getattr(config, field.name)) for field in dataclasses.fields(config)]
    return [("", config), *((name, part) for name, part in parts if dataclasses.is_dataclass(part))]


def _names(prefix: str, group: DataclassInstance) -> list[str]:
    return [f"{prefix}.{field.name}" if prefix else field.name for field in dataclasses.fields(group)]


@functools.cache
def field_docs(cls: type) -> dict[str, str]:
    """The string literal below each field of a dataclass, which Python itself throws away."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    docs = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            docs[field.target.id] = " ".join(str(text.value.value).split())  # type: ignore[union-attr]
    return docs


def _bounds(hint: object) -> list[str]:
    """The bounds of a number, or of the numbers in a list, in words; nothing where there are none."""
    hint = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
    bare, bounds = split(hint)
    return [describe(hint)] if bare in (int, float) and bounds != Within() else []


def _kind(hint: object) -> dict[str, Any]:
    """How argparse should read a field of this type. The field itself checks the value."""
    bare, _ = split(hint)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    if origin is typing.Literal:
        return {"type": str, "metavar": "|".join(arguments)}
    if origin is tuple:
        return {"nargs": "*", **_kind(arguments[0])}
    if type(None) in arguments:  # an optional number: leaving it out is how to say None
        return _kind(arguments[0])
    if origin is dict:
        return {"nargs": "*", "type": pair, "metavar": "KEY=VALUE", "action": _Dict}
    if bare is bool:
        return {"nargs": "?", "const": True, "type": truth, "metavar": "true|false"}
    return {"type": {int: whole, float: number, str: str}[bare], "metavar": {int: "N", float: "X", str: "NAME"}[bare]}


def within(hint: object) -> Callable[[str], float]:
    """Reads a number that has bounds, for an option of a command that is no field of the configuration."""
    read = whole if split(hint)[0] is int else number

    def convert(text: str) -> float:
        try:
            return checked("it", hint, read(text))
        except ConfigError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {describe(hint)}") from None

    return convert


def path(text: str) -> str:
    """The name of a file or directory."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} names no file or directory")
    return text


class _Dict(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        found = getattr(namespace, self.dest, {})
        for key, value in cast(Sequence[tuple[str, object]], values):
            if key in found:
                parser.error(f"argument {option_string}: {key!r} is given twice")
            found = {**found, key: value}
        setattr(namespace, self.dest, found)


def whole(text: str) -> int:
    """A whole number; `1e7` and `10_000` are read too."""
    for read in (int, _whole_float):
        with contextlib.suppress(ValueError):
            return read(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")


def _whole_float(text: str) -> int:
    value = float(text)
    if not value.is_integer():  # infinity and NaN are not, either
        raise ValueError(text)
    return int(value)


def number(text: str) -> float:
    """A finite number."""
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")


def truth(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def pair(text: str) -> tuple[str, object]:
    """`size=10` → ("size", 10): the value is JSON where it can be, else a string; nothing at all is None."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    if not value:
        return key, None
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={entry}" for key, entry in value.items()) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def which_checkpoint(text: str) -> Literal["last", "best"] | int:
    """The name of a checkpoint, or its steps."""
    if text == "last" or text == "best":
        return text
    try:
        return whole(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither last, best nor a number of steps") from None


def add_network(parser: Parser) -> None:
    """The option that gives a run its network again, where that is the user's own."""
    parser.add_argument("--network", metavar="NAME", help="module:function, for a run with a network of your own")


def add_checkpoint(parser: Parser) -> None:
    """The option that says which checkpoint of a run is meant."""
    parser.add_argument(
        "--checkpoint",
        type=which_checkpoint,
        default="last",
        metavar="last|best|STEPS",
        help="which one (default: last)",
    )
