"""The target network: when it moves, how far, and what it is asked."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_replay import learner, numbered

from pqn.algorithms.base import Hyper
from pqn.algorithms.replay import Sequences
from pqn.types import Inputs, Policy


@pytest.mark.parametrize(("interval", "rate"), [(1, 1.0), (3, 1.0), (2, 0.25)])
def test_the_target_network_moves_every_so_many_updates(interval, rate):
    one = learner(**{"target.interval": interval, "target.rate": rate, "network.norm_input": "batch_renorm"})
    hyper, state = Hyper.of(one.config), one.init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, state.target, one.policy(state))
    other = jax.tree.map(lambda x: x + 1, state.target)
    data = one.remember(one.empty_buffer(), numbered(0), jax.random.key(0))[1]
    prepare = jax.jit(lambda state, key: one.prepare(state, data, key, hyper)[1].fixed)
    for updates in range(4):
        moved = prepare(state._replace(target=other, updates=jnp.int32(updates)), jax.random.key(0))
        share = rate if updates % interval == 0 else 0.0

        def check(got, old, new, share=share):
            # Counters of batch norms are copied or stay; and a whole copy is one to the bit.
            if not jnp.issubdtype(got.dtype, jnp.floating) or share in (0.0, 1.0):
                np.testing.assert_array_equal(got, new if share else old)
            else:
                np.testing.assert_allclose(got, old + share * (new - old), rtol=1e-6)

        jax.tree.map(check, moved, other, one.policy(state))


def test_what_the_update_leaves_is_the_target_it_learned_from():
    one = learner(**{"target.interval": 2})
    hyper, state = Hyper.of(one.config), one.init(jax.random.key(0))
    update = jax.jit(lambda state, rollout, key: one.update(state, rollout, key, hyper)[0])
    history = []
    for number in range(4):
        history.append(one.policy(state))
        state = update(state, numbered(number), jax.random.key(number))
        jax.tree.map(np.testing.assert_array_equal, state.target, history[number // 2 * 2])
    assert any(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a != b).any()), state.target, one.policy(state))))


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("difference", [-3.0, -1.001, -0.999, 0.0, 0.5, 0.999, 1.001, 7.0])
def test_the_error_and_its_slope_on_both_sides_of_one(loss, difference):
    error, slope = jax.value_and_grad(learner(**{"target.loss": loss}).error)(jnp.float32(difference))
    if loss == "huber" and abs(difference) > 1:
        expected = (abs(difference) - 0.5, np.sign(difference))
    else:
        expected = (0.5 * difference**2, difference)
    np.testing.assert_allclose((error, slope), expected, rtol=1e-5, atol=1e-6)


def linear_values(one, weights):
    """A network without hidden layers whose Q-values of the observation 1 are `weights`."""
    kernel = jnp.stack([jnp.asarray(weights, jnp.float32), jnp.zeros(2)])
    return Policy({"head": {"q": {"kernel": kernel, "bias": jnp.zeros(2)}}}, {})


@pytest.mark.parametrize(("double", "worth"), [(False, 5.0), (True, 2.0)])
def test_with_double_the_network_chooses_and_the_target_network_says_what_it_is_worth(double, worth):
    one = learner(**{"target.double": double, "network.hidden": (), "network.norm": "none"})
    own, target = linear_values(one, [0.0, 1.0]), linear_values(one, [5.0, 2.0])
    obs = jnp.tile(jnp.array([1.0, 0.0]), (2, 3, 1, 1))
    blank = jnp.zeros((2, 3))
    inputs = Inputs(obs, jnp.zeros((2, 3, 1), bool))
    action = jnp.zeros((2, 3, 1), jnp.int32)
    batch = Sequences(inputs, None, None, action, blank, blank > 0, blank == 0, ())
    _, q = one.actor.network.apply({"params": own.params}, (), inputs)
    np.testing.assert_allclose(one.values(own.params, q, batch, target), worth)
    masked = batch._replace(avail=jnp.ones((2, 3, 1, 2), bool).at[0, ..., 1].set(False).at[1].set(False))
    values = one.values(own.params, q, masked, target)
    np.testing.assert_allclose(values, [[5.0] * 3, [0.0] * 3])  # the only legal action; and nobody can act


def test_a_return_ends_with_the_value_of_a_step_whose_successor_is_unknown():
    """γ = ½, rewards 1, values 8, 16, 24, … Step 0 is followed by one that was cut, step 2 ends the episode."""
    one = learner(**{"target.n_step": 2, "network.hidden": (), "network.norm": "none", "learner.segment_length": 4})
    hyper = Hyper.of(one.config)._replace(gamma=jnp.float32(0.5))
    own, target = linear_values(one, [0.0, 0.0]), linear_values(one, [8.0, 3.0])
    steps = 6
    obs = jnp.tile(jnp.array([1.0, 0.0]), (steps, 1, 1, 1)) * jnp.arange(1.0, steps + 1)[:, None, None, None]
    usable = jnp.ones((steps, 1), bool).at[1].set(False)
    ended = jnp.zeros((steps, 1), bool).at[2].set(True)
    batch = Sequences(
        Inputs(obs, jnp.zeros((steps, 1, 1), bool)),
        None,
        None,
        jnp.zeros((steps, 1, 1), jnp.int32),
        jnp.ones((steps, 1)),
        ended,
        usable,
        (),
    )
    _, (_, metrics) = one.loss(own.params, {}, batch, hyper, target)
    # 1 + ½·16; not counted; 1; 1 + ½·1 + ¼·48
    np.testing.assert_allclose(metrics["target"], np.mean([9.0, 1.0, 13.5]), rtol=1e-6)
    np.testing.assert_allclose(metrics["loss"], 0.5 * np.mean(np.square([9.0, 1.0, 13.5])), rtol=1e-6)
