"""Whether two sets of final returns, one per seed, could be of the same algorithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Estimate(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def estimate(returns: Sequence[float]) -> Estimate:
    """The mean of independent seeds, with Student's interval: x̄ ± t s/√n.

    Where all seeds agree exactly, as at the highest possible score, the interval is that one number.
    """
    values = np.asarray(returns, float)
    if len(values) < 2:
        raise ValueError("an interval needs at least two seeds")
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Our mean minus theirs, with Welch's 95 % interval, which does not assume equal variances."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    mean, error = float(a.mean() - b.mean()), math.sqrt(parts.sum())
    if error == 0.0:
        return Estimate(mean, mean, mean)
    freedom = parts.sum() ** 2 / (parts**2 / np.array([len(a) - 1, len(b) - 1])).sum()
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Estimate(mean, mean - half, mean + half)


def agree(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether a difference of zero is within the 95 % interval of the difference."""
    return difference(ours, theirs).holds(0.0)
