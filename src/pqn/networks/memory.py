"""Memory: LSTM and GRU over whole sequences, cleared exactly where an episode starts.

What the input contributes to the gates does not depend on the past, so it is one matrix product over all time steps;
only the recurrent product stays in the loop.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.device import unroll
from pqn.types import Array, PyTree


class LSTM(nn.Module):
    """i, f, g, o = x·Wₓ + b + h·Wₕ;  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)."""

    size: int
    dtype: str = "float32"

    @staticmethod
    def initial_carry(size: int, *batch: int) -> PyTree:
        return (jnp.zeros((*batch, size)), jnp.zeros((*batch, size)))

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array) -> tuple[PyTree, Array]:  # x [T, B, F], first [T, B]
        gates = nn.Dense(4 * self.size, name="input", dtype=self.dtype)(x)
        kernel = self.param("recurrent", nn.initializers.orthogonal(), (self.size, 4 * self.size)).astype(self.dtype)

        def step(carry: tuple[Array, Array], xs: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
            gates, first = xs
            h, c = _clear(carry, first)
            i, f, g, o = jnp.split((gates + h.astype(self.dtype) @ kernel).astype(jnp.float32), 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return jax.lax.scan(step, carry, (gates, first), unroll=unroll(len(x)))


class GRU(nn.Module):
    """r, z = σ(x·Wₓ + b + h·Wₕ);  n = tanh(x·Wₙ + b + r·(h·Uₙ + b'));  h ← (1 − z)·n + z·h."""

    size: int
    dtype: str = "float32"

    @staticmethod
    def initial_carry(size: int, *batch: int) -> PyTree:
        return jnp.zeros((*batch, size))

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array) -> tuple[PyTree, Array]:
        gates = nn.Dense(3 * self.size, name="input", dtype=self.dtype)(x)
        kernel = self.param("recurrent", nn.initializers.orthogonal(), (self.size, 3 * self.size)).astype(self.dtype)
        bias = self.param("candidate_bias", nn.initializers.zeros_init(), (self.size,))

        def step(h: Array, xs: tuple[Array, Array]) -> tuple[Array, Array]:
            gates, first = xs
            h = _clear(h, first)
            from_x = jnp.split(gates.astype(jnp.float32), 3, axis=-1)
            from_h = jnp.split((h.astype(self.dtype) @ kernel).astype(jnp.float32), 3, axis=-1)
            r, z = (nn.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2], strict=True))
            n = jnp.tanh(from_x[2] + r * (from_h[2] + bias))
            h = (1.0 - z) * n + z * h
            return h, h

        return jax.lax.scan(step, carry, (gates, first), unroll=unroll(len(x)))


CELLS = {"lstm": LSTM, "gru": GRU}


def _clear(carry: PyTree, first: Array) -> PyTree:
    """Forgets everything where an episode starts with this observation."""
    return jax.tree.map(lambda x: jnp.where(first[:, None], 0.0, x), carry)
