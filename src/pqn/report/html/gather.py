"""What a run has to tell, read from its files, which are data of unknown origin: nothing is believed unchecked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pqn.config import Config
from pqn.errors import RunError
from pqn.presets import PRESETS
from pqn.report.html.media import Picture, find_pictures
from pqn.runs import files
from pqn.runs.configs import Differences, differences
from pqn.runs.directory import CONFIG, ENVIRONMENT, METRICS, SUMMARY, RunDir, read_summary
from pqn.runs.metrics import Row, curve, read_metrics
from pqn.runs.opened import Warn, open_run

STABILITY = "stability.json"
MOST_RUNS = 200  # of one page
LONGEST_TEXT = 400  # letters of a text that a run brings


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The last greedy evaluation."""

    step: int
    returns: list[np.ndarray]  # for each seed, of its episodes; NaN: unfinished

    @property
    def means(self) -> np.ndarray:
        """[S] means over the episodes that ended; NaN where none did."""
        known = [values[~np.isnan(values)] for values in self.returns]
        return np.array([values.mean() if len(values) else math.nan for values in known])


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A run as its files describe it."""

    path: Path
    label: str
    config: Config
    rows: list[Row]
    summary: dict[str, object] | None  # None: it has not ended
    provenance: dict[str, object]
    versions: dict[str, str]
    stability: dict[str, object] | None
    pictures: list[Picture]
    evaluation: Evaluation | None
    saved: int = 0  # steps of the newest checkpoint

    @property
    def steps(self) -> int:
        """Environment steps of each seed so far."""
        return max([self.saved, *(row["step"] for row in self.rows if isinstance(row.get("step"), int))])

    @property
    def preset(self) -> Config | None:
        """The configuration that the run's preset has here; None where there is no such preset."""
        known = PRESETS.get(self.config.preset)
        return None if known is None else known.config

    @property
    def changed(self) -> Differences:
        """The options in which the run differs from its preset, or from the defaults: name -> (here, there)."""
        return differences(self.config, self.preset or Config(preset=self.config.preset))

    def final(self) -> np.ndarray:
        """[S] returns of the last greedy evaluation; empty where there was none."""
        return np.zeros(0) if self.evaluation is None else self.evaluation.means


def find_runs(paths: Sequence[str]) -> list[Path]:
    """The run directories that are meant; a directory of runs, such as that of a sweep, means all runs in it.

    Raises:
        RunError: one is neither, or there are too many.
    """
    found: dict[Path, None] = {}
    for name in paths:
        path = Path(name)
        inside = [path] if files.kind_of(path / CONFIG) or not path.is_dir() else _runs_in(path)
        if not inside:
            raise RunError(f"{path} is not a run directory and holds none: it has no {CONFIG}")
        found |= dict.fromkeys(inside)
    if len(found) > MOST_RUNS:
        raise RunError(f"these are {len(found)} runs; one report shows at most {MOST_RUNS}")
    return list(found)


def _runs_in(path: Path) -> list[Path]:
    """Its runs, in the order in which numbers in their names count as numbers."""
    inside = [child for child in path.iterdir() if child.is_dir() and files.kind_of(child / CONFIG) == "a file"]
    return sorted(inside, key=lambda child: [(part.isdigit(), part.zfill(12)) for part in _words(child.name)])


def _words(name: str) -> list[str]:
    words, last = [""], False
    for letter in name:
        if letter.isdigit() != last:
            words, last = [*words, ""], letter.isdigit()
        words[-1] += letter
    return words


def read_runs(paths: Sequence[Path], warn: Warn) -> list[RunRecord]:
    """Reads runs, and gives each a label of its own.

    Raises:
        RunError: one is no run, or damaged.
    """
    runs = [_read_run(path, warn) for path in paths]
    presets = [run.config.preset for run in runs]
    names = [run.path.resolve().name for run in runs]
    labels = []
    for run, preset, name in zip(runs, presets, names, strict=True):
        label = preset if presets.count(preset) == 1 and preset != "custom" else name
        labels.append(str(run.path) if label == name and names.count(name) > 1 else label)
    return [dataclasses.replace(run, label=shorten(label)) for run, label in zip(runs, labels, strict=True)]


def _read_run(path: Path, warn: Warn) -> RunRecord:
    opened = open_run(path, warn)
    directory = opened.directory
    rows = read_metrics(directory.metrics) if files.is_file(path / METRICS) else []
    return RunRecord(
        path,
        path.name,
        opened.config,
        rows,
        read_summary(directory) if files.is_file(path / SUMMARY) else None,
        _object(directory, ENVIRONMENT),
        {name: shorten(text) for name, text in opened.versions.items() if text}
        | ({name: shorten(text) for name, text in opened.env.versions.items() if text} if opened.env else {}),
        _object(directory, STABILITY) or None,
        find_pictures(path, warn),
        _last_evaluation(rows),
        directory.saved_update() * opened.config.steps_per_update,
    )


def _object(directory: RunDir, name: str) -> dict[str, object]:
    """A JSON file of the run; empty where there is none.

    Raises:
        RunError: it is damaged.
    """
    if not files.is_file(directory.path / name):
        return {}
    content = directory.read_json(name)
    if not isinstance(content, dict):
        raise RunError(f"{directory.path / name} is damaged: it is not an object")
    return content


def _last_evaluation(rows: list[Row]) -> Evaluation | None:
    last = next((row for row in reversed(rows) if row.get("kind") == "eval" and "returns" in row), None)
    if last is None:
        return None
    curve([last])  # refuses a row that does not hold what it should
    return Evaluation(int(last["step"]), [np.array(np.atleast_1d(seed), float) for seed in last["returns"]])


def text_of(source: dict[str, object], *path: str) -> str | None:
    """A text, or a whole number as text, at a place in nested objects; None where there is no such thing."""
    value: object = source
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return shorten(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None


def number_of(source: dict[str, object] | None, *path: str) -> float | None:
    """A finite number at a place in nested objects; None where there is none."""
    value: object = source
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    sound = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if sound and isinstance(value, int | float) else None


def shorten(text: str) -> str:
    """Text that a run brings, not longer than a page can bear."""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
