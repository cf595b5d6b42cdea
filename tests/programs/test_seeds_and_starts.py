"""Where randomness comes from, where episodes start, and how updates are added up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, tiny

from pqn.envs.probe import Counter
from pqn.programs import rollout
from pqn.programs.episodes import Finished
from pqn.programs.reported import NO_FAULT
from pqn.programs.totals import report


def test_seeds_differ_in_everything_random():
    program = build(tiny({"env.name": "probe:counter"}, seeds=2))
    state = jax.jit(jax.vmap(program.init_one))(program.seeds)
    kernel = state.learner.params["torso"]["Dense_0"]["kernel"]
    assert np.abs(kernel[0] - kernel[1]).min() > 0
    markers = state.stream.inputs.obs[..., 0]
    assert (markers[0] != markers[1]).mean() > 0.5
    keys = jax.random.key_data(state.key)
    assert (keys[0] != keys[1]).any()


def test_first_marks_the_observations_that_start_an_episode():
    """The counter's observation is (marker, t): t = 0 is the start of an episode."""
    program = build(tiny({"env.name": "probe:counter", "learner.gamma": 0.9, "learner.rollout_steps": 32}))
    state = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(program.init_one))(program.seeds))
    run = jax.jit(lambda s: rollout.collect(program.env, program.algorithm, s.learner, s.stream, s.key, program.hyper))
    stream, data, _ = run(state)
    for inputs in (data.inputs, stream.inputs):
        np.testing.assert_array_equal(inputs.first, inputs.obs[..., 1] == 0)
    assert 8 < data.inputs.first.sum() < data.inputs.first.size


def test_evaluations_play_other_games_each_time():
    program = build(tiny({"env.name": "probe:counter", "eval.num_envs": 16}, seeds=2))
    state = jax.jit(jax.vmap(program.init_one))(program.seeds)
    learner = jax.tree.map(lambda x: x[0], state.learner)
    lengths = jax.jit(lambda learner, seed: program.evaluate_one(learner, seed).length)
    now = lengths(learner, 0)
    np.testing.assert_array_equal(now, lengths(learner, 0))
    assert (now != lengths(learner._replace(updates=learner.updates + 1), 0)).mean() > 0.4
    assert (now != lengths(learner, 1)).mean() > 0.4  # nor do seeds share them
    training = 1 + np.asarray(state.stream.inputs.obs[0, :, 0, 0]) % Counter().longest
    assert (now[: len(training)] != training).any()


@pytest.mark.parametrize("sick", [None, "loss", "param_norm"])
def test_totals_are_sums_over_finished_episodes(sick):
    program = build(tiny())
    learner = program.algorithm.init(jax.random.key(0))._replace(updates=jnp.int32(4))
    if sick == "param_norm":
        learner = learner._replace(params=jax.tree.map(lambda x: x * jnp.nan, learner.params))
    finished = Finished(jnp.float32(2), jnp.float32(7), jnp.float32(5), {"wins": jnp.float32(1)})
    loss = jnp.float32(np.inf if sick == "loss" else 0.5)
    row = report(learner, {"loss": loss}, finished)
    assert (row["episodes"], row["return_sum"], row["length_sum"], row["info/wins_sum"]) == (2, 7, 5, 1)
    assert int(row["bad"]) == (NO_FAULT if sick is None else 4)
