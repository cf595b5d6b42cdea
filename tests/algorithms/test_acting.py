"""Acting by Q-values: what the network is shown, which action is taken, and which value is noted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny

from pqn.algorithms.acting import QActor
from pqn.types import Draw, EnvSpec, Seen

SPEC = EnvSpec("two agents", (3,), np.dtype("float32"), num_actions=4, num_agents=2, masked=True)


@pytest.mark.parametrize("last_action", [False, True])
@pytest.mark.parametrize("last_reward", [False, True])
def test_the_network_is_shown_what_its_options_say(last_action, last_reward):
    actor = QActor(tiny({"network.last_action": last_action, "network.last_reward": last_reward}), SPEC)
    obs, first, action = jnp.ones((5, 2, 3)), jnp.zeros((5, 2), bool), jnp.arange(10).reshape(5, 2)
    inputs = actor.inputs(obs, first, action, jnp.arange(5.0))
    assert inputs.obs is obs and inputs.first is first
    if last_action:
        np.testing.assert_array_equal(inputs.last_action, action)
    if last_reward:  # the team's reward, for each of its agents
        np.testing.assert_array_equal(inputs.last_reward, np.arange(5.0)[:, None] * np.ones(2))
    assert (inputs.last_action is not None, inputs.last_reward is not None) == (last_action, last_reward)


def test_only_legal_actions_are_taken_and_valued():
    """Greedy: the best legal action of each agent, and the sum of their values, with and without acting."""
    actor = QActor(tiny(), SPEC)
    policy = actor.init(jax.random.key(0))
    obs = jax.random.normal(jax.random.key(1), (6, 2, 3))
    avail = jax.random.bernoulli(jax.random.key(2), 0.5, (6, 2, 4)).at[..., 1].set(True)
    inputs = actor.inputs(obs, jnp.zeros((6, 2), bool), jnp.zeros((6, 2), jnp.int32), jnp.zeros(6))
    seen = Seen(inputs, avail)
    _, q = actor.scores(policy, (), inputs)
    legal = np.where(avail, q, -np.inf)
    assert (legal.argmax(-1) != np.argmax(q, -1)).any()
    carry, action, note = actor.act(policy, (), seen, Draw(jnp.zeros((6, 2)), 0.0))
    assert carry == ()
    np.testing.assert_array_equal(action, legal.argmax(-1))
    np.testing.assert_allclose(note.value, legal.max(-1).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(actor.value(policy, (), seen), note.value, rtol=1e-6)


def test_exploring_is_left_to_the_draw():
    actor = QActor(tiny(), SPEC)
    seen = Seen(actor.inputs(jnp.ones((3, 2, 3)), jnp.zeros((3, 2), bool), jnp.zeros((3, 2), jnp.int32), jnp.zeros(3)))
    uniform = jnp.array([[0.05, 0.3], [0.55, 0.8], [0.95, 0.2]])  # with ε = 1, the quarter they are in is the action
    _, action, _ = actor.act(actor.init(jax.random.key(0)), (), seen, Draw(uniform, 1.0))
    np.testing.assert_array_equal(action, [[0, 1], [2, 3], [3, 0]])
