"""Options that have a new name: old runs are read with the old one, and nothing else takes it.

`read` is applied to every configuration that comes from a file. On the command line and in `Config.replace` an old name
is an error that names the new one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pqn.errors import ConfigError

OPTIONS = {
    "env.cores": "simulators.cores",
    "learner.overlap": "simulators.overlap",
    "eval.beside": "simulators.greedy_envs",
    "save.logs": "log.rows",
    "save.loggers": "log.to",
    "save.stability": "log.stability",
}
"""Old name -> new name, each as `group.option`."""

VALUES = {"env.cores": {"apart": "reserved"}}
"""Old name of an option -> its old values and what they are called now."""


def read(data: object) -> object:
    """The options of a file, groups of names with values, under their present names; anything else as it is.

    Raises:
      ConfigError: an option is there under both names.
    """
    if not isinstance(data, Mapping):
        return data
    present = {name: dict(part) if isinstance(part, Mapping) else part for name, part in data.items()}
    for old, new in OPTIONS.items():
        (old_group, old_option), (new_group, new_option) = old.split("."), new.split(".")
        source = present.get(old_group)
        if not isinstance(source, dict) or old_option not in source:
            continue
        value = source.pop(old_option)
        target = present.setdefault(new_group, {})
        if not isinstance(target, dict) or new_option in target:
            raise ConfigError(f"{old} and {new} are both there; {new} is the present name of {old}")
        target[new_option] = VALUES.get(old, {}).get(value, value) if isinstance(value, str) else value
    return present
