"""Statistics against hand computation, exhaustive enumeration and SciPy."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pqn.report.statistics import (
    aggregate_curve,
    bootstrap_interval,
    improvement_interval,
    iqm,
    mean,
    median,
    probability_of_improvement,
)

FINITE = st.floats(-1e6, 1e6)
SCORES = hnp.arrays(float, hnp.array_shapes(max_dims=3, max_side=9), elements=FINITE)


def test_iqm_by_hand() -> None:
    assert iqm([1, 2, 3, 100]) == 2.5
    assert iqm([5]) == 5 and iqm([1, 2, 9]) == 4  # nothing to cut off below four scores
    assert iqm([0, 1, 2, 3, 4, 5, 1000]) == 3  # ⌊7/4⌋ = 1 cut on either side
    assert iqm([[1, 2], [3, 100]]) == 2.5  # runs × tasks count together
    np.testing.assert_array_equal(iqm([[1, 2, 3, 100], [0, 0, 4, 8]], axis=1), [2.5, 2.0])


@given(SCORES, st.data())
def test_estimates_agree_with_scipy_and_numpy(scores: np.ndarray, data: st.DataObject) -> None:
    axis = data.draw(st.none() | st.integers(-scores.ndim, scores.ndim - 1))
    trimmed = scipy.stats.trim_mean(scores.ravel(), 0.25) if axis is None else scipy.stats.trim_mean(scores, 0.25, axis)
    np.testing.assert_allclose(iqm(scores, axis), trimmed, atol=1e-6)
    np.testing.assert_allclose(mean(scores, axis), np.mean(scores, axis), atol=1e-6)
    np.testing.assert_allclose(median(scores, axis), np.median(scores, axis), atol=1e-6)


@given(hnp.arrays(float, st.integers(0, 12), elements=FINITE | st.just(np.nan)))
def test_missing_scores_are_left_out(scores: np.ndarray) -> None:
    known = scores[~np.isnan(scores)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimates = [statistic(np.stack([scores, scores]), axis=-1) for statistic in (iqm, mean, median)]
    expected = [scipy.stats.trim_mean(known, 0.25), known.mean(), np.median(known)] if len(known) else [np.nan] * 3
    np.testing.assert_allclose(estimates, np.stack([expected, expected], axis=1), atol=1e-6)


# --------------------------------------------------------------------------------------------------------- bootstrap


def test_interval_matches_the_enumerated_bootstrap_distribution() -> None:
    """Of four scores there are 4⁴ equally likely resamples, with a large point mass around either end of 80 %."""
    scores = np.array([0.0, 1.0, 5.0, 9.0])
    exact = sorted(iqm(scores[list(pick)]) for pick in itertools.product(range(4), repeat=4))
    low, high = bootstrap_interval(scores, iqm, confidence=0.8, resamples=20_000)
    assert (low, high) == tuple(np.percentile(exact, [10, 90])) == (0.5, 7.0)


def test_stratified_interval_matches_enumeration() -> None:
    """Each task is resampled on its own: here the two tasks give 4 × 4 equally likely means."""
    scores = np.array([[0.0, 10.0], [4.0, 30.0]])
    tasks = [[np.mean(pick) for pick in itertools.product(column, repeat=2)] for column in scores.T]
    exact = [(a + b) / 2 for a, b in itertools.product(*tasks)]  # 5, 6, 7, 10, 11, 12, 15, 16, 17 with multiplicities
    low, high = bootstrap_interval(scores, mean, confidence=0.85, resamples=20_000)
    assert (low, high) == tuple(np.percentile(exact, [7.5, 92.5])) == (6.0, 16.0)
    # Resampling runs as a whole would keep the tasks together and know only three means: 5, 11 and 17.
    assert (low, high) != (5, 17)


def test_interval_agrees_with_scipy() -> None:
    scores = np.random.default_rng(1).gamma(2.0, size=25)
    ours = bootstrap_interval(scores, mean, resamples=20_000)
    theirs = scipy.stats.bootstrap(
        (scores,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(2)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours == pytest.approx([theirs.low, theirs.high], abs=0.04 * width)


def test_coverage_is_about_what_is_promised() -> None:
    """The percentile bootstrap is known to be a little too narrow for few runs: σ̂ lacks √(n/(n−1)), and z stands for t.

    For n = 30 that makes Φ-nominal 80 % about 77.5 %; three standard errors of 1500 trials are 3.2 %.
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1500, 30))
    inside = [
        low <= 0 <= high
        for trial, row in enumerate(scores)
        for low, high in [bootstrap_interval(row, mean, confidence=0.8, resamples=400, seed=trial)]
    ]
    assert abs(np.mean(inside) - 0.775) < 0.032


def test_the_same_seed_gives_the_same_interval() -> None:
    scores = np.random.default_rng(0).normal(size=(10, 3))
    assert bootstrap_interval(scores) == bootstrap_interval(scores)
    assert bootstrap_interval(scores) != bootstrap_interval(scores, seed=1)


def test_intervals_of_one_run_equal_runs_and_no_runs() -> None:
    assert bootstrap_interval([3.0]) == (3.0, 3.0)
    assert bootstrap_interval([2.0] * 7) == (2.0, 2.0)
    assert np.isnan(bootstrap_interval([])).all()
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        bootstrap_interval([1.0], confidence=95)


def test_a_curve_is_bootstrapped_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(50, 6)).cumsum(axis=0)
    band = aggregate_curve(values, resamples=300)
    np.testing.assert_array_equal(band.center, iqm(values, axis=1))
    for point in (0, 17, 49):
        assert (band.low[point], band.high[point]) == bootstrap_interval(values[point], resamples=300)
    monkeypatch.setattr("pqn.report.statistics._BLOCK", 1)  # one point at a time gives the same
    np.testing.assert_array_equal(aggregate_curve(values, resamples=300), band)


def test_a_curve_over_tasks_is_stratified() -> None:
    values = np.random.default_rng(0).normal(size=(4, 5, 3))
    band = aggregate_curve(values, resamples=200)
    assert band.center[2] == iqm(values[2])
    assert (band.low[2], band.high[2]) == bootstrap_interval(values[2], resamples=200)


def test_a_curve_with_gaps() -> None:
    values = np.array([[np.nan, np.nan], [1.0, np.nan], [1.0, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        band = aggregate_curve(values, mean)
    np.testing.assert_array_equal(band.center, [np.nan, 1.0, 2.0])
    np.testing.assert_array_equal(band.low, [np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(band.high, [np.nan, 1.0, 3.0])


# --------------------------------------------------------------------------------------- probability of improvement

PAIR = st.integers(1, 3).flatmap(
    lambda tasks: st.tuples(
        *(
            hnp.arrays(float, st.tuples(st.integers(1, 6), st.just(tasks)), elements=st.integers(-3, 3))
            for _ in range(2)
        )
    )
)


@given(PAIR)
def test_probability_of_improvement_by_counting_pairs(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """The definition, one pair at a time; and the Mann-Whitney statistic."""
    ours, theirs = pair
    tasks = []
    for x, y in zip(ours.T, theirs.T, strict=True):
        won = [1.0 if a > b else 0.5 if a == b else 0.0 for a in x for b in y]
        tasks.append(sum(won) / len(won))
        assert tasks[-1] == pytest.approx(scipy.stats.mannwhitneyu(x, y).statistic / len(won))
    assert probability_of_improvement(ours, theirs) == pytest.approx(sum(tasks) / len(tasks))
    assert probability_of_improvement(ours, theirs) + probability_of_improvement(theirs, ours) == pytest.approx(1)


def test_probability_of_improvement_leaves_missing_scores_out() -> None:
    assert probability_of_improvement([1.0, np.nan, 3.0], [2.0, np.nan]) == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(probability_of_improvement([], [1.0])) and np.isnan(probability_of_improvement([np.nan], [1.0]))
        assert np.isnan(improvement_interval([], [1.0])).all()


def test_the_interval_of_an_improvement_matches_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs and two: 3³ × 2² equally likely resamples. With one side alone the interval would be narrower."""
    ours, theirs = [0.0, 1.0, 5.0], [1.0, 3.0]
    exact = [
        probability_of_improvement(x, y)
        for x in itertools.product(ours, repeat=3)
        for y in itertools.product(theirs, repeat=2)
    ]
    drawn = improvement_interval(ours, theirs, confidence=0.9, resamples=20_000)
    assert tuple(np.percentile(exact, [5, 95])) == pytest.approx((0, 5 / 6))
    assert tuple(drawn) == pytest.approx((0, 5 / 6))
    monkeypatch.setattr("pqn.report.statistics._BLOCK", 64)  # in many parts it is the same
    assert improvement_interval(ours, theirs, confidence=0.9, resamples=20_000) == drawn
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        improvement_interval(ours, theirs, confidence=95)


# ----------------------------------------------------------------------------------------- probability of improvement


@given(
    hnp.arrays(float, st.tuples(st.integers(1, 6), st.just(3)), elements=st.integers(-3, 3)),
    hnp.arrays(float, st.tuples(st.integers(1, 6), st.just(3)), elements=st.integers(-3, 3)),
)
def test_probability_of_improvement_by_its_definition(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Over all pairs of runs of a task: 1 for a win, ½ for a tie; then the mean over tasks."""
    tasks = [
        [1.0 if x > y else 0.5 if x == y else 0.0 for x, y in itertools.product(a, b)]
        for a, b in zip(ours.T, theirs.T, strict=True)
    ]
    expected = sum(sum(pairs) / len(pairs) for pairs in tasks) / len(tasks)
    assert probability_of_improvement(ours, theirs) == pytest.approx(expected)
    assert probability_of_improvement(theirs, ours) == pytest.approx(1 - expected)


def test_probability_of_improvement_leaves_out_missing_runs() -> None:
    assert probability_of_improvement([1.0, np.nan], [0.0]) == 1.0
    assert np.isnan(probability_of_improvement([np.nan], [0.0]))
    with pytest.raises(ValueError, match="3 tasks, the other 2"):
        probability_of_improvement(np.zeros((2, 3)), np.zeros((2, 2)))


def test_improvement_interval_matches_enumeration() -> None:
    """Two runs against one: the four resamples of [0, 2] beat 1 never, half the time twice, always."""
    low, high = improvement_interval([0.0, 2.0], [1.0], confidence=0.9, resamples=4000)
    assert (low, high) == (0.0, 1.0)
    assert improvement_interval([2.0, 3.0], [1.0, 0.0]) == (1.0, 1.0)


# --------------------------------------------------------------------------------------- values recorded from rliable

# rliable 1.2.0 with 50 000 resamples, arch 7.2.0: scores are runs × tasks; the point estimate and its 95 % interval.
TASKS = np.array([1.0, 5.0, 20.0, 100.0])
FIRST = np.array(
    [
        [1.668, 6.686, 22.918, 174.552],
        [1.109, 11.912, 36.13, 162.919],
        [0.464, 1.202, 10.149, 187.733],
        [1.605, 1.845, 37.269, 82.535],
        [0.826, 15.445, 30.532, 175.037],
        [1.767, 1.805, 36.511, 581.274],
        [0.548, 12.638, 54.258, 268.501],
        [0.938, 5.686, 11.116, 142.599],
        [3.625, 4.184, 3.816, 154.42],
        [2.725, 6.173, 90.174, 130.455],
    ]
)
SECOND = np.array(
    [
        [1.605, 3.604, 26.477, 290.868],
        [2.937, 18.524, 55.651, 238.151],
        [0.238, 4.437, 138.397, 113.738],
        [2.625, 7.996, 53.418, 176.056],
        [0.765, 4.614, 42.852, 117.001],
    ]
)
RLIABLE = {
    "iqm": [1.4600309999999999, 1.1882505875000002, 1.7837622125],
    "mean": [1.6508524999999998, 1.32470973125, 2.00983276875],
    "improvement": [0.4125, 0.255, 0.575],
}


@pytest.mark.parametrize(("name", "statistic"), [("iqm", iqm), ("mean", mean)])
def test_aggregates_agree_with_rliable(name: str, statistic) -> None:
    value, low, high = RLIABLE[name]
    scores = FIRST / TASKS
    assert statistic(scores) == pytest.approx(value, abs=1e-9)
    assert bootstrap_interval(scores, statistic, resamples=20_000) == pytest.approx(
        [low, high], abs=0.02 * (high - low)
    )


def test_probability_of_improvement_agrees_with_rliable() -> None:
    value, low, high = RLIABLE["improvement"]
    assert probability_of_improvement(FIRST, SECOND) == pytest.approx(value, abs=1e-9)
    found = improvement_interval(FIRST, SECOND, resamples=4000)
    assert found == pytest.approx([low, high], abs=0.04 * (high - low))
