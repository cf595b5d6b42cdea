"""Memory: LSTM and GRU over whole sequences, cleared exactly where an episode starts.

What the input contributes to the gates does not depend on the past, so it is one matrix product over all time steps.
Only the recurrent product stays in the loop. The same holds in the backward pass for the gradient of the recurrent
kernel, and for the derivatives of the gates: see `_recur_in_training`. Memories that need no loop at all are in
`linear_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.device import unroll
from pqn.networks.carry import OneVector, TwoVectors
from pqn.networks.linear_memory import LRU, MinGRU
from pqn.types import Array, PyTree

# (state before, gates from the input, gates from the hidden state) -> state after, all of it elementwise
Cell = Callable[[PyTree, Array, Array], PyTree]


class LSTM(TwoVectors):
    """i, f, g, o = x·Wₓ + b + h·Wₕ;  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)."""

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array, train: bool = False) -> tuple[PyTree, Array]:
        """x [T, B, F] and first [T, B] to the carry after the last step and outputs [T, B, H]."""
        gates = nn.Dense(4 * self.size, name="input", dtype=self.dtype)(x)
        kernel = self.param("recurrent", orthogonal_gates, (self.size, 4 * self.size)).astype(self.dtype)
        return recur(_lstm, carry, Sequence(gates, first), kernel, jnp.zeros(4 * self.size), train)


class GRU(OneVector):
    """r, z = σ(x·Wₓ + b + h·Wₕ);  n = tanh(x·Wₙ + b + r·(h·Uₙ + b'));  h ← (1 − z)·n + z·h."""

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array, train: bool = False) -> tuple[PyTree, Array]:
        gates = nn.Dense(3 * self.size, name="input", dtype=self.dtype)(x)
        kernel = self.param("recurrent", orthogonal_gates, (self.size, 3 * self.size)).astype(self.dtype)
        bias = self.param("candidate_bias", nn.initializers.zeros_init(), (self.size,))
        bias = jnp.concatenate([jnp.zeros(2 * self.size), bias])
        return recur(_gru, carry, Sequence(gates, first), kernel, bias, train)


CELLS = {"lstm": LSTM, "gru": GRU, "mingru": MinGRU, "lru": LRU}
"""The layer of each name in `NetworkConfig.memory`."""


def orthogonal_gates(key: Array, shape: tuple[int, int]) -> Array:
    """A recurrent kernel [H, G·H] whose G gates are orthogonal matrices, drawn independently as by flax's cells.

    With one orthogonal matrix over all gates, the singular values of each gate would be far below 1, so that a fresh
    network would hardly remember anything from one step to the next.
    """
    size, gates = shape[0], shape[1] // shape[0]
    draw = nn.initializers.orthogonal()
    return jnp.concatenate([draw(one, (size, size)) for one in jax.random.split(key, gates)], axis=1)


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

    In training the gradient is faster, but forward-mode differentiation is impossible. The theory of stability needs
    that mode; it looks at networks as they act.
    """
    run = _recur_in_training if train else _forwards
    return run(cell, carry, sequence, kernel, bias)


class _Seen(NamedTuple):
    """What the backward pass needs of the forward pass, [T, B, ...]."""

    after: PyTree  # the states
    from_h: Array  # the hidden state's share of the gates


class _Kept(NamedTuple):
    """What `_keep` hands to `_backwards`."""

    carry: PyTree
    sequence: Sequence
    kernel: Array
    seen: _Seen


def _loop(cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array) -> tuple[PyTree, _Seen]:
    def step(state: PyTree, now: Sequence) -> tuple[PyTree, _Seen]:
        before = _clear(state, now.first)
        from_h = (_hidden(before).astype(kernel.dtype) @ kernel).astype(jnp.float32) + bias
        state = cell(before, now.gates.astype(jnp.float32), from_h)
        return state, _Seen(state, from_h)

    return jax.lax.scan(step, carry, sequence, unroll=unroll(len(sequence.first)))


def _forwards(cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array) -> tuple[PyTree, Array]:
    carry, seen = _loop(cell, carry, sequence, kernel, bias)
    return carry, _hidden(seen.after)


_recur_in_training = partial(jax.custom_vjp, nondiff_argnums=(0,))(_forwards)
"""`_forwards` with a gradient given by hand: what does not depend on the order of time is taken out of the loops.

A cell is elementwise, so its derivative is one number for each unit, for each pair of a result and an argument. These
numbers follow from the forward pass, for all times at once. The backward loop only multiplies by them and by the
kernel. The gradient of the kernel is a sum over time of products hₜᵀ·δₜ. Here it is one product over all times. The
derivative of the loop would add the products one by one, reading and writing a matrix as large as the kernel at every
step.
"""


def _keep(
    cell: Cell, carry: PyTree, sequence: Sequence, kernel: Array, bias: Array
) -> tuple[tuple[PyTree, Array], _Kept]:
    after, seen = _loop(cell, carry, sequence, kernel, bias)
    return (after, _hidden(seen.after)), _Kept(carry, sequence, kernel, seen)


def _backwards(cell: Cell, kept: _Kept, cotangents: tuple[PyTree, Array]) -> tuple[PyTree, Sequence, Array, Array]:
    carry, sequence, kernel, (states, from_h) = kept
    shifted = jax.tree.map(lambda start, x: jnp.concatenate([start[None], x[:-1]]), carry, states)
    before = _clear(shifted, sequence.first)
    _, pull = jax.vjp(cell, before, sequence.gates.astype(jnp.float32), from_h)
    # Of each part of the state after a step: its derivatives by the state before and by both shares of the gates.
    derivatives = [pull(basis) for basis in _basis(states)]

    def chain(after: PyTree, derivatives: list[PyTree]) -> PyTree:
        """Cotangents of what the derivatives are by, from those of the state after."""
        terms = [
            jax.tree.map(lambda d, a=a: d * jnp.tile(a, d.shape[-1] // a.shape[-1]), derivative)
            for a, derivative in zip(jax.tree.leaves(after), derivatives, strict=True)
        ]
        return jax.tree.map(lambda *x: sum(x[1:], x[0]), *terms)

    def step(later: PyTree, now: tuple[Array, Array, list[PyTree]]) -> tuple[PyTree, PyTree]:
        first, output, derivatives = now
        after = _add_hidden(later, output)
        to_state, to_h = chain(after, derivatives)
        through = (to_h.astype(kernel.dtype) @ kernel.T).astype(jnp.float32)
        return _clear(_add_hidden(to_state, through), first), after

    last, outputs = cotangents
    given = (sequence.first, outputs, [(by_state, by_h) for by_state, _, by_h in derivatives])
    to_carry, after = jax.lax.scan(step, last, given, reverse=True, unroll=unroll(len(sequence.first)))
    to_x, to_h = chain(after, [(by_x, by_h) for _, by_x, by_h in derivatives])
    hidden = _hidden(before).astype(kernel.dtype)
    to_kernel = jnp.einsum("tbh,tbg->hg", hidden, to_h.astype(kernel.dtype))
    no_first: Any = None  # a flag has no gradient
    return to_carry, Sequence(to_x.astype(sequence.gates.dtype), no_first), to_kernel, jnp.sum(to_h, axis=(0, 1))


_recur_in_training.defvjp(_keep, _backwards)


def _basis(state: PyTree) -> list[PyTree]:
    """For each part of a state: ones there, zeros elsewhere."""
    leaves, structure = jax.tree.flatten(state)
    return [
        jax.tree.unflatten(structure, [(jnp.ones_like if i == j else jnp.zeros_like)(x) for j, x in enumerate(leaves)])
        for i in range(len(leaves))
    ]


def _hidden(state: PyTree) -> Array:
    """h, the part of a state that is also the output: the first of an LSTM's pair, a GRU's only one."""
    return jax.tree.leaves(state)[0]


def _add_hidden(state: PyTree, h: Array) -> PyTree:
    leaves, structure = jax.tree.flatten(state)
    return jax.tree.unflatten(structure, [leaves[0] + h, *leaves[1:]])


def _clear(carry: PyTree, first: Array) -> PyTree:
    """Forgets everything where an episode starts with this observation."""
    return jax.tree.map(lambda x: jnp.where(first[..., None], 0.0, x), carry)
