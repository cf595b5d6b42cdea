"""A seed's environments in D shards: what each shard does by itself, and how shards are joined.

A shard has its own environments, its own random numbers and its own share of every minibatch. All shards of a seed hold
the same parameters: the gradients, and the statistics of batch norms, are means over shards (`mean`) before they are
used. Code that runs for one shard calls the functions here. Without shards they do nothing, not even to the compiled
program.

Which axes the shards lie on is for the program to decide (`on`): one device has them on an axis of `vmap`, several
devices on an axis of a mesh. The code in between does not know.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import TypeVar

import jax

from pqn.types import Array

Tree = TypeVar("Tree")

_AXES: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("axes of shards", default=())


@contextlib.contextmanager
def on(axes: tuple[str, ...]) -> Iterator[None]:
    """While the code in its block is traced, the shards lie on these axes, which have names; the first is outermost."""
    token = _AXES.set(axes)
    try:
        yield
    finally:
        _AXES.reset(token)


def axes() -> tuple[str, ...]:
    """The axes that the shards lie on; () without shards."""
    return _AXES.get()


def count() -> int:
    """D, the number of shards."""
    return math.prod(jax.lax.axis_size(name) for name in axes())


def mean(tree: Tree) -> Tree:
    """The mean over all shards, the same on each; one collective operation for the whole tree."""
    return jax.lax.pmean(tree, axes()) if axes() else tree


def total(tree: Tree) -> Tree:
    """The sum over all shards, the same on each."""
    return jax.lax.psum(tree, axes()) if axes() else tree


def least(tree: Tree) -> Tree:
    """The smallest number over all shards, the same on each."""
    return jax.lax.pmin(tree, axes()) if axes() else tree


def own_key(key: Array) -> Array:
    """A random key for this shard alone, from one that all shards share."""
    return jax.random.fold_in(key, jax.lax.axis_index(axes())) if axes() else key
