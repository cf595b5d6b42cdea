"""ε-greedy and sampling from a policy: frequencies, masks, schedules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pqn.exploration import epsilon_greedy, greedy_value, linear, sampled


def test_greedy_without_exploration():
    q = jnp.array([[0.0, 2.0, 1.0], [3.0, -1.0, 0.0]])
    uniform = jnp.array([0.0, 0.999])
    np.testing.assert_array_equal(epsilon_greedy(uniform, q, None, 0.0), [1, 0])


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("avail", [None, [True, False, True, True]])
def test_frequencies(epsilon, avail):
    n, q = 200_000, jnp.array([0.0, 5.0, 1.0, 0.0])
    mask = None if avail is None else jnp.broadcast_to(jnp.array(avail), (n, 4))
    actions = epsilon_greedy(jax.random.uniform(jax.random.key(0), (n,)), jnp.broadcast_to(q, (n, 4)), mask, epsilon)
    legal = np.ones(4, bool) if avail is None else np.array(avail)
    best = 1 if avail is None else 2
    expected = epsilon * legal / legal.sum() + (1 - epsilon) * (np.arange(4) == best)
    found = np.bincount(actions, minlength=4) / n
    np.testing.assert_allclose(found, expected, atol=4 * np.sqrt(0.25 / n))
    assert found[~legal].sum() == 0


@given(
    hnp.arrays(bool, (5, 6)),
    hnp.arrays(np.float32, (5, 6), elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False)),
    hnp.arrays(np.float32, (5,), elements=st.floats(0, 1, width=32, exclude_max=True)),
    st.sampled_from([0.0, 1e-3, 0.3, 1.0]),
)
def test_illegal_actions_are_never_chosen_nor_bootstrapped_from(avail, q, uniform, epsilon):
    actions = np.asarray(epsilon_greedy(uniform, q, avail, epsilon))
    some = avail.any(axis=1)
    assert avail[np.arange(5), actions][some].all()
    value = np.asarray(greedy_value(jnp.asarray(q), jnp.asarray(avail)))
    for row in range(5):
        assert value[row] == (q[row][avail[row]].max() if some[row] else 0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("avail", [None, [True, False, True, True]])
def test_sampled_frequencies_are_the_probabilities(epsilon, avail):
    n, logits = 200_000, np.array([0.0, 5.0, 1.0, -1.0])
    mask = None if avail is None else jnp.broadcast_to(jnp.array(avail), (n, 4))
    uniform = jax.random.uniform(jax.random.key(0), (n,))
    actions = sampled(uniform, jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (n, 4)), mask, epsilon)
    weights = np.exp(logits) * (1.0 if avail is None else np.array(avail))
    best = 1 if avail is None else 2
    expected = epsilon * weights / weights.sum() + (1 - epsilon) * (np.arange(4) == best)
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / n, expected, atol=4 * np.sqrt(0.25 / n))


@given(
    hnp.arrays(bool, (5, 6)),
    hnp.arrays(np.float32, (5, 6), elements=st.floats(-1e4, 1e4, width=32, allow_subnormal=False)),
    hnp.arrays(
        np.float32,
        (5,),
        elements=st.floats(0, 1, width=32, exclude_max=True) | st.sampled_from([0.0, float(1 - np.float32(2**-24))]),
    ),
    st.sampled_from([0.0, 1e-3, 0.3, 1.0]),
)
def test_illegal_actions_are_never_sampled(avail, logits, uniform, epsilon):
    actions = np.asarray(sampled(uniform, logits, avail, epsilon))
    some = avail.any(axis=1)
    assert avail[np.arange(5), actions][some].all()
    assert (actions[~some] == 0).all()


def test_linear_schedule():
    assert [float(linear(1.0, 0.2, 10.0, t)) for t in (0, 5, 10, 99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert float(linear(1.0, 0.2, 0.0, 0)) == pytest.approx(0.2)
