"""Memory: LSTM and GRU over whole sequences, cleared exactly where an episode starts.

What the input contributes to the gates does not depend on the past, so it is one matrix product over all time steps;
only the recurrent product stays in the loop. Going back in time the same holds for the gradient of the recurrent
kernel, which plain differentiation would accumulate inside the loop: see `_recur_in_training`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.device import unroll
from pqn.types import Array, PyTree

# (state before, gates from the input, gates from the hidden state) -> state after, all of it elementwise
Cell = Callable[[PyTree, Array, Array], PyTree]


class LSTM(nn.Module):
    """i, f, g, o = x·Wₓ + b + h·Wₕ;  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)."""

    size: int
    dtype: str = "float32"

    @staticmethod
    def initial_carry(size: int, *batch: int) -> PyTree:
        return (jnp.zeros((*batch, size)), jnp.zeros((*batch, size)))

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array, train: bool = False) -> tuple[PyTree, Array]:
        """x [T, B, F] and first [T, B] to the carry after the last step and outputs [T, B, H]."""
        gates = nn.Dense(4 * self.size, name="input", dtype=self.dtype)(x)
        kernel = self.param("recurrent", nn.initializers.orthogonal(), (self.size, 4 * self.size)).astype(self.dtype)
        return recur(_lstm, carry, Sequence(gates, first), kernel, jnp.zeros(4 * self.size), train)


class GRU(nn.Module):
    """r, z = σ(x·Wₓ + b + h·Wₕ);  n = tanh(x·Wₙ + b + r·(h·Uₙ + b'));  h ← (1 − z)·n + z·h."""

    size: int
    dtype: str = "float32"

    @staticmethod
    def initial_carry(size: int, *batch: int) -> PyTree:
        return jnp.zeros((*batch, size))

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array, train: bool = False) -> tuple[PyTree, Array]:
        gates = nn.Dense(3 * self.size, name="input", dtype=self.dtype)(x)
        kernel = self.param("recurrent", nn.initializers.orthogonal(), (self.size, 3 * self.size)).astype(self.dtype)
        bias = self.param("candidate_bias", nn.initializers.zeros_init(), (self.size,))
        bias = jnp.concatenate([jnp.zeros(2 * self.size), bias])
        return recur(_gru, carry, Sequence(gates, first), kernel, bias, train)


CELLS = {"lstm": LSTM, "gru": GRU}


class Sequence(NamedTuple):
    """What a cell reads at every step."""

    gates: Array  # [T, B, G] the input's share of the gates
    first: Array  # [T, B] bool


def _lstm(state: tuple[Array, Array], from_x: Array, from_h: Array) -> tuple[Array, Array]:
    i, f, g, o = jnp.split(from_x + from_h, 4, axis=-1)
    c = nn.sigmoid(f) * state[1] + nn.sigmoid(i) * jnp.tanh(g)
    return nn.sigmoid(o) * jnp.tanh(c), c


def _gru(h: Array, from_x: Array, from_h: Array) -> Array:
    (r, z, n), (r_h, z_h, n_h) = jnp.split(from_x, 3, axis=-1), jnp.split(from_h, 3, axis=-1)
    r, z = nn.sigmoid(r + r_h), nn.sigmoid(z + z_h)
    return (1.0 - z) * jnp.tanh(n + r * n_h) + z * h


def recur(
    cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array, train: bool
) -> tuple[PyTree, Array]:
    """Steps a cell through a sequence: the carry after it and the hidden states [T, B, H].

    Training has the faster gradient. It cannot be differentiated forwards, which the study of stability needs: that
    looks at networks as they act.
    """
    if train:
        return _recur_in_training(cell, carry, sequence, kernel, bias)
    carry, (outputs, _) = _forwards(cell, carry, sequence, kernel, bias)
    return carry, outputs


class _Seen(NamedTuple):
    """What a step back in time needs of the step forth, [T, B, ...]."""

    before: PyTree  # the state it started from
    from_h: Array  # the hidden state's share of the gates


def _forwards(
    cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array
) -> tuple[PyTree, tuple[Array, _Seen]]:
    def step(state: PyTree, now: Sequence) -> tuple[PyTree, tuple[Array, _Seen]]:
        before = _clear(state, now.first)
        from_h = (_hidden(before).astype(kernel.dtype) @ kernel).astype(jnp.float32) + bias
        state = cell(before, now.gates.astype(jnp.float32), from_h)
        return state, (_hidden(state), _Seen(before, from_h))

    return jax.lax.scan(step, carry, sequence, unroll=unroll(len(sequence.first)))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _recur_in_training(
    cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array
) -> tuple[PyTree, Array]:
    """`recur` with its gradient written out, so that the loop back in time holds one matrix product and not two.

    The gradient of the kernel is a sum over time of products hₜᵀ·δₜ. Differentiating the loop adds them up one by one,
    reading and writing a matrix as large as the kernel at every step; here the δₜ are kept, and the sum is one product
    over all times at once.
    """
    carry, (outputs, _) = _forwards(cell, carry, sequence, kernel, bias)
    return carry, outputs


def _keep(cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array) -> tuple[Any, Any]:
    carry, (outputs, seen) = _forwards(cell, carry, sequence, kernel, bias)
    return (carry, outputs), (sequence, kernel, seen)


def _backwards(cell: Cell, kept: Any, cotangents: tuple[PyTree, Array]) -> tuple[PyTree, Sequence, Array, Array]:
    sequence, kernel, seen = kept
    after, outputs = cotangents

    def step(after: PyTree, now: tuple[Sequence, _Seen, Array]) -> tuple[PyTree, tuple[Array, Array]]:
        (gates, first), (before, from_h), output = now
        _, pull = jax.vjp(cell, before, gates.astype(jnp.float32), from_h)
        to_state, to_x, to_h = pull(_add_hidden(after, output))
        through = (to_h.astype(kernel.dtype) @ kernel.T).astype(jnp.float32)
        return _clear(_add_hidden(to_state, through), first), (to_x, to_h)

    length = unroll(len(outputs))
    carry, (to_x, to_h) = jax.lax.scan(step, after, (sequence, seen, outputs), reverse=True, unroll=length)
    hidden = _hidden(seen.before).astype(kernel.dtype)
    to_kernel = jnp.einsum("tbh,tbg->hg", hidden, to_h.astype(kernel.dtype))
    no_first: Any = None  # a flag has no gradient
    return carry, Sequence(to_x.astype(sequence.gates.dtype), no_first), to_kernel, jnp.sum(to_h, axis=(0, 1))


_recur_in_training.defvjp(_keep, _backwards)


def _hidden(state: PyTree) -> Array:
    """h, the part of a state that is also the output: the first of an LSTM's pair, a GRU's only one."""
    return jax.tree.leaves(state)[0]


def _add_hidden(state: PyTree, h: Array) -> PyTree:
    leaves, structure = jax.tree.flatten(state)
    return jax.tree.unflatten(structure, [leaves[0] + h, *leaves[1:]])


def _clear(carry: PyTree, first: Array) -> PyTree:
    """Forgets everything where an episode starts with this observation."""
    return jax.tree.map(lambda x: jnp.where(first[:, None], 0.0, x), carry)
