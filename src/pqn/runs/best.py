"""The best checkpoint of a run: the one with the highest mean greedy return.

A checkpoint counts only if its own weights were evaluated, which is to say if it was written at an evaluation.
Of two that are equally good, the later one is the best.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from pqn.errors import PqnError
from pqn.programs.evaluation import mean
from pqn.runs import checkpoint


class Best:
    """The best checkpoint so far."""

    def __init__(self) -> None:
        self.update: int | None = None
        self.mean: float | None = None

    def consider(self, update: int, reached: float | None) -> None:
        """Takes a checkpoint into account whose evaluation gave `reached`; None where no episode ended."""
        if reached is not None and (self.mean is None or reached >= self.mean):
            self.update, self.mean = update, reached

    @staticmethod
    def of(directory: Path) -> Best:
        """Of the checkpoints that a directory holds; what cannot be read does not count."""
        best = Best()
        for path in reversed(checkpoint.listing(directory)):
            with contextlib.suppress(PqnError):
                best.consider(*evaluated(checkpoint.describe(path)))
        return best


def ranked(directory: Path) -> list[Path]:
    """The checkpoints that were evaluated, best first."""
    found: list[tuple[float, int, Path]] = []
    for path in checkpoint.listing(directory):
        with contextlib.suppress(PqnError):
            update, reached = evaluated(checkpoint.describe(path))
            if reached is not None:
                found.append((reached, update, path))
    return [path for _, _, path in sorted(found, reverse=True)]


def evaluated(metadata: dict[str, object]) -> tuple[int, float | None]:
    """The update of a checkpoint, and the mean greedy return of its own weights; None where they were not evaluated."""
    update, returns = metadata.get("update"), metadata.get("eval_returns")
    if type(update) is not int:
        return -1, None
    try:
        values = np.array(returns, float)  # None becomes NaN
    except (TypeError, ValueError, OverflowError):
        return update, None
    if metadata.get("eval_update") != update or values.ndim != 2 or not np.isfinite(values).any():
        return update, None
    return update, mean(values)
