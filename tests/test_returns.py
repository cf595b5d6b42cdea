"""λ-returns against their definition, and against recursions that are wrong in the ways public code has been wrong."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqn.returns import lambda_returns, n_step_returns

GAMMA = 0.9


def definition(rewards, discounts, next_values, lam):
    """(1 − λ) Σ λⁿ⁻¹ G⁽ⁿ⁾ for every start, one n-step return at a time; the last n has the weight that is left."""
    steps = len(rewards)
    returns = np.zeros(steps)
    for t in range(steps):
        weight_left, total = 1.0, 0.0
        for n in range(1, steps - t + 1):
            last = t + n == steps or discounts[t + n - 1] == 0.0  # rollout or episode ends: no longer return exists
            weight = weight_left if last else (1.0 - lam) * lam ** (n - 1)
            total += weight * n_step_return(rewards, discounts, next_values, t, n)
            weight_left -= weight
            if last:
                break
        returns[t] = total
    return returns


def n_step_return(rewards, discounts, next_values, t, n):
    """G⁽ⁿ⁾_t = r_t + γ_t r_{t+1} + … + (γ_t ⋯ γ_{t+n−1}) V(s_{t+n})."""
    total, factor = 0.0, 1.0
    for k in range(t, t + n):
        total += factor * rewards[k]
        factor *= discounts[k]
    return total + factor * next_values[t + n - 1]


@st.composite
def episodes(draw):
    """Random rewards and values with terminations and truncations; a truncation folds γV(final) into its reward."""
    steps = draw(st.integers(1, 12))
    number = st.floats(-3, 3, width=32)
    rewards = np.array(draw(st.lists(number, min_size=steps, max_size=steps)))
    values = np.array(draw(st.lists(number, min_size=steps, max_size=steps)))
    final = np.array(draw(st.lists(number, min_size=steps, max_size=steps)))
    ends = np.array(draw(st.lists(st.sampled_from("---tc"), min_size=steps, max_size=steps)))
    rewards = rewards + np.where(ends == "c", GAMMA * final, 0.0)
    return rewards, np.where(ends == "-", GAMMA, 0.0), values


@given(episodes(), st.sampled_from([0.0, 0.3, 0.65, 0.95, 1.0]))
def test_matches_the_definition(episode, lam):
    rewards, discounts, values = episode
    got = lambda_returns(*(jnp.asarray(x, jnp.float32) for x in (rewards, discounts, values)), lam)
    np.testing.assert_allclose(got, definition(rewards, discounts, values, lam), rtol=1e-4, atol=1e-4)


@given(episodes(), st.integers(1, 12))
def test_n_step_returns_are_those_of_the_definition(episode, n):
    rewards, discounts, values = episode
    n = min(n, len(rewards))
    got = n_step_returns(*(jnp.asarray(x, jnp.float32) for x in (rewards, discounts, values)), n)
    expected = [n_step_return(rewards, discounts, values, t, n) for t in range(len(rewards) - n + 1)]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def late_bootstrap(rewards, discounts, next_values, lam):
    """The public mistake: the step before the last bootstraps from Q(s_T) instead of Q(s_{T−1})."""
    returns = np.zeros(len(rewards))
    returns[-1] = rewards[-1] + discounts[-1] * next_values[-1]
    bootstrap = discounts[-1] * next_values[-1] / GAMMA
    for t in reversed(range(len(rewards) - 1)):
        returns[t] = rewards[t] + discounts[t] * ((1 - lam) * bootstrap + lam * returns[t + 1])
        bootstrap = next_values[t - 1]
    return returns


def shifted(rewards, discounts, next_values, lam):
    """Another: every target uses the value one step too late."""
    values = np.append(next_values[1:], next_values[-1])
    return np.asarray(lambda_returns(*(jnp.asarray(x) for x in (rewards, discounts, values)), lam))


def ignores_ends(rewards, discounts, next_values, lam):
    """Another: the return flows across the end of an episode."""
    return np.asarray(lambda_returns(rewards, jnp.full(len(rewards), GAMMA), next_values, lam))


@pytest.mark.parametrize("wrong", [late_bootstrap, shifted, ignores_ends])
def test_the_definition_catches_wrong_recursions(wrong):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 8))
    discounts = np.where(np.arange(8) == 3, 0.0, GAMMA)
    right = definition(rewards, discounts, values, 0.65)
    np.testing.assert_allclose(lambda_returns(rewards, discounts, values, 0.65), right, rtol=1e-5)
    assert np.abs(wrong(rewards, discounts, values, 0.65) - right).max() > 0.05


def test_batches_are_independent():
    rng = np.random.default_rng(1)
    rewards, values = rng.normal(size=(2, 5, 3))
    discounts = rng.choice([0.0, GAMMA], size=(5, 3))
    both = lambda_returns(rewards, discounts, values, 0.5)
    for column in range(3):
        alone = lambda_returns(rewards[:, column], discounts[:, column], values[:, column], 0.5)
        np.testing.assert_array_equal(both[:, column], alone)
