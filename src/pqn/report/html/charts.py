"""Curves for the page: numbers only. Names and colours of lines are the page's own business."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pqn.errors import RunError
from pqn.report.html.gather import RunRecord
from pqn.report.statistics import aggregate_curve
from pqn.runs.metrics import Row, curve

POINTS = 240  # of a curve; more than a screen can show of them
MOST_SEED_LINES = 32  # of a run; more cannot be told from each other
MOST_OWN = 6  # metrics of the environment's own
RESAMPLES = 500  # for a band, of which nobody reads the third digit
# What training rows hold for each update, in the order of the page, with what it means.
SCALARS = {
    "loss": "loss",
    "q": "mean Q of the actions taken",
    "grad_norm": "norm of the gradient",
    "epsilon": "exploration ε",
    "lr": "learning rate",
    "steps_per_second": "steps per second",
}
STABILITY = {"largest": "largest eigenvalue of the TD Jacobian"}


@dataclasses.dataclass(frozen=True)
class Line:
    """One run in one chart: the interquartile mean over its seeds, its interval, and the seeds."""

    place: int  # of the run on the page: it decides the colour
    steps: np.ndarray  # [P]
    values: np.ndarray  # [P, S]

    def to_dict(self, seeds: bool) -> dict[str, object]:
        band = aggregate_curve(self.values, resamples=RESAMPLES)
        several = self.values.shape[1] > 1
        lines = self.values.T[:MOST_SEED_LINES] if seeds and several else np.zeros((0, 0))
        return {
            "place": self.place,
            "steps": [int(step) for step in self.steps],
            "center": _short(band.center),
            "low": _short(band.low) if several else None,
            "high": _short(band.high) if several else None,
            "seeds": [_short(line) for line in lines],
        }


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart: what it shows, in words that a run may have chosen, and the lines in it."""

    title: str
    lines: list[Line]
    seeds: bool = True  # whether single seeds are drawn as well

    def to_dict(self) -> dict[str, object]:
        return {"lines": [line.to_dict(self.seeds) for line in self.lines]}


def main_chart(runs: Sequence[tuple[int, RunRecord]], title: str = "Greedy return") -> Chart | None:
    """The greedy return of one run, or of several in the same environment; None where no episode ended yet."""
    lines = [Line(place, *found) for place, run in runs if (found := _known(run.rows, "eval", "return"))]
    return Chart(title, lines, seeds=len(runs) == 1) if lines else None


def other_charts(run: RunRecord, place: int) -> list[Chart]:
    """Everything else that a run has recorded."""
    own = sorted({name for row in run.rows if row.get("kind") == "eval" for name in row if name.startswith("info/")})
    wanted = [("train", "return", "Return in training")]
    wanted += [("eval", name.removeprefix("info/"), f"Greedy: {name.removeprefix('info/')}") for name in own[:MOST_OWN]]
    charts = [
        Chart(title, [Line(place, *found)]) for which, name, title in wanted if (found := _known(run.rows, which, name))
    ]
    for kind, scalars in (("train", SCALARS), ("stability", STABILITY)):
        for name, title in scalars.items():
            found = scalar(run.rows, kind, name)
            if found:
                charts.append(Chart(title[0].upper() + title[1:], [Line(place, *found)]))
    return charts


def scalar(rows: Sequence[Row], kind: str, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """A number that rows hold, for each seed or for all: steps [P], values [P, S]; None where fewer than two do."""
    found = [row for row in rows if row.get("kind") == kind and name in row]
    try:
        steps = np.array([row.get("step") for row in found], np.int64)
        values = np.array([np.atleast_1d(row[name]) for row in found], float)
    except (TypeError, ValueError, OverflowError) as error:
        raise RunError(f"the {kind} rows of this run are damaged: {name} is not one number for each seed") from error
    if len(steps) < 2 or values.ndim != 2 or not np.isfinite(values).any():
        return None
    starts = np.unique(np.linspace(0, len(steps), min(POINTS, len(steps)), endpoint=False).astype(int))
    counts = np.diff(np.append(starts, len(steps)))[:, None]
    return steps[np.append(starts[1:], len(steps)) - 1], np.add.reduceat(values, starts) / counts


def _known(rows: Sequence[Row], which: str, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
    """A learning curve, if any episode has ended."""
    if which == "eval":
        steps, values = curve(rows, "eval", metric=metric)
    else:
        steps, values = curve(rows, "train", points=POINTS, metric=metric)
    return (steps, values) if len(steps) and not np.isnan(values).all() else None


def _short(values: np.ndarray) -> list[float | None]:
    """Numbers with as many digits as a chart shows."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
