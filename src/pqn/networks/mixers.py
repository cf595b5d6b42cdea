"""Mixers: from the values of M agents to the value of the team.

A mixer must be monotonic, ∂Q_tot/∂Q_i ≥ 0. Then the best actions of the single agents are the best joint action, and
the maximum over joint actions in the target is the mixture of the agents' own maxima.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.types import Array


class VDN(nn.Module):
    """Q_tot = Σ_i Q_i (value decomposition). With one agent, the identity."""

    @nn.compact
    def __call__(self, q: Array, world: Array | None) -> Array:  # [..., M] -> [...]
        return jnp.sum(q, axis=-1)


class Independent(nn.Module):
    """No mixing: each agent learns its own value from the team's reward, with the others as part of its environment."""

    @nn.compact
    def __call__(self, q: Array, world: Array | None) -> Array:  # [..., M] -> [..., M]
        return q


class QMIX(nn.Module):
    """A small network on the agents' values whose non-negative weights are functions of the global state.

        h = ELU(|W₁(s)|ᵀ q + b₁(s)),    Q_tot = |w₂(s)|ᵀ h + v(s)

    W₁, w₂ and v come from hypernetworks with one hidden layer, b₁ from a linear one. Their hidden layers have a
    LayerNorm like every other layer of PQN. It replaces the target network that QMIX was published with.

    Args:
      size: units of the mixing network.
      hyper_size: hidden units of the hypernetworks.
    """

    size: int = 32
    hyper_size: int = 64

    @nn.compact
    def __call__(self, q: Array, world: Array | None) -> Array:  # [..., M], [..., W] -> [...]
        assert world is not None, "QMIX mixes by the global state"
        agents = q.shape[-1]
        inner = jnp.abs(self._hyper(world, agents * self.size, "weights")).reshape(*q.shape, self.size)
        bias = nn.Dense(self.size, name="bias")(world)
        hidden = jax.nn.elu(jnp.sum(q[..., None] * inner, axis=-2) + bias)
        outer = jnp.abs(self._hyper(world, self.size, "final"))
        return jnp.sum(hidden * outer, axis=-1) + self._hyper(world, 1, "value")[..., 0]

    def _hyper(self, world: Array, width: int, name: str) -> Array:
        x = nn.Dense(self.hyper_size, name=f"{name}_hidden")(world)
        x = nn.relu(nn.LayerNorm(name=f"{name}_norm")(x))
        return nn.Dense(width, name=name)(x)
