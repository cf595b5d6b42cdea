"""What a search may vary: a TOML file with one entry for each option.

    learner.lr = {low = 1e-5, high = 1e-2, log = true}
    learner.lam = {low = 0.0, high = 1.0}
    learner.epochs = {low = 1, high = 4}
    network.norm = ["layer", "batch", "none"]

A list has the values to choose from. A table has the bounds of a number, which are included; `log = true` tries each
order of magnitude equally often, `step` allows only low, low + step, …
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pqn.config import Config, refuse_preset
from pqn.errors import ConfigError, RunError
from pqn.fields import brief
from pqn.runs import files

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

MOST_BYTES = 2**20
_KEYS = {"low", "high", "log", "step"}


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), self.log, int(self.step or 1))
        return FloatDistribution(self.low, self.high, self.log, self.step)

    def value(self, found: object) -> object:
        return found


@dataclasses.dataclass(frozen=True)
class Choice:
    """Some values."""

    values: tuple[object, ...]

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution([_plain(value) for value in self.values])

    def value(self, found: object) -> object:
        return next(value for value in self.values if _plain(value) == found)


@dataclasses.dataclass(frozen=True)
class Space:
    """The options that a search varies, by their full names."""

    dimensions: Mapping[str, Range | Choice]

    def options(self, params: Mapping[str, object]) -> dict[str, object]:
        """What Optuna has chosen, as options of a configuration."""
        return {name: self.dimensions[name].value(found) for name, found in params.items()}

    def to_dict(self) -> dict[str, object]:
        return {name: dataclasses.asdict(dimension) for name, dimension in self.dimensions.items()}


def read_space(path: Path, base: Config) -> Space:
    """Reads a file and checks that every value in it is one that its option may have.

    Raises:
      ConfigError: with what is wrong in the file.
    """
    try:
        entries = _flat(tomllib.loads(files.read_given(path, MOST_BYTES).decode()))
    except RunError as error:
        raise ConfigError(f"--space {error}") from error
    except RecursionError as error:
        raise ConfigError(f"--space {path} is nested too deeply") from error
    except ValueError as error:  # of TOML, or of UTF-8
        raise ConfigError(f"--space {path} is not TOML: {error}") from error
    if not entries:
        raise ConfigError(f"--space {path} is empty; write for example learner.lr = {{low = 1e-5, high = 1e-2}}")
    dimensions = {}
    for name, entry in entries.items():
        try:
            dimensions[name] = _dimension(name, entry, base)
        except ConfigError as error:
            raise ConfigError(f"--space {path}: {error}") from error
    return Space(dimensions)


def _flat(data: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Entries by the full names of their options: TOML reads `learner.lr` as a table in a table."""
    found: dict[str, object] = {}
    for key, value in data.items():
        name = f"{prefix}{key.replace('-', '_')}"
        table = isinstance(value, Mapping) and not _KEYS & value.keys()
        found |= _flat(value, f"{name}.") if table and isinstance(value, Mapping) else {name: value}
    return found


def _dimension(name: str, entry: object, base: Config) -> Range | Choice:
    refuse_preset(name)
    if isinstance(entry, list):
        if not entry:
            raise ConfigError(f"{name} has no values to choose from")
        for value in entry:
            base.replace({name: value})
        if len({_plain(value) for value in entry}) < len(entry):
            raise ConfigError(f"{name} has a value twice")
        return Choice(tuple(entry))
    if isinstance(entry, Mapping) and {"low", "high"} <= entry.keys() <= _KEYS:
        return _range(name, entry, base)
    raise ConfigError(
        f"{name} is {brief(entry)}; it must be a list of values, or {{low = …, high = …}} with log or step if you like"
    )


def _range(name: str, entry: Mapping[str, object], base: Config) -> Range:
    low, high, step, log = entry["low"], entry["high"], entry.get("step"), entry.get("log", False)
    for key, number in (("low", low), ("high", high), ("step", step)):
        if isinstance(number, bool) or not isinstance(number, int | float | None):
            raise ConfigError(f"{name}.{key} is {brief(number)}; it must be a number")
    if not isinstance(log, bool):
        raise ConfigError(f"{name}.log is {brief(log)}; it must be true or false")
    assert isinstance(low, int | float) and isinstance(high, int | float) and not isinstance(step, str)
    taken = [_value(base.replace({name: bound}), name) for bound in (low, high)]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in taken):
        raise ConfigError(f"{name} is no number; give a list of its values")
    whole = all(isinstance(value, int) for value in taken)
    if not low < high:
        raise ConfigError(f"{name}.low is {low} and high {high}; low must be less")
    if log and (low <= 0 or step is not None):
        raise ConfigError(f"{name}.log needs a low that is greater than 0, and no step")
    if step is not None and (not isinstance(step, int | float) or step <= 0 or (whole and step != int(step))):
        raise ConfigError(f"{name}.step is {step}; it must be greater than 0, and whole for a whole number")
    return Range(low, high, log, step, whole)


def _value(config: Config, name: str) -> object:
    value: object = config
    for part in name.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


def _plain(value: object) -> str | int | float | bool:
    """A value as Optuna keeps it: lists as text."""
    return value if isinstance(value, str | int | float | bool) else json.dumps(value)
