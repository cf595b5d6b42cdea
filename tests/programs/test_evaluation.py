"""Evaluation against play written out step by step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from fickle import Fickle, play

from pqn.algorithms.pqn import PQN
from pqn.envs.autoreset import Autoreset
from pqn.programs.evaluation import evaluate, means

CASES = {
    "plain": (Fickle(), {}),
    "gru": (Fickle(), {"network.memory": "gru", "network.memory_size": 8}),
    "masked": (Fickle(masked=True), {}),
    "scored": (Fickle(scored=True), {}),
}
ENVS = 12


def evaluated(case: str, max_steps: int):
    """What `evaluate` says, and what a plain player says."""
    single, options = CASES[case]
    env, learner = Autoreset(single, ENVS), PQN(tiny(options), single.spec)
    state = learner.init(jax.random.key(1))
    key = jax.random.key(2)
    found = jax.jit(lambda key: evaluate(env, learner.actor, state, key, 0.0, max_steps))(key)
    reset_key, _ = jax.random.split(key)
    return jax.device_get(found), play(env, learner.actor, state, reset_key, max_steps)


@pytest.mark.parametrize("case", ["gru", "masked"])
def test_play_is_greedy_with_memory_and_masks(case):
    found, expected = evaluated(case, 40)
    np.testing.assert_allclose(found.ret, expected.ret)
    assert len(np.unique(expected.ret / expected.length)) > 2  # not one action all the time


@pytest.mark.parametrize("case", ["plain", "scored"])
def test_only_the_first_episode_counts(case):
    found, expected = evaluated(case, 40)
    assert expected.finished.all() and len(np.unique(expected.length)) > 2  # the short ones wait for the longest
    np.testing.assert_array_equal(found.finished, True)
    np.testing.assert_array_equal(found.length, expected.length)
    np.testing.assert_allclose(found.ret, expected.ret)
    np.testing.assert_array_equal(found.info["t"], expected.length)


def test_an_evaluation_stops_at_its_limit():
    found, expected = evaluated("plain", 4)
    assert 0 < expected.finished.sum() < ENVS
    np.testing.assert_array_equal(found.finished, expected.finished)
    for ours, theirs in (
        (found.length, expected.length),
        (found.ret, expected.ret),
        (found.info["t"], expected.length),
    ):
        np.testing.assert_allclose(ours, np.where(expected.finished, theirs, np.nan))  # no number of an open episode


def test_means_leave_out_what_is_not_there():
    known = means(np.array([[1.0, np.nan, 4.0], [np.nan] * 3]))
    np.testing.assert_array_equal(known, [2.5, np.nan])


def test_evaluation_explores_where_it_is_told_to():
    single = Fickle()
    env, learner = Autoreset(single, 256), PQN(tiny(), single.spec)
    state = learner.init(jax.random.key(1))
    run = jax.jit(lambda epsilon: evaluate(env, learner.actor, state, jax.random.key(0), epsilon, 40))
    random = jax.device_get(run(jnp.float32(1.0)))
    assert random.ret.sum() / random.length.sum() == pytest.approx(1.0 + (0 + 1 + 4 + 9) / 4, rel=0.1)
