"""Statistics over few runs: point estimates that resist outliers, and intervals that show how few runs there were.

Follows Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021): the
interquartile mean over all runs and tasks, with percentile bootstrap intervals stratified by task. NumPy only.

Axes: P points of a curve, R runs (seeds), K tasks. NaN stands for a missing score and is left out everywhere.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

_BLOCK = 1 << 21  # numbers held at once while bootstrapping, so that long curves do not exhaust the memory


class Statistic(Protocol):
    """Reduces one axis, or all of them, to a point estimate."""

    def __call__(self, values: ArrayLike, axis: int | None = None) -> np.ndarray: ...


class Interval(NamedTuple):
    """A confidence interval."""

    low: np.ndarray
    high: np.ndarray


class Band(NamedTuple):
    """A curve with its pointwise confidence interval."""

    center: np.ndarray  # [P]
    low: np.ndarray  # [P]
    high: np.ndarray  # [P]


def iqm(values: ArrayLike, axis: int | None = None) -> np.ndarray:
    """Return the interquartile mean, the mean of what is left without the lowest and the highest quarter.

    With n scores ⌊n/4⌋ are cut at either end, as by `scipy.stats.trim_mean(values, 0.25)`.
    """
    values = np.sort(np.asarray(values, float), axis=axis)  # NaN sorts to the end
    axis = -1 if axis is None else axis
    if values.size and not np.isnan(values).any():
        n = values.shape[axis]
        return np.take(values, range(n // 4, n - n // 4), axis=axis).mean(axis=axis)
    n = np.sum(~np.isnan(values), axis=axis, keepdims=True)
    rank = np.arange(values.shape[axis]).reshape([-1 if i == axis % values.ndim else 1 for i in range(values.ndim)])
    return _average(values, (rank >= n // 4) & (rank < n - n // 4), axis)


def mean(values: ArrayLike, axis: int | None = None) -> np.ndarray:
    """Return the mean."""
    values = np.asarray(values, float)
    return _average(values, ~np.isnan(values), axis)


def median(values: ArrayLike, axis: int | None = None) -> np.ndarray:
    """Return the median."""
    values = np.sort(np.asarray(values, float), axis=axis)
    axis = -1 if axis is None else axis
    n = np.sum(~np.isnan(values), axis=axis, keepdims=True)
    if values.shape[axis] == 0:
        return _average(values, values == 0, axis)
    # Without any score (n = 0) both ranks point at a NaN, which is the answer.
    low, high = (np.take_along_axis(values, np.maximum(i, 0), axis=axis) for i in ((n - 1) // 2, n // 2))
    return np.squeeze((low + high) / 2, axis=axis)


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Statistic = iqm,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return a percentile bootstrap interval of a statistic over runs.

    Args:
        scores: [R], or [R, K] runs × tasks. With tasks, the runs of each task are resampled on their own (stratified)
            and the statistic is taken over all of them together.
        statistic: `iqm`, `mean`, `median` or a function like these.
        confidence: probability mass between the two ends.
        resamples: number of bootstrap samples.
        seed: the same seed gives the same interval.
    """
    scores = np.asarray(scores, float)
    low, high = _bootstrap(scores.reshape(1, *scores.shape), statistic, confidence, resamples, seed)
    return Interval(low[0], high[0])


def aggregate_curve(
    values: ArrayLike,
    statistic: Statistic = iqm,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Band:
    """Return the statistic of a learning curve over its runs at each point, with a bootstrap interval.

    Whole runs are resampled, the same ones at every point, so that the band is as smooth as the curves are.

    Args:
        values: [P, R], or [P, R, K] with tasks, for which see `bootstrap_interval`.
        statistic: point estimate.
        confidence: probability mass of the band at each point.
        resamples: number of bootstrap samples.
    """
    values = np.asarray(values, float)
    center = statistic(values.reshape(len(values), int(np.prod(values.shape[1:]))), axis=-1)
    return Band(center, *_bootstrap(values, statistic, confidence, resamples, seed=0))


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Return P(X > Y) + ½ P(X = Y) for a run X of ours and a run Y of theirs, drawn at random: ½ means no difference.

    This is the Mann-Whitney statistic divided by the number of pairs. With tasks it is the mean over them.

    Args:
        ours: [R], or [R, K] runs × tasks.
        theirs: [R'], or [R', K]; the number of runs may differ, the tasks are the same.

    Returns:
        The probability; NaN where a side has no score.
    """
    ours, theirs = (_columns(scores) for scores in (ours, theirs))
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"one method has {ours.shape[1]} tasks, the other {theirs.shape[1]}")
    return float(_wins(ours[None], theirs[None])[0])


def improvement_interval(
    ours: ArrayLike, theirs: ArrayLike, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Return a percentile bootstrap interval of `probability_of_improvement`; the runs of each side are resampled.

    Args:
        ours: as there.
        theirs: as there.
        confidence: probability mass between the two ends.
        resamples: number of bootstrap samples.
        seed: the same seed gives the same interval.
    """
    _check_confidence(confidence)
    rng, sides = np.random.default_rng(seed), []
    for scores in (_columns(ours), _columns(theirs)):
        runs, tasks = scores.shape
        if not runs:
            return Interval(np.array(np.nan), np.array(np.nan))
        sides.append(scores[rng.integers(runs, size=(resamples, runs, tasks)), np.arange(tasks)])
    size = max(1, _BLOCK // max(1, sides[0].shape[1] * sides[1][0].size))
    parts = [_wins(*(side[start : start + size] for side in sides)) for start in range(0, resamples, size)]
    low, high = _percentiles(np.concatenate(parts)[:, None], confidence)
    return Interval(low[0], high[0])


def _columns(scores: ArrayLike) -> np.ndarray:
    """[R, K] of [R] or [R, K]."""
    scores = np.asarray(scores, float)
    return scores[:, None] if scores.ndim == 1 else scores


def _wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The share of pairs that ours win, [B], of [B, R, K] and [B, R', K]; a draw is half a win."""
    ours, theirs = ours[:, :, None], theirs[:, None]
    won = (ours > theirs) + 0.5 * (ours == theirs)
    known = ~np.isnan(ours) & ~np.isnan(theirs)
    count = known.sum(axis=(1, 2))
    share = np.divide((won * known).sum(axis=(1, 2)), count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean(share, axis=-1)


def _average(values: np.ndarray, which: np.ndarray, axis: int | None) -> np.ndarray:
    """Return the mean of the chosen values; NaN, without a warning, where none is chosen."""
    count = which.sum(axis=axis)
    total = np.where(which, values, 0.0).sum(axis=axis)
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)[()]


def _bootstrap(values: np.ndarray, statistic: Statistic, confidence: float, resamples: int, seed: int) -> Interval:
    """Bootstrap over the runs of [P, R] or [P, R, K]; the ends are [P]."""
    _check_confidence(confidence)
    points, runs, tasks = values.shape if values.ndim == 3 else (*values.shape, 1)
    if runs == 0 or points == 0:
        return Interval(np.full(points, np.nan), np.full(points, np.nan))
    values = values.reshape(points, runs * tasks)
    pick = np.random.default_rng(seed).integers(runs, size=(resamples, runs, tasks)) * tasks + np.arange(tasks)
    pick = pick.reshape(resamples, runs * tasks)
    size = max(1, _BLOCK // pick.size)
    blocks = [statistic(values[start : start + size, pick], axis=-1) for start in range(0, points, size)]
    return _percentiles(np.concatenate(blocks).T, confidence)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence lies strictly between 0 and 1, not at {confidence}")


def _percentiles(samples: np.ndarray, confidence: float) -> Interval:
    tail = 50 * (1 - confidence)
    if not np.isnan(samples).any():
        return Interval(*np.percentile(samples, [tail, 100 - tail], axis=0))
    # A resample can consist of missing scores alone; nanpercentile warns where all of them do.
    ends = np.full((2, *samples.shape[1:]), np.nan)
    some = ~np.isnan(samples).all(axis=0)
    ends[:, some] = np.nanpercentile(samples[:, some], [tail, 100 - tail], axis=0)
    return Interval(*ends)
