"""The metrics of a run as a tidy table: a line for each row of metrics.jsonl and each seed, a column for each number.

    kind  update  step  seed  return  length  episodes  loss  q  epsilon  lr  …

`return` and `length` are means over the episodes that ended: of the row (kind "train") or of the evaluation ("eval").
So are the environment's own numbers, `info/…`. What is one number for all seeds is repeated for each. CSV needs nothing
but Python; a DataFrame needs pandas. This module never imports jax.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pqn.errors import ConfigError, PqnError, RunError, how_to_install, reason
from pqn.fields import brief
from pqn.runs import files
from pqn.runs.configs import read_config
from pqn.runs.directory import CONFIG, RunDir
from pqn.runs.metrics import Row, read_metrics

if TYPE_CHECKING:
    from pandas import DataFrame

Line = dict[str, object]
KINDS = ("train", "eval", "stability")  # of rows
FIRST = ("kind", "update", "step", "seed", "return", "length", "episodes", "unfinished")  # columns, in this order


class Metrics:
    """The metrics of one run.

    Attributes:
      rows: as metrics.jsonl has them, numbers of all seeds together in lists.
    """

    def __init__(self, rows: Sequence[Row], first_seed: int = 0):
        self.rows, self._first_seed = list(rows), first_seed

    @staticmethod
    def of(run: RunDir) -> Metrics:
        """Those of a run directory.

        Raises:
          RunError: its configuration or its metrics cannot be read.
        """
        config = read_config(run.read_json(CONFIG), str(run.path / CONFIG))
        return Metrics(read_metrics(run.metrics), config.seed)

    def lines(self, kind: str | None = None) -> list[Line]:
        """The table as plain dictionaries; a number that is not there is None.

        Args:
          kind: "train", "eval" or "stability"; by default all of them.

        Raises:
          ConfigError: there is no such kind of row.
        """
        if kind is not None and kind not in KINDS:
            raise ConfigError(f"kind is {brief(kind)}; it must be one of {', '.join(KINDS)}")
        chosen = [row for row in self.rows if kind is None or row.get("kind") == kind]
        return [line for row in chosen for line in self._per_seed(row)]

    def episodes(self) -> list[Line]:
        """One line for each episode of each evaluation: update, step, seed, episode, return (None: it did not end)."""
        return [
            {"update": row["update"], "step": row["step"], "seed": self._first_seed + seed}
            | {"episode": i, "return": x}
            for row in self.rows
            if row.get("kind") == "eval"
            for seed, returns in enumerate(row["returns"])
            for i, x in enumerate(returns)
        ]

    def columns(self, kind: str | None = None) -> list[str]:
        """The names of all columns."""
        return _columns(self.lines(kind))

    def frame(self, kind: str | None = None) -> DataFrame:
        """The table as a pandas DataFrame, NaN where a number is not there.

        Raises:
          PqnError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError as error:
            raise PqnError(f"pandas is not installed: {how_to_install('pandas')}") from error
        lines = self.lines(kind)
        return pandas.DataFrame(lines, columns=_columns(lines))

    def csv(self, kind: str | None = None) -> str:
        """The table as comma-separated values with a header; a number that is not there is an empty field."""
        return as_csv(self.lines(kind))

    def to_csv(self, path: str | os.PathLike[str], kind: str | None = None) -> Path:
        """Writes `csv` to a file.

        Raises:
          RunError: it cannot be written.
        """
        file = files.as_path("path", path)
        try:
            files.write_atomically(files.output(file), self.csv(kind).encode())
        except OSError as error:
            raise RunError(f"cannot write {path}: {reason(error)}") from error
        return file

    def _per_seed(self, row: Row) -> Iterator[Line]:
        seeds = next((len(row[name]) for name in ("returns", "episodes") if isinstance(row.get(name), list)), 1)
        counts = row.get("episodes")
        for seed in range(seeds):
            line: Line = {"seed": self._first_seed + seed}
            for name, value in row.items():
                one = value[seed] if isinstance(value, list) and len(value) == seeds else value
                if name == "returns":
                    line |= _evaluated(one)
                elif name.endswith("_sum") and isinstance(counts, list):
                    line[name.removesuffix("_sum")] = _ratio(one, counts[seed])
                elif name == "length_mean":
                    line["length"] = one
                else:
                    line[name] = one
            yield {name: _plain(value) for name, value in line.items()}

    def __len__(self) -> int:
        return len(self.rows)


def as_csv(lines: Sequence[Line], columns: Sequence[str] | None = None) -> str:
    """Lines of a table as comma-separated values with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns or _columns(lines), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _columns(lines: Sequence[Line]) -> list[str]:
    known = dict.fromkeys(name for line in lines for name in line)
    return [*(name for name in FIRST if name in known), *(name for name in known if name not in FIRST)]


def _evaluated(returns: object) -> Line:
    """Mean over the episodes of one seed that ended, and how many there were."""
    values = np.array(returns, float) if isinstance(returns, list) else np.zeros(0)
    ended = values[np.isfinite(values)]
    return {"return": float(ended.mean()) if ended.size else None, "episodes": len(ended)}


def _ratio(total: object, count: object) -> float | None:
    if not isinstance(total, int | float) or not isinstance(count, int | float):
        return None
    return total / count if count else None


def _plain(value: object) -> object:
    """One number, text or nothing; lists of another length than the seeds are left out."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else None
