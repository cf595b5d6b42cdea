"""Acting by a policy: probabilities over legal actions, what is noted, and which networks look at what."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pqn.algorithms import make_algorithm
from pqn.algorithms.sampling import PolicyActor, distribution, log_probability
from pqn.errors import ConfigError
from pqn.types import Draw, EnvSpec, Seen

M, A = 2, 4
SPEC = EnvSpec("two", (3,), np.dtype("float32"), num_actions=A, num_agents=M, masked=True, world_size=5)

masks = hnp.arrays(bool, (5, A))
logits = hnp.arrays(np.float32, (5, A), elements=st.floats(-30, 30, width=32))


def both(logits, avail, action):
    found = distribution(logits, avail, action)
    return jnp.sum(found.log_probability * jnp.arange(1.0, 6.0)) + jnp.sum(found.entropy * jnp.arange(2.0, 7.0)), found


GRADIENT = jax.jit(jax.value_and_grad(both, has_aux=True))


@given(masks, logits, st.integers(0, 2**16))
def test_probabilities_and_entropy_are_those_of_the_legal_actions(avail, logits, luck):
    rng = np.random.default_rng(luck)
    action = np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in avail])
    (_, found), slope = GRADIENT(logits, avail, action)
    assert np.isfinite(found.log_probability).all() and np.isfinite(slope).all()
    for row in np.flatnonzero(avail.any(-1)):
        legal = avail[row]
        weights = np.exp(logits[row].astype(np.float64) - logits[row][legal].max())[legal]
        chance = weights / weights.sum()
        rank = np.flatnonzero(legal).tolist().index(action[row])
        np.testing.assert_allclose(found.log_probability[row], np.log(chance[rank]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.entropy[row], -(chance * np.log(chance)).sum(), rtol=1e-3, atol=1e-5)
    assert (np.asarray(slope)[~avail] == 0.0).all()  # exactly
    assert (np.asarray(found.entropy)[~avail.any(-1)] == 0.0).all()
    again = log_probability(jnp.asarray(logits), avail, action)
    np.testing.assert_allclose(found.log_probability, again, rtol=1e-5, atol=1e-6)


def test_without_masks_every_action_is_legal():
    given_logits, action = jax.random.normal(jax.random.key(0), (5, A)), jnp.arange(5) % A
    free, all_legal = (distribution(given_logits, avail, action) for avail in (None, jnp.ones((5, A), bool)))
    jax.tree.map(np.testing.assert_array_equal, free, all_legal)


# ---- the actor ----


def actor_of(spec=SPEC, **options) -> PolicyActor:
    return PolicyActor(tiny({"network.hidden": (8,)} | options, algorithm="ppo"), spec)


def seen_by(actor, envs=6):
    obs = jax.random.normal(jax.random.key(1), (envs, M, 3))
    avail = jax.random.bernoulli(jax.random.key(2), 0.5, (envs, M, A)).at[..., 1].set(True)
    inputs = actor.inputs(obs, jnp.zeros((envs, M), bool), jnp.zeros((envs, M), jnp.int32), jnp.zeros(envs))
    world = jax.random.normal(jax.random.key(3), (envs, 5))
    return Seen(inputs, avail, actor.world(obs, world))


@pytest.mark.parametrize("critic", ["shared", "separate", "world"])
def test_what_is_noted_is_what_learning_will_need(critic):
    actor = actor_of(**{"ppo.critic": critic})
    policy = actor.init(jax.random.key(0))
    policy = policy._replace(params=jax.tree.map(lambda x: 3.0 * x + 0.1, policy.params))
    seen = seen_by(actor)
    draws = jax.random.uniform(jax.random.key(4), (6, M))
    _, action, note = actor.act(policy, (), seen, Draw(draws, 1.0))
    assert np.take_along_axis(np.asarray(seen.avail), np.asarray(action)[..., None], -1).all()
    _, scores = actor.scores(policy, (), seen.inputs)  # without the world: what the critic makes of it is not asked
    np.testing.assert_allclose(note.extra, log_probability(scores, seen.avail, action), rtol=1e-5, atol=1e-6)
    assert note.value.shape == ((6,) if critic == "world" else (6, M))
    np.testing.assert_allclose(actor.value(policy, (), seen), note.value, rtol=1e-6)
    _, greedy, _ = actor.act(policy, (), seen, Draw(draws, 0.0))
    np.testing.assert_array_equal(greedy, np.where(seen.avail, scores, -np.inf).argmax(-1))
    assert (np.asarray(greedy) != np.asarray(action)).any()
    if seen.world is not None:
        np.testing.assert_array_equal(seen.world, jax.random.normal(jax.random.key(3), (6, 5)))
    elsewhere = seen if seen.world is None else seen._replace(world=seen.world + 1.0)
    same = np.array_equal(actor.value(policy, (), elsewhere), note.value)
    assert same == (critic != "world")


def test_one_agent_has_the_value_of_the_team():
    spec = EnvSpec("one", (3,), np.dtype("float32"), num_actions=A)
    for critic in ("shared", "separate", "world"):
        assert actor_of(spec, **{"ppo.critic": critic}).value_shape == ()
    assert actor_of().value_shape == (M,) and actor_of(**{"ppo.critic": "world"}).value_shape == ()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learner.mixer": "qmix"}, "learner.mixer is qmix; it is for Q-values, which algorithm ppo does not have"),
        ({"network.head": "dueling"}, "network.head is dueling; it is for Q-values"),
        (
            {
                "ppo.critic": "world",
                "network.memory": "gru",
                "learner.segment_length": 4,
                "learner.burn_in": 2,
            },
            "learner.burn_in is 2; it must be 0 with ppo.critic world",
        ),
        ({"learner.l2_final": 0.1}, "learner.l2_final is 0.1; it is for Q-values"),
        ({"learner.l2_inner": 0.1}, "learner.l2_inner is 0.1; it is for Q-values"),
        ({"learner.targets": "minibatch"}, "learner.targets is minibatch; it is for Q-values"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make_algorithm(tiny(options, algorithm="ppo"), SPEC)
