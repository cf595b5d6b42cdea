"""Rollouts in pieces: what minibatches are made of.

A rollout [T, N] becomes S = (T/L)·N segments of length L. L = 1 is the feed-forward shuffle over all T·N transitions,
L = T the recurrent one over N environments. Between them lies truncated backpropagation through time.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.arrays import expand
from pqn.types import Array, Inputs, PyTree, Rollout, Seen


class Segments(NamedTuple):
    """S pieces of length L, ready to be shuffled."""

    inputs: Inputs  # [W + L, S, M, ...] the W steps before the piece only refresh the memory
    avail: Array | None  # [L, S, M, A]
    world: Array | None  # [L, S, W]; these three are a step longer where `Rollout.last_seen` is kept
    action: Array  # [L, S, M]
    reward: Array  # [L, S]
    discount: Array  # [L, S]
    target: Array  # [L, S] λ-returns from the values the network acted on
    after: Array  # [1, S] the value that follows the piece
    carry: PyTree  # [S, M, ...] recurrent state before the first of the inputs
    valid: Array | None = None  # [L, S] bool; the loss leaves the other steps out. None: all are transitions
    extra: PyTree = ()  # [L, S, ...] see `Note.extra`

    def head(self) -> Segments:
        """The steps with a loss, without those that only are successors."""
        avail, world = jax.tree.map(lambda x: x[: len(self.action)], (self.avail, self.world))
        return self._replace(avail=avail, world=world)


def segmented(rollout: Rollout, targets: Array, next_values: Array, length: int) -> Segments:
    """The segments of a rollout. Its carry was kept W steps before the start of each segment, [T/L, N]."""

    def fold(x: Array) -> Array:  # [T, N, ...] -> [L, T/L · N, ...]
        steps, envs = x.shape[:2]
        x = x.reshape(steps // length, length, envs, *x.shape[2:])
        return jnp.moveaxis(x, 1, 0).reshape(length, -1, *x.shape[3:])

    def fold_with_window(window: Array, x: Array) -> Array:  # [W, N, ...], [T, N, ...] -> [W + L, T/L · N, ...]
        if not len(window):
            return fold(x)
        line = jnp.concatenate([window, x])
        reach = len(window) + length
        return jnp.concatenate([line[start : start + reach] for start in range(0, len(x), length)], axis=1)

    def and_after(piece: Array, x: Array, last: Array) -> Array:  # ..., [T, N, ...], [N, ...] -> one step longer
        return jnp.concatenate([piece, fold(jnp.concatenate([x[1:], last[None]]))[-1:]])

    masks_and_worlds = jax.tree.map(fold, (rollout.avail, rollout.world))
    seen: PyTree = Seen(jax.tree.map(fold_with_window, rollout.window, rollout.inputs), *masks_and_worlds)
    if rollout.last_seen is not None:
        seen = jax.tree.map(and_after, seen, Seen(rollout.inputs, rollout.avail, rollout.world), rollout.last_seen)
    return Segments(
        *seen,
        action=fold(rollout.action),
        reward=fold(rollout.reward),
        discount=fold(rollout.discount),
        target=fold(targets),
        after=fold(next_values)[-1:],
        carry=jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollout.carry),
        valid=jax.tree.map(fold, rollout.valid),
        extra=jax.tree.map(fold, rollout.extra),
    )


def pick(segments: PyTree, order: Array) -> PyTree:
    """The segments numbered in `order` [B], of [L, S, ...] fields and an [S, ...] carry."""
    timed = jax.tree.map(lambda x: x[:, order], segments._replace(carry=()))
    return timed._replace(carry=jax.tree.map(lambda x: x[order], segments.carry))


def counted(batch: PyTree, values: Array) -> Array | None:
    """Which of the values [L, B] or, of each agent, [L, B, M] the loss looks at; None: all of them.

    `batch` has the fields `action`, `avail` and `valid` of `Segments`.
    """
    if values.ndim < batch.action.ndim or batch.avail is None:
        return batch.valid
    acting = jnp.any(batch.avail, axis=-1)  # the others have nothing to learn
    return acting if batch.valid is None else acting & batch.valid[..., None]


def mean(x: Array, counts: Array | None) -> Array:
    """Mean over the entries that count; `counts` may lack the last axes of x."""
    if counts is None:
        return jnp.mean(x)
    counts = jnp.broadcast_to(expand(counts, x), x.shape)
    return jnp.sum(jnp.where(counts, x, 0.0)) / jnp.maximum(jnp.sum(counts), 1)
