"""The result envelope: one JSON file for one arm, with all that is needed to trust it and to make it again.

    results/<experiment>/<arm>/<date>-<commit>-<device>.json

The program writes it when every seed has reached its end, in one step, and never over another one.
"""

from __future__ import annotations

import dataclasses
import os
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from pqn.errors import RunError, reason
from pqn.experiments.record import Call, as_text
from pqn.fields import hints
from pqn.runs import files

FORMAT = 1
MOST_BYTES = 64 * 2**20

PerSeed = list[float | None]


@dataclasses.dataclass(frozen=True)
class Curves:
    """Curves over the run: values[metric] is [P][S], a row for each point and a number for each seed."""

    steps: list[int]
    seconds: list[float | None]
    values: Mapping[str, list[PerSeed]]

    def array(self, metric: str) -> np.ndarray:
        """[P, S], NaN where a seed had nothing to report."""
        return np.array(self.values[metric], float).reshape(len(self.steps), -1)


@dataclasses.dataclass(frozen=True)
class Envelope:
    """A result. Everything is per seed, in the order of `seeds`."""

    experiment: str
    arm: str
    task: str
    method: str
    algorithm: str
    preset: str
    command: str
    """What makes this result again."""
    calls: list[Call]
    """The processes that worked on it, in order. A run that was interrupted has several."""
    seeds: list[int]
    share: float
    """Share of the experiment's budget; schedules are those of the whole."""
    steps: int
    """Done by each seed: environment steps, updates or episodes."""
    budget: int
    """Of the whole experiment, in the same unit."""
    complete: bool
    """Whether all that was asked for was done. The program writes complete ones only."""
    metric: str
    final: Mapping[str, PerSeed]
    """At the end of the run, every metric: the final weights, never the best ones."""
    evaluation: Mapping[str, float | int | None]
    """Of the final weights: episodes of each seed, how many did not end, ε, the longest an episode may take."""
    curves: Mapping[str, Curves]
    seconds: Mapping[str, float | None]
    """wall: all of it; compile; train: without compiling, evaluating and saving."""
    steps_per_second: float | None
    """Of all seeds together, while training."""
    peak_bytes: int | None
    replay_bytes: int | None
    """What a replay buffer of a million steps of this task would hold, each observation once."""
    config: Mapping[str, object]
    runs: list[str]
    """The ids of the runs behind it."""
    origin: str = "pqn reproduce"
    missing: list[str] = dataclasses.field(default_factory=list)
    """What was not recorded."""
    notes: list[str] = dataclasses.field(default_factory=list)
    schedule: str = "of the whole run"
    format: int = FORMAT

    @property
    def per_seed(self) -> np.ndarray:
        """The metric at the end [S]; NaN where a seed has none."""
        return np.array(self.final[self.metric], float)

    @property
    def last(self) -> Call:
        return self.calls[-1]

    @property
    def device(self) -> str:
        return str(self.last.machine.get("device"))

    @property
    def mixed(self) -> bool:
        """Whether processes of different commits worked on it."""
        return len({call.commit for call in self.calls}) > 1

    def file_name(self) -> str:
        """`20261118-0512-e3436e3-h200.json`."""
        date = re.sub(r"[^0-9T]", "", self.last.date)[:13].replace("T", "-")
        device = re.sub(r"[^a-z0-9]+", "-", self.device.lower().rpartition(" ")[2]).strip("-") or "unknown"
        return f"{date}-{(self.last.commit or 'unknown')[:7]}-{device}.json"

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(data: object) -> Envelope:
        """Inverse of `to_dict`.

        Raises:
          ValueError: with the rest of a sentence.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, dict) else None
            raise ValueError(f"it is not a result of format {FORMAT} (format: {found!r:.20})")
        fields = {field.name: field for field in dataclasses.fields(Envelope)}
        required = {name for name, field in fields.items() if field.default is field.default_factory}
        if wrong := sorted(required - data.keys()) or sorted(data.keys() - fields.keys()):
            raise ValueError(f"its field {wrong[0]!r:.40} is missing or unknown")
        try:
            calls = [Call(**call) for call in data["calls"]]
            curves = {name: Curves(**curve) for name, curve in data["curves"].items()}
            envelope = Envelope(**(data | {"calls": calls, "curves": curves}))
            envelope.check()
        except (TypeError, AttributeError, KeyError, IndexError) as error:
            raise ValueError(f"it is not as results are: {error}") from error
        return envelope

    def check(self) -> None:
        """Raises ValueError, with the rest of a sentence, for a result that contradicts itself."""
        for part in (self, *self.calls, *self.curves.values()):
            _check_types(part)
        count = len(self.seeds)
        if not self.calls or not count:
            raise ValueError("it names no process or no seed")
        if any(len(values) != count for values in self.final.values()) or self.metric not in self.final:
            raise ValueError(f"its final values are not one for each of {count} seeds")
        for curve in self.curves.values():
            for metric in curve.values:
                if curve.array(metric).shape != (len(curve.steps), count):
                    raise ValueError(f"its curve of {metric} is not one for each of {count} seeds")
        if self.complete and self.steps <= 0:
            raise ValueError("it says that it is complete, and has no steps")
        if not 0 < self.share <= 1:
            raise ValueError(f"its share of the budget is {self.share:g}, and must be in (0, 1]")


def _check_types(part: Envelope | Call | Curves) -> None:
    """Raises ValueError, with the rest of a sentence, where a field is not of its type: pages calculate with them."""
    for name, hint in hints(type(part)).items():
        if not _fits(hint, getattr(part, name)):
            raise ValueError(f"its field {name!r} is not as results are")


def _fits(hint: object, value: object) -> bool:
    """Whether a value, as JSON has it, is of a type. A text must be printable, since pages and terminals show it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(each, value) for each in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(arguments[0], each) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(str, key) and _fits(arguments[1], value[key]) for key in value)
    if hint is str:
        return isinstance(value, str) and value.isprintable()
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, typing.cast(type, hint))


def write(out: Path, envelope: Envelope) -> Path:
    """Writes a result to its place under `out`; an existing file is never replaced.

    The runs behind a result and their length name it: where they have a result already, because the process ended right
    after writing it, that one is returned.

    Raises:
      RunError: nothing can be written there.
    """
    envelope.check()
    folder = out / envelope.experiment / envelope.arm
    for path, found in read_arm(out, envelope.experiment, envelope.arm):
        if isinstance(found, Envelope) and found.runs and (found.runs, found.steps) == (envelope.runs, envelope.steps):
            return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write_new(folder, envelope.file_name(), as_text(envelope.to_dict()).encode())
    except OSError as error:
        raise RunError(f"the result cannot be written to {folder}: {reason(error)}") from error


def _write_new(folder: Path, name: str, data: bytes) -> Path:
    """A file of that name, or of that name with a number, that did not exist; whole or not at all."""
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    files.write_atomically(temporary, data)
    try:
        for number in range(1, 1000):
            path = folder / (name if number == 1 else name.replace(".json", f"-{number}.json"))
            try:
                os.link(temporary, path)  # fails where something of that name exists, unlike a rename
            except FileExistsError:
                continue
            files.fsync_directory(folder)
            return path
    finally:
        temporary.unlink(missing_ok=True)
    raise FileExistsError(f"{folder / name} and 999 more exist")


def read(path: Path) -> Envelope:
    """A result from its file.

    Raises:
      RunError: it is missing, damaged or contradicts itself.
    """
    try:
        return Envelope.from_dict(files.read_json(path, MOST_BYTES))
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error


def read_arm(out: Path, experiment: str, arm: str) -> Iterator[tuple[Path, Envelope | RunError]]:
    """The results of an arm with their files, oldest name first; in place of a damaged one, what is wrong with it."""
    folder = out / experiment / arm
    # By stem: the second result of a minute is called "…-2.json", which would come before "….json".
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stem) if folder.is_dir() else ():
        try:
            found = read(path)
            if (found.experiment, found.arm) != (experiment, arm):
                raise RunError(f"{path} is a result of {found.experiment}/{found.arm}")
            yield path, found
        except RunError as error:
            yield path, error
