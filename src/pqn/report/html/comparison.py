"""Several runs next to each other: which options they differ in, what they reached, and how sure that is."""

from __future__ import annotations

import dataclasses

import numpy as np

from pqn.report.html.gather import RunRecord, number_of
from pqn.report.statistics import bootstrap_interval, improvement_interval, iqm, mean, probability_of_improvement
from pqn.runs.configs import differences
from pqn.runs.metrics import curve

MOST_VARIED = 6  # columns of options in the table
MOST_PAIRED = 24  # runs in a matrix of probabilities
# Options that do not change what is learned, or that have a column of their own.
_UNINTERESTING = ("log.", "save.", "eval.", "preset", "seeds", "env.name", "simulators.cores")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run reached, in its last greedy evaluation."""

    mean: float
    iqm: float
    low: float
    high: float
    over_run: float  # mean over all evaluations: how early it learned
    steps_per_second: float | None


@dataclasses.dataclass(frozen=True)
class Pair:
    """How probable it is that a run of ours is better than one of theirs."""

    probability: float
    low: float  # NaN where one of them has a single seed
    high: float


def outcome(run: RunRecord) -> Outcome:
    """Numbers are NaN where no episode has ended."""
    final = run.final()
    low, high = bootstrap_interval(final) if len(final) > 1 else (np.nan, np.nan)
    _, values = curve(run.rows, "eval")
    over_run = float(mean(values)) if values.size else np.nan
    return Outcome(
        float(mean(final)) if len(final) else np.nan,
        float(iqm(final)) if len(final) else np.nan,
        float(low),
        float(high),
        over_run,
        number_of(run.summary, "steps_per_second"),
    )


def varied(runs: list[RunRecord]) -> list[str]:
    """The options in which some of the runs differ from the first."""
    found = {name: None for run in runs[1:] for name in differences(run.config, runs[0].config)}
    return [name for name in found if not name.startswith(_UNINTERESTING)][:MOST_VARIED]


def by_environment(runs: list[RunRecord]) -> dict[str, list[int]]:
    """The places of the runs in each environment: returns of two environments cannot be compared."""
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(run.config.env.name, []).append(place)
    return groups


def pairs(runs: list[RunRecord]) -> list[list[Pair | None]]:
    """For each run and each other one, the probability that a seed of the first ends with the higher return.

    None stands on the diagonal, and where a run has no finished episode.
    """
    finals = [run.final() for run in runs[:MOST_PAIRED]]
    return [[None if a is b else _pair(a, b) for b in finals] for a in finals]


def _pair(ours: np.ndarray, theirs: np.ndarray) -> Pair | None:
    probability = probability_of_improvement(ours, theirs)
    if np.isnan(probability):
        return None
    several = min(len(ours), len(theirs)) > 1
    low, high = improvement_interval(ours, theirs, resamples=1000) if several else (np.nan, np.nan)
    return Pair(probability, float(low), float(high))
