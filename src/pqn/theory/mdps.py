"""Small Markov chains whose transitions can be listed, so that every expectation of the theory is a finite sum."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pqn.theory.jacobian import Transitions


class Chain(NamedTuple):
    """States with features, transitions under the target policy π, and the data distribution d^μ."""

    features: Array  # [n, f]
    transition: Array  # [n, n]  P^π(s'|s)
    reward: Array  # [n]     E[r|s] under π
    sampling: Array  # [n]     d^μ(s)


def expected_batch(chain: Chain, gamma: float | Array) -> Transitions:
    """Every transition s → s' once, weighted d^μ(s) P^π(s'|s): sums over it are exact expectations.

    States stand for state-action pairs ("set x = s"), so there is a single action.
    """
    states = chain.features.shape[0]
    source = jnp.repeat(jnp.arange(states), states)
    target = jnp.tile(jnp.arange(states), states)
    return Transitions(
        obs=chain.features[source],
        action=jnp.zeros(states * states, jnp.int32),
        reward=chain.reward[source],
        discount=jnp.full(states * states, gamma, chain.features.dtype),
        next_obs=chain.features[target],
        next_policy=jnp.ones((states * states, 1), chain.features.dtype),
        weight=(chain.sampling[:, None] * chain.transition).reshape(-1),
    )


def stationary(transition: Array) -> Array:
    """d with dᵀP = dᵀ and Σd = 1, for an irreducible P."""
    states = transition.shape[0]
    # dᵀ(I − P + 𝟙) = 𝟙ᵀ, with 𝟙 the matrix of ones: adding Σd = 1 to every equation makes the system regular.
    return jnp.linalg.solve((jnp.eye(states) - transition + 1.0).T, jnp.ones(states))


def baird_features() -> np.ndarray:
    """Baird's features [7, 8] (Sutton & Barto, figure 11.1): 2eᵢ + e₈ for the upper states, e₇ + 2e₈ for the lower."""
    features = np.zeros((7, 8), np.float32)
    features[range(6), range(6)] = 2.0
    features[:6, 7] = 1.0
    features[6, 6], features[6, 7] = 1.0, 2.0
    return features


def baird_chain() -> Chain:
    """Baird's counterexample: π always goes to the lower state, μ visits all seven equally, every reward is 0."""
    transition = jnp.zeros((7, 7)).at[:, 6].set(1.0)
    return Chain(jnp.asarray(baird_features()), transition, jnp.zeros(7), jnp.full(7, 1 / 7))


def _normalised(rows: Array) -> Array:
    return rows / rows.sum(-1, keepdims=True)


def random_chain(key: Array, states: int, features: int, shift: float | Array = 1.0) -> Chain:
    """A random chain sampled with off-policiness `shift` ρ: d^μ = (1−ρ) d^π + ρ d^other.

    P^π rows ~ Dirichlet(1), features on the unit sphere, rewards uniform in [−1, 1]; d^other = softmax(3 N(0, 1))
    puts its mass on few states, like a narrow data set.
    """
    key_p, key_x, key_r, key_d = jax.random.split(key, 4)
    transition = _normalised(jax.random.exponential(key_p, (states, states)))
    x = jax.random.normal(key_x, (states, features))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    reward = jax.random.uniform(key_r, (states,), minval=-1.0, maxval=1.0)
    other = jax.nn.softmax(3.0 * jax.random.normal(key_d, (states,)))
    return Chain(x, transition, reward, (1 - shift) * stationary(transition) + shift * other)
