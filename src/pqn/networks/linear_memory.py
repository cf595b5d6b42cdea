"""Memory without a loop over time: MinGRU and LRU, cleared exactly where an episode starts.

What such a memory forgets and takes in follows from its inputs alone, and the new state is linear in the old one:

    hₜ = aₜ · hₜ₋₁ + bₜ,   elementwise; where an episode starts, hₜ = bₜ

So all aₜ and bₜ are a few matrix products over all steps, and the states of T steps follow in about log₂ T rounds of
elementwise work (`jax.lax.associative_scan`). A CPU does the elementwise work step by step (`device`). Acting is the
case T = 1 of the same code. States are float32, whatever `network.dtype` says: a memory that keeps 0.999 of itself
would keep all of it in bfloat16.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.device import scans_in_parallel
from pqn.networks.carry import OneVector, TwoVectors
from pqn.types import Array, PyTree

Number = tuple[Array, ...]
"""A real array (x,), or the halves of a complex one (real, imaginary): exported graphs know no complex numbers."""

SHORTEST, LONGEST = 1.0, 1000.0  # MinGRU: steps after which a fresh unit has forgotten; our choice, see `lasting`
NEAREST, FARTHEST = 0.9, 0.999  # LRU: |λ| of fresh units; the ring that its paper uses where memory has to be long


class MinGRU(OneVector):
    """z = σ(x·W + b);  h ← (1 − z)·h + z·g(x·V + c), where g(y) = y + ½ for y ≥ 0, σ(y) below (Feng et al. 2024)."""

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array, train: bool = False) -> tuple[PyTree, Array]:
        """x [T, B, F] and first [T, B] to the carry after the last step and outputs [T, B, H]."""
        both = nn.Dense(2 * self.size, name="input", dtype=self.dtype, bias_init=lasting)(x).astype(jnp.float32)
        gate, candidate = jnp.split(both, 2, axis=-1)
        # 1 − σ(y) = σ(−y), which is exact where the subtraction would leave no digits.
        keep, take = nn.sigmoid(-gate), nn.sigmoid(gate)
        ((after,), (h,)) = remember(Steps((keep,), (take * _positive(candidate),), first), (carry,), train)
        return after, h


class LRU(TwoVectors):
    """h ← λ·h + γ·(x·B), complex;  out = gelu(Re(h·C) + x·D + d) (Orvieto et al. 2023).

    λ = exp(−exp(ν) + i·exp(θ)) cannot leave the unit disc. γ starts as √(1 − |λ|²), which gives states the variance of
    inputs. In the paper D is diagonal, which needs as many inputs as units. Its layers end with a gated unit; GELU is
    the least that lets Q depend on what is remembered and on what is seen together.
    """

    @nn.compact
    def __call__(self, carry: PyTree, x: Array, first: Array, train: bool = False) -> tuple[PyTree, Array]:
        nu = self.param("decay", ring, (self.size,))
        theta = self.param("phase", turns, (self.size,))
        gamma = self.param("gain", lambda key, shape: 0.5 * jnp.log(-jnp.expm1(-2.0 * jnp.exp(nu))), (self.size,))
        # Real and imaginary part have half of the variance each.
        half = nn.initializers.variance_scaling(0.5, "fan_in", "truncated_normal")
        b = nn.Dense(2 * self.size, name="input", dtype=self.dtype, use_bias=False, kernel_init=half)(x)
        taken = tuple(jnp.split(b.astype(jnp.float32) * jnp.tile(jnp.exp(gamma), 2), 2, axis=-1))
        length = jnp.exp(-jnp.exp(nu))
        kept = (length * jnp.cos(jnp.exp(theta)), length * jnp.sin(jnp.exp(theta)))
        kept = tuple(jnp.broadcast_to(part, (len(x), 1, self.size)) for part in kept)  # the same for all sequences
        after, h = remember(Steps(kept, taken, first), carry, train)
        # The imaginary half enters with its own kernel: Re(h·C) = Re h · Re C − Im h · Im C.
        y = nn.Dense(self.size, name="output", dtype=self.dtype, use_bias=False)(jnp.concatenate(h, axis=-1))
        y = y + nn.Dense(self.size, name="skip", dtype=self.dtype)(x)
        return after, nn.gelu(y.astype(jnp.float32))


def _positive(y: Array) -> Array:
    """g of MinGRU: continuous, and positive everywhere."""
    return jnp.where(y >= 0, y + 0.5, nn.sigmoid(y))


def lasting(key: Array, shape: tuple[int, ...], dtype: object = jnp.float32) -> Array:
    """A bias of MinGRU: its units forget after 1 to 1000 steps, evenly on a logarithmic scale; candidates have none.

    With a bias of 0 all units forget half at every step, and nothing is left to learn from after twenty.
    """
    units = shape[0] // 2
    times = jax.random.uniform(key, (units,), minval=math.log(SHORTEST), maxval=math.log(LONGEST))
    return jnp.concatenate([-times, jnp.zeros(units)])


def ring(key: Array, shape: tuple[int, ...]) -> Array:
    """ν of LRU: λ evenly distributed over the ring NEAREST ≤ |λ| ≤ FARTHEST of the complex plane."""
    square = jax.random.uniform(key, shape, minval=NEAREST**2, maxval=FARTHEST**2)
    return jnp.log(-0.5 * jnp.log(square))


def turns(key: Array, shape: tuple[int, ...]) -> Array:
    """θ of LRU: the logarithm of an angle, all angles alike."""
    return jnp.log(jax.random.uniform(key, shape, minval=1e-4, maxval=2.0 * math.pi))


class Steps(NamedTuple):
    """What happens to the memory at every step."""

    kept: Number  # aₜ [T, B, H], or [T, 1, H] where it is the same for all sequences
    taken: Number  # bₜ [T, B, H]
    first: Array  # [T, B] bool


def remember(steps: Steps, start: PyTree, train: bool) -> tuple[Number, Number]:
    """The state after the last step [B, H], and the states after all steps [T, B, H].

    In training the gradient is faster, but forward-mode differentiation is impossible; see `memory.recur`.
    """
    states = (_states_in_training if train else _states)(steps, tuple(start))
    return tuple(part[-1] for part in states), states


def _states(steps: Steps, start: Number) -> Number:
    cleared = steps.first[..., None]
    before = _clear(start, cleared[0])
    reached = _times(tuple(part[0] for part in steps.kept), before)
    # The state before the sequence is one more thing that the first step takes in.
    taken = tuple(jnp.concatenate([(x[0] + y)[None], x[1:]]) for x, y in zip(steps.taken, reached, strict=True))
    return _scan(steps.kept, taken, cleared)


def _scan(kept: Number, taken: Number, cleared: Array, reverse: bool = False) -> Number:
    """hₜ = aₜ·hₜ₋₁ + bₜ for all t, from h = 0, and hₜ = bₜ where the memory is cleared; with `reverse` from the end."""
    if len(cleared) == 1:
        return taken
    scan = _in_rounds if scans_in_parallel() else _in_a_loop
    return scan((kept, taken, cleared), reverse)


_Stretch = tuple[Number, Number, Array]
"""What a step, or several in a row, do to the memory: h to a·h + b, or to b if it was cleared on the way."""


def _join(some: _Stretch, more: _Stretch) -> _Stretch:
    """What two stretches do one after the other."""
    (a, b, cleared), (next_a, next_b, next_cleared) = some, more
    # Not a product with 0: what is not finite in one episode must not reach the next.
    reached = _times(next_a, _clear(b, next_cleared))
    return _times(next_a, a), tuple(x + y for x, y in zip(next_b, reached, strict=True)), cleared | next_cleared


def _in_rounds(steps: _Stretch, reverse: bool) -> Number:
    return jax.lax.associative_scan(_join, steps, reverse=reverse)[1]


def _in_a_loop(steps: _Stretch, reverse: bool) -> Number:
    def step(state: Number, now: _Stretch) -> tuple[Number, Number]:
        state = _join((state, state, now[2]), now)[1]
        return state, state

    return jax.lax.scan(step, tuple(jnp.zeros_like(part[0]) for part in steps[1]), steps, reverse=reverse)[1]


def _states_kept(steps: Steps, start: Number) -> tuple[Number, tuple[Steps, Number, Number]]:
    states = _states(steps, start)
    return states, (steps, start, states)


def _backwards(seen: tuple[Steps, Number, Number], to_states: Number) -> tuple[Steps, Number]:
    """The cotangents are a memory, too, that runs backwards: δₜ = (what the output asks for)ₜ + ā₍ₜ₊₁₎·δₜ₊₁."""
    steps, start, states = seen
    cleared, kept = steps.first[..., None], _conjugate(steps.kept)
    later = tuple(jnp.concatenate([part[1:], jnp.zeros_like(part[:1])]) for part in kept)
    ends = jnp.concatenate([cleared[1:], jnp.ones_like(cleared[:1])])
    delta = _scan(later, to_states, ends, reverse=True)
    before = tuple(jnp.concatenate([x[None], part[:-1]]) for x, part in zip(start, states, strict=True))
    to_kept = _times(_conjugate(_clear(before, cleared)), delta)
    if steps.kept[0].shape[1] == 1:
        to_kept = tuple(jnp.sum(part, axis=1, keepdims=True) for part in to_kept)
    to_start = _clear(_times(tuple(part[0] for part in kept), tuple(part[0] for part in delta)), cleared[0])
    no_first: Any = None  # a flag has no gradient
    return Steps(to_kept, delta, no_first), to_start


_states_in_training = jax.custom_vjp(_states)
"""`_states` with a gradient given by hand. That of the scan would keep every round of it, and go back through each."""
_states_in_training.defvjp(_states_kept, _backwards)


def _times(x: Number, y: Number) -> Number:
    if len(x) == 1:
        return (x[0] * y[0],)
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _conjugate(x: Number) -> Number:
    return (x[0], *(-part for part in x[1:]))


def _clear(state: Number, cleared: Array) -> Number:
    return tuple(jnp.where(cleared, 0.0, part) for part in state)
