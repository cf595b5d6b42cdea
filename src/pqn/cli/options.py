"""From the configuration's dataclasses to command-line options and back.

Field names, types, defaults and docstrings are the only source: a field added to `pqn.config` is an option at once.
Written on argparse rather than taken from a library so that every mistake is answered by one sentence.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import itertools
import json
import textwrap
import typing
from collections.abc import Sequence
from typing import Any, NoReturn

from pqn.config import Config
from pqn.errors import ConfigError, suggest


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are `ConfigError`s and which suggests the option that was meant."""

    def __init__(self, command: str, **kwargs: Any):
        super().__init__(
            prog=f"pqn {command}",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **kwargs,
        )

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (`{self.prog} --help` shows the options)")

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parses; `_` and `-` are the same in option names."""
        argv = [_hyphenate(word) for word in argv]
        known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        for word in argv:
            name = word.partition("=")[0]
            if name.startswith("--") and len(name) > 2 and name not in known:
                self.error(f"there is no option {name}{suggest(name, known)}")
        return self.parse_args(argv)


def _hyphenate(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def add_config(parser: Parser, defaults: Config) -> None:
    """Adds an option for every field of the configuration; help shows the values of `defaults`."""
    for prefix, group in _groups(defaults):
        section = parser.add_argument_group(prefix or "run", inspect.cleandoc(type(group).__doc__ or ""))
        add_fields(section, group, prefix, skip=() if prefix else ("preset",))


def add_fields(section: Any, defaults: Any, prefix: str = "", skip: Sequence[str] = ()) -> None:
    """Adds an option for every plain field of a dataclass."""
    hints, helps = typing.get_type_hints(type(defaults)), field_docs(type(defaults))
    for field in dataclasses.fields(defaults):
        value = getattr(defaults, field.name)
        if dataclasses.is_dataclass(value) or field.name in skip:
            continue
        name = f"{prefix}.{field.name}" if prefix else field.name
        flags = [f"--{name.replace('_', '-')}"] + (["--env"] if name == "env.name" else [])
        text = f"{helps[field.name]} (default: {_show(value)})".replace("%", "%%")
        section.add_argument(*flags, dest=name, default=argparse.SUPPRESS, help=text, **_kind(hints[field.name]))


def apply(defaults: Config, options: argparse.Namespace) -> Config:
    """The configuration with the options that were given."""
    names = {name for prefix, group in _groups(defaults) for name in _names(prefix, group)}
    return defaults.replace({name: value for name, value in vars(options).items() if name in names})


def replace(defaults: Any, options: argparse.Namespace) -> Any:
    """Any dataclass with the options that were given."""
    names = {field.name for field in dataclasses.fields(defaults)}
    return dataclasses.replace(defaults, **{name: value for name, value in vars(options).items() if name in names})


def _groups(config: Config) -> list[tuple[str, Any]]:
    parts = [(field.name, getattr(config, field.name)) for field in dataclasses.fields(config)]
    return [("", config), *((name, part) for name, part in parts if dataclasses.is_dataclass(part))]


def _names(prefix: str, group: Any) -> list[str]:
    return [f"{prefix}.{field.name}" if prefix else field.name for field in dataclasses.fields(group)]


def field_docs(cls: type) -> dict[str, str]:
    """The string literal below each field of a dataclass, which Python itself throws away."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    docs = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            docs[field.target.id] = " ".join(str(text.value.value).split())  # type: ignore[union-attr]
    return docs


def _kind(hint: Any) -> dict[str, Any]:
    """How argparse should read a field of this type."""
    if typing.get_origin(hint) is typing.Literal:
        return {"choices": typing.get_args(hint)}
    if typing.get_origin(hint) is tuple:
        return {"nargs": "*", "action": _Tuple, **_kind(typing.get_args(hint)[0])}
    if type(None) in typing.get_args(hint):  # an optional number: leaving it out is how to say None
        return _kind(typing.get_args(hint)[0])
    if typing.get_origin(hint) is dict:
        return {"nargs": "*", "type": pair, "metavar": "KEY=VALUE", "action": _Dict}
    if hint is bool:
        return {"nargs": "?", "const": True, "type": truth, "metavar": "true|false"}
    return {"type": {int: whole, float: number, str: str}[hint], "metavar": {int: "N", float: "X", str: "NAME"}[hint]}


class _Tuple(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, tuple(values))


class _Dict(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, dict(values))


def whole(text: str) -> int:
    """A whole number; `1e7` and `10_000` are welcome."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text) if text.lstrip("+-").replace("_", "").isdigit() else int(value)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def truth(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def pair(text: str) -> tuple[str, Any]:
    """`size=10` → ("size", 10): the value is JSON where it can be, else a string."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={entry}" for key, entry in value.items()) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
