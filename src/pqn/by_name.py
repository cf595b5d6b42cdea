"""Options by their names: changing some, and making all of them from what a file says.

Nothing here knows a particular option: names and groups are those of the dataclasses (see `pqn.fields`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

from pqn import renamed
from pqn.errors import ConfigError, suggest
from pqn.fields import Options, brief, hints, is_group

Group = TypeVar("Group", bound=Options)


def changed(options: Group, changes: Mapping[str, object]) -> Group:
    """A copy with some options changed, each by its full name, such as `learner.lr`.

    Raises:
      ConfigError: there is no such option, or its value has the wrong type or is out of bounds.
    """
    for name, value in changes.items():
        options = _set(options, name, str(name).split("."), value, type(options))
    return options


def made(cls: type[Group], data: object) -> Group:
    """An instance with the values of `data`, by name, those of a group in a mapping of its own; the others default.

    Raises:
      ConfigError: a name is unknown, or a value has the wrong type or is out of bounds.
    """
    return _made(cls, data, "", cls)


def _made(cls: type[Group], data: object, prefix: str, whole: type[Options]) -> Group:
    """`made` of one group; `prefix` stands before the names of its options, and `whole` has all groups."""
    fields = hints(cls)
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"{prefix.rstrip('.') or 'the configuration'} is {brief(data)}; it must be a group of options"
        )
    values = {}
    for name, value in data.items():
        if name not in fields:
            raise ConfigError(_unknown(f"{prefix}{name}", str(name), fields, whole))
        hint = fields[name]
        values[name] = _made(hint, value, f"{name}.", whole) if is_group(hint) else value
    return cls(**values)


def _set(config: Group, name: str, path: list[str], value: object, whole: type[Options]) -> Group:
    """A copy of `config` with the option at `path` changed; `name` is its full name and `whole` has all groups."""
    fields = hints(type(config))
    first, *rest = path
    if first not in fields:
        raise ConfigError(_unknown(name, first, fields, whole))
    current = getattr(config, first)
    if isinstance(current, dict):
        value = current | _merged(name, rest, value)
    elif rest:
        if not isinstance(current, Options):
            raise ConfigError(f"there is no option {brief(name)}: {first} has no parts")
        value = _set(current, name, rest, value, whole)
    elif isinstance(current, Options) and not isinstance(value, type(current)):
        part = next(iter(hints(type(current))))
        raise ConfigError(f"{name} is a group of options; set one of its parts, such as '{name}.{part}'")
    return dataclasses.replace(config, **{first: value})


def _unknown(name: object, part: str, known: Iterable[str], whole: type[Options]) -> str:
    """The sentence about an option that does not exist; `part` is the word of its name that is not among `known`."""
    if name in renamed.OPTIONS:
        return f"there is no option {name}; it is {renamed.OPTIONS[str(name)]} now"
    full = _full_names(str(name).rpartition(".")[2], whole)
    return f"there is no option {brief(name)}{suggest(full[0], full) if full else suggest(part, known)}"


def _full_names(word: str, whole: type[Options]) -> list[str]:
    """The options of groups that end in a word: ["learner.lr"] for "lr", whose group a newcomer does not know."""
    groups = {name: hint for name, hint in hints(whole).items() if is_group(hint)}
    return [f"{name}.{word}" for name, hint in groups.items() if word in hints(hint)]


def _merged(name: str, rest: list[str], value: object) -> dict[str, object]:
    """What is to be added to the options of an environment."""
    if rest:
        return {".".join(rest): value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is {brief(value)}; it must be a mapping of names to values")
    return dict(value)
