"""Helpers on the axes and dtypes of arrays."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from pqn.types import Array, PyTree


def expand(flag: Array, like: Array) -> Array:
    """Reshapes flag [N] so that it broadcasts against like [N, ...]."""
    return flag.reshape(flag.shape + (1,) * (like.ndim - flag.ndim))


def where(flag: Array, new: PyTree, old: PyTree) -> PyTree:
    """`new` where flag [N] is set, otherwise `old`, in every leaf [N, ...]."""
    return jax.tree.map(lambda a, b: jnp.where(expand(flag, b), a, b), new, old)


def at_once(reduce: Callable[[Array], Array], tree: PyTree) -> PyTree:
    """`reduce` of every leaf, all of one shape, as one operation of their stack: [F, ...] -> [F].

    Each leaf by itself would be a kernel of its own, which an accelerator launches and the compiler compiles.
    """
    leaves, structure = jax.tree.flatten(tree)
    return structure.unflatten(list(reduce(jnp.stack(leaves))))


def strong(tree: PyTree) -> PyTree:
    """Removes jax's weak types, which Python numbers leave behind: a weak type would compile the first step twice."""
    return jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.extended) else x.astype(x.dtype), tree)
