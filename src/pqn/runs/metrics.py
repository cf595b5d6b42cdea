"""The metrics of a run: one JSON object a line, readable while the run is alive and after any kind of death.

Two kinds of rows are known here; a row may carry more keys than these. S seeds, E evaluation episodes.

    {"kind": "train", "update": 12, "step": 49152, "episodes": [S], "return_sum": [S], "length_sum": [S],
     "loss": [S], "q": [S], "epsilon": 0.3, "lr": 1e-3, "steps_per_second": 1e6, "wall": 3.2}
    {"kind": "eval", "update": 12, "step": 49152, "returns": [S][E], "unfinished": [S], "length_mean": [S]}

Training rows carry sums and counts of *finished* episodes, so rows can be pooled without bias. An evaluation episode
that did not end has null for a return and is counted as unfinished; `length_mean` and the means of the environment's
own numbers (`info/…`) are over the others, null where there is none.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeGuard

import numpy as np

from pqn.errors import RunError, reason
from pqn.runs import files
from pqn.runs.json_text import to_json

Row = dict[str, Any]
MOST_BYTES = 2**30  # of a metrics file; a row takes some hundred
DEEPEST = 2  # lists in lists: a number for each seed and episode


class MetricsWriter:
    """Appends rows to a JSONL file; every row reaches the operating system before `write` returns.

    A line torn by a killed process is removed when the file is opened, so that the next row starts on its own line.
    File-system failures are raised as `RunError`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.counts: dict[str, int] = {}  # kind -> rows of it that the file holds
        try:
            _drop_torn_tail(self.path)
            self._file = files.open_to_append(self.path)
        except OSError as error:
            raise _write_error(self.path, error) from error

    def write(self, row: Row) -> None:
        """Append one row."""
        line = memoryview(to_json(row).encode() + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise _write_error(self.path, error) from error
        self._count(row)

    def _count(self, row: Row) -> None:
        kind = str(row.get("kind"))
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def sync(self) -> None:
        """Force the rows onto the disk.

        Call it before a checkpoint is written: then every row up to the checkpoint survives a power cut, too, and a
        resumed run cannot have a gap in its metrics.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _write_error(self.path, error) from error

    def truncate_after(self, update: int) -> None:
        """Forget every row whose "update" is larger, and every line that cannot be read.

        A run resumed from the checkpoint of `update` writes those rows again; the remaining ones keep their bytes.
        """
        temporary = self.path.with_name(self.path.name + ".tmp")
        try:
            self._file.close()
            lines = _lines(files.read_bytes(self.path, MOST_BYTES))
            kept = [(line, row) for line, row in lines if row and row.get("update", update) <= update]
            with files.create(temporary) as file:
                file.writelines(line for line, _ in kept)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)  # a crash leaves the old file or the new one, never half of either
            self._file = files.open_to_append(self.path)
        except OSError as error:
            raise _write_error(self.path, error) from error
        self.counts = {}
        for _, row in kept:
            self._count(row)

    def gap(self, update: int, counts: Mapping[str, int] | None) -> str | None:
        """What is missing of a file that was complete up to `update`, in words; None where nothing is.

        Args:
          update: the last one that a training row should cover.
          counts: rows of each kind that there should be, None if nobody counted.
        """
        missing, reached = [], 0
        for row in read_metrics(self.path):
            if row.get("kind") == "train":
                last, covered = row.get("update", reached), row.get("updates")
                if isinstance(covered, int) and last - covered > reached:  # older rows do not say how many they cover
                    missing.append((reached + 1, last - covered))
                reached = last
        if reached < update:
            missing.append((reached + 1, update))
        if missing:
            return "there is no training row of update " + ", ".join(f"{a} to {b}" for a, b in missing)
        fewer = {kind: count for kind, count in (counts or {}).items() if self.counts.get(kind, 0) < count}
        return ", ".join(f"{self.counts.get(k, 0)} of {n} rows of {k} are there" for k, n in fewer.items()) or None

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(path: str | os.PathLike[str]) -> list[Row]:
    """Return all rows of a metrics file, without a torn last line (the run may be alive).

    Raises:
        RunError: the file cannot be read, or is damaged anywhere but in its last line.
    """
    path = Path(path)
    try:
        lines = list(_lines(files.read_bytes(path, MOST_BYTES)))
    except FileNotFoundError as error:
        raise RunError(f"cannot read {path}: no such file") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {reason(error)}") from error
    rows: list[Row] = []
    for number, (line, row) in enumerate(lines, start=1):
        if row is not None:
            rows.append(row)
        elif isinstance(_parsed(line), dict):  # no accident leaves such a line
            raise RunError(f"{path} is damaged: among the rows of this run, line {number} holds what is no number")
        elif number < len(lines):
            raise RunError(f"{path} is damaged: line {number} is not a JSON object")
    return rows


def curve(
    rows: Sequence[Row],
    which: Literal["eval", "train"] = "eval",
    points: int | None = None,
    metric: str = "return",
) -> tuple[np.ndarray, np.ndarray]:
    """Turn metric rows into a learning curve for each seed.

    Args:
        rows: rows of a metrics file, in order.
        which: "eval" for greedy evaluation, averaged over its episodes; "train" for the return of the episodes that
            finished in the row.
        points: pool neighbouring training rows into at most this many points, weighing every episode equally.
        metric: "return", "length", or one of the environment's own, such as "win".

    Returns:
        steps: [P] environment steps.
        values: [P, S] means over episodes; NaN where a seed finished none.

    Raises:
        RunError: rows of one file speak of different numbers of seeds, or none has the metric.
    """
    rows = [row for row in rows if row.get("kind") == which]
    column, known = column_of(which, metric), {name for row in rows for name in row}
    if rows and column not in known:
        names = sorted(name.removeprefix("info/").removesuffix("_sum") for name in known if name.startswith("info/"))
        raise RunError(f"the run has no metric {metric!r}; it has {', '.join(['return', *names])}")
    rows = [row for row in rows if column in row]
    if not rows:
        return np.zeros(0, np.int64), np.zeros((0, 0))
    try:
        steps = np.array([row["step"] for row in rows], np.int64)
        if which == "eval":
            values = [[_mean(seed) if isinstance(seed, list) else seed for seed in row[column]] for row in rows]
            return steps, _per_seed(values)
        counts = _per_seed([row["episodes"] for row in rows])
        sums = _per_seed([row[column] for row in rows])
    except ValueError as error:
        raise RunError(f"the {which} rows of this run disagree about the number of seeds") from error
    except (TypeError, KeyError, OverflowError) as error:
        raise RunError(f"the {which} rows of this run are damaged: some hold no numbers") from error
    if counts.shape != sums.shape:
        raise RunError(f"the {which} rows of this run disagree about the number of seeds")
    if points is not None and len(rows) > points:
        starts = np.linspace(0, len(rows), points, endpoint=False).astype(int)
        counts, sums = (np.add.reduceat(array, starts) for array in (counts, sums))
        steps = steps[np.append(starts[1:], len(rows)) - 1]
    return steps, np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def column_of(which: Literal["eval", "train"], metric: str) -> str:
    """Where rows keep a metric of episodes: per episode, per seed, or as sums over the episodes that ended."""
    if which == "eval":
        return {"return": "returns", "length": "length_mean"}.get(metric, f"info/{metric}")
    return f"{metric}_sum" if metric in ("return", "length") else f"info/{metric}_sum"


def _per_seed(values: Sequence[object]) -> np.ndarray:
    """[P, S] floats, NaN for None; ValueError where the rows are not all of one length, or deeper."""
    array = np.array(values, float)
    if array.ndim != 2:
        raise ValueError("not one number for each seed")
    return array


def _mean(values: Sequence[float | None]) -> float:
    """Mean of the values that are there; NaN when none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def _lines(data: bytes) -> Iterator[tuple[bytes, Row | None]]:
    """Yield each line with its row, or with None where the line is torn or no row."""
    for line in data.splitlines(keepends=True):
        row = _parsed(line)
        yield line, row if _is_row(row) else None


def _parsed(line: bytes) -> object:
    """What a whole line says; None where it is torn."""
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):  # covers broken UTF-8 as well as broken JSON
        return None


def _is_row(row: object) -> TypeGuard[Row]:
    """Whether a line holds what a row may: whole counters, texts on one line, numbers, and lists of numbers."""
    if not isinstance(row, dict) or not all(isinstance(row.get(name, 0), int) for name in ("update", "step")):
        return False
    return all(name.isprintable() and _is_cell(value) for name, value in row.items())


def _is_cell(value: object, depth: int = 0) -> bool:
    if isinstance(value, str):
        return depth == 0 and value.isprintable()  # it may reach a terminal
    if isinstance(value, list):
        return depth < DEEPEST and all(_is_cell(each, depth + 1) for each in value)
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _drop_torn_tail(path: Path) -> None:
    """Cut the file after its last complete line."""
    if not files.is_file(path):
        return
    data = files.read_bytes(path, MOST_BYTES)
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.truncate(path, end)


def _write_error(path: Path, error: OSError) -> RunError:
    return RunError(f"cannot write metrics to {path}: {reason(error)}")
