"""Collection: what is recorded, and how truncated episodes are bootstrapped."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Clock, build, tiny

from pqn.envs.autoreset import Autoreset
from pqn.programs import rollout
from pqn.programs.compiled import CompiledProgram
from pqn.types import EnvSpec, Inputs


def collect(options):
    program = build(tiny({"env.name": "probe:counter", "learner.gamma": 0.9} | options))
    state = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(program.init_one))(program.seeds))
    run = jax.jit(lambda s: rollout.collect(program.env, program.algorithm, s.learner, s.stream, s.key, program.hyper))
    return program, state, *run(state)


def test_records_are_the_environments_own_steps():
    """Replaying the recorded actions from the same start gives the recorded observations and rewards."""
    program, state, stream, data, finished = collect({"learner.rollout_steps": 32})
    env_state, obs = state.stream.env, state.stream.inputs.obs
    episodes, total, running = 0, 0.0, np.zeros(program.env.num_envs)
    for t in range(32):
        np.testing.assert_array_equal(data.inputs.obs[t], obs)
        env_state, step = program.env.step(env_state, data.action[t])
        done = np.asarray(step.terminated | step.truncated)
        np.testing.assert_array_equal(data.discount[t], np.where(done, 0.0, np.float32(0.9)))
        running += np.asarray(step.reward)
        episodes, total = episodes + done.sum(), total + running[done].sum()
        running[done] = 0.0
        plain = ~np.asarray(step.truncated)
        np.testing.assert_allclose(data.reward[t][plain], np.asarray(step.reward)[plain], rtol=1e-6)
        obs = step.obs
    assert episodes > 0 and int(finished.episodes) == episodes
    np.testing.assert_allclose(finished.ret, total, rtol=1e-5)
    np.testing.assert_array_equal(stream.inputs.obs, obs)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_truncated_steps_carry_the_value_of_their_true_successor(scale):
    """The value folded in is that of `final_obs`, not of the observation after the reset. Only the reward is scaled."""
    program, state, _, data, _ = collect({"learner.rollout_steps": 32, "learner.reward_scale": scale})
    env_state, cuts = state.stream.env, 0
    for t in range(32):
        env_state, step = program.env.step(env_state, data.action[t])
        _, q = program.algorithm.actor.scores(state.learner, (), Inputs(step.final_obs, step.first))
        expected = scale * step.reward + jnp.where(step.truncated, 0.9 * jnp.max(q[:, 0], axis=-1), 0.0)
        np.testing.assert_allclose(data.reward[t], expected, rtol=1e-4, atol=1e-4)
        cuts += int(step.truncated.sum())
    assert cuts > 0


class Narrow(Clock):
    """Each agent has one legal action: 1 and, at the end of an episode, 0."""

    spec = dataclasses.replace(Clock.spec, masked=True)

    def avail(self, state):
        return jnp.broadcast_to(jnp.arange(2) == (state < 3), (2, 2))


def test_a_truncated_episode_is_valued_by_the_actions_that_were_legal_at_its_end():
    """Not by those of the first step of the next episode."""
    program = CompiledProgram(tiny(), lambda n: Autoreset(Narrow(), n))
    state = program.init_one(jnp.int32(0))
    _, data, _ = rollout.collect(
        program.env, program.algorithm, state.learner, state.stream, jax.random.key(0), program.hyper
    )
    _, q = program.algorithm.actor.scores(state.learner, (), Inputs(jnp.full((1, 2, 1), 3.0), jnp.zeros((1, 2), bool)))
    assert not np.allclose(q[..., 0].sum(), q[..., 1].sum(), atol=1e-2)
    np.testing.assert_allclose(data.reward[2], 1.0 + 0.99 * q[..., 0].sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("limit", "steps", "slots"), [(None, 8, 8), (500, 64, 1), (8, 8, 1), (7, 8, 2), (1, 8, 8), (3, 7, 3)]
)
def test_slots_needed(limit, steps, slots):
    spec = EnvSpec("x", (1,), np.dtype("float32"), 2, max_episode_steps=limit, truncates=True)
    assert rollout.slots_needed(spec, steps) == slots


def test_value_is_the_greedy_value_of_the_acting_network():
    program, state, _, data, _ = collect({})
    for t in range(data.value.shape[0]):
        _, q = program.algorithm.actor.scores(state.learner, (), Inputs(data.inputs.obs[t], data.inputs.first[t]))
        np.testing.assert_allclose(data.value[t], jnp.max(q[:, 0], axis=-1), rtol=1e-5, atol=1e-6)
