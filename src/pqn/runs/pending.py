"""What a run has counted since the last row of its metrics.

Programs go on adding to what is pending, update by update, and it goes into checkpoints: neither where the host cut the
run into chunks nor where a run was stopped and resumed can change a digit of a row.
"""

from __future__ import annotations

import math

import numpy as np

from pqn.config import Config
from pqn.programs.reported import HEALTH, NO_FAULT, is_mean
from pqn.runs.metrics import Row


class Pending:
    """Totals since the last row."""

    def __init__(self, shown: dict[str, float] | None = None):
        self.totals: dict[str, np.ndarray] = {}  # name -> [S]
        self.updates, self.seconds = 0, 0.0
        self.shown = shown or {}  # what the progress line shows while no new number is there

    def add(self, totals: dict[str, np.ndarray], count: int, seconds: float) -> None:
        """Takes over the totals [S] that a program has gone on adding to, and which are of `count` updates more."""
        self.totals = {name: value if name in HEALTH else value.astype(np.float64) for name, value in totals.items()}
        self.updates += count
        self.seconds += seconds

    def means(self, config: Config) -> dict[str, float]:
        """What the progress line shows of the totals."""
        if not self.updates:
            return {}
        means = {"loss": float(self.totals["loss"].mean() / self.updates), "rate": self.rate(config)}
        episodes = self.totals["episodes"].sum()
        return means | ({"return": float(self.totals["return_sum"].sum() / episodes)} if episodes else {})

    def rate(self, config: Config) -> float:
        """Environment steps per second, of all seeds together."""
        return self.updates * config.steps_per_update * config.seeds / max(self.seconds, 1e-9)

    def row(self, update: int, step: int, config: Config) -> Row:
        """The row of the last `updates` updates."""
        row: Row = {"kind": "train", "update": update, "step": step, "updates": self.updates}
        for name, value in self.sums().items():
            row[name] = value / self.updates if is_mean(name) else value
        return row | {"steps_per_second": self.rate(config)}

    def sums(self) -> dict[str, np.ndarray]:
        """The totals without those of faults: a run with a fault writes no row and saves nothing."""
        return {name: value for name, value in self.totals.items() if name not in HEALTH}

    def to_dict(self) -> dict[str, object]:
        """What a checkpoint holds of it."""
        return {"updates": self.updates, "seconds": self.seconds, "totals": self.sums()}

    @staticmethod
    def from_dict(data: object, seeds: int) -> Pending:
        """Inverse of `to_dict`, also after a trip through JSON; nothing pending for None.

        Raises:
          ValueError: with the rest of a sentence.
        """
        pending = Pending()
        if data is None:
            return pending
        if not isinstance(data, dict) or not isinstance(data.get("totals"), dict):
            raise ValueError("it has no totals")
        updates, seconds = data.get("updates"), data.get("seconds")
        if type(updates) is not int or updates < 0 or type(seconds) is not float or not math.isfinite(seconds):
            raise ValueError("it has no totals")
        try:
            pending.totals = {name: np.array(value, np.float64) for name, value in data["totals"].items()}
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError("it has no totals") from error
        if any(value.shape != (seeds,) for value in pending.totals.values()):
            raise ValueError(f"it has no totals for each of {seeds} seeds")
        if updates and not {"loss", "episodes", "return_sum"} <= pending.totals.keys():
            raise ValueError("it has no totals")
        pending.updates, pending.seconds = updates, seconds
        if pending.totals:
            pending.totals |= _no_fault(seeds)
        return pending


def _no_fault(seeds: int) -> dict[str, np.ndarray]:
    """The totals [S] of faults, of seeds without any."""
    return {"bad": np.full(seeds, NO_FAULT, np.int32), "fault": np.zeros(seeds, np.int32)}
