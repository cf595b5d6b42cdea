"""The statistics of the comparison with other implementations, and that both sides get the same numbers."""

import numpy as np
import pytest
from scipy import stats

from bench.peers.intervals import agree, difference, estimate
from bench.peers.tasks import TASKS


def test_intervals_are_students_and_welchs():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(3.0, 1.0, 6), rng.normal(5.0, 4.0, 9)
    wanted = stats.ttest_1samp(ours, 0.0).confidence_interval(0.95)
    assert estimate(ours) == pytest.approx((ours.mean(), wanted.low, wanted.high))
    wanted = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert difference(ours, theirs) == pytest.approx((ours.mean() - theirs.mean(), wanted.low, wanted.high))


def test_intervals_hold_the_truth_nineteen_times_in_twenty():
    rng = np.random.default_rng(1)
    trials = [(rng.normal(0.0, 1.0, 5), rng.normal(0.0, 3.0, 5)) for _ in range(400)]
    assert 0.92 <= np.mean([estimate(a).holds(0.0) for a, _ in trials]) <= 0.98
    assert 0.92 <= np.mean([agree(a, b) for a, b in trials]) <= 0.985


def test_what_differs_is_called_different():
    assert agree([500.0] * 5, [500.0] * 5)  # all at the highest score: no variance at all
    assert not agree([500.0] * 5, [499.0] * 5)
    assert not agree([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert agree([1.0, 2.0, 9.0], [2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="at least two seeds"):
        estimate([1.0])


@pytest.mark.parametrize("name", list(TASKS))
def test_our_side_has_the_numbers_of_the_task(name):
    task = TASKS[name]
    config, numbers = task.ours(), task.numbers
    assert task.seeds >= 5 and config.seeds == task.seeds
    assert config.steps > 0.98 * task.steps
    assert (config.env.name, config.network.hidden, config.eval.num_envs) == (task.env, task.hidden, task.eval_envs)
    assert task.theirs()["numbers"] == dict(numbers) and config.algorithm == task.algorithm
    gradients = config.learner.epochs * config.learner.minibatches
    if task.algorithm == "dqn":
        assert (config.steps_per_update, gradients) == (numbers["train_every"], numbers["gradient_steps"])
        assert config.target.interval * config.steps_per_update in (numbers["target_every"], config.steps_per_update)
    else:
        assert gradients == numbers["epochs"] * numbers["minibatches"]
        assert config.ppo.value_weight * 0.5 == numbers["value"]
