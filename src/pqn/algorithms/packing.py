"""Parameters as a few arrays.

Clipping and optimising one vector instead of a tree of small arrays takes fewer kernels, and their number is what a
small network's gradient step costs on an accelerator. A large matrix stays as it is: in the vector it would have to be
copied out of it.

The vector ends in zeros, which have no gradient: with two cores, XLA takes several numbers at a time only of a length
that it can divide. A kernel of the optimiser took 99 µs for Acrobot's 69 379 numbers and 20 for CartPole's 68 610.

On a CPU a large and tall matrix lies in memory as its transpose. Its gradient xᵀ g then is computed as gᵀ x, which
reads the narrow factor by columns and not the tall one: for 1024 features and 128 units in 157 instead of 388 µs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.device import columns_are_slow
from pqn.types import Array, PyTree

LARGE = 2**17  # numbers in an array
ALIGNED = 128  # the length of the vector is a multiple of this


class Layout(NamedTuple):
    """How a tree of arrays was packed. Static: it is part of a compiled program, never data."""

    structure: PyTree  # a treedef
    shapes: tuple[tuple[int, ...], ...]
    is_large: tuple[bool, ...]
    is_turned: tuple[bool, ...]
    """Whether a large array is kept as its transpose."""


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class Packed:
    """A tree of arrays, of which all small ones are one vector. To jax it is a tree of `arrays`."""

    arrays: tuple[Array, ...]
    """The vector first, if there is a small array; then each large one."""
    layout: Layout

    def tree_flatten(self) -> tuple[tuple[Array, ...], Layout]:
        return self.arrays, self.layout

    @classmethod
    def tree_unflatten(cls, layout: Layout, arrays: Iterable[Array]) -> Packed:
        return cls(tuple(arrays), layout)

    def unpack(self) -> PyTree:
        """What `pack` was given. Axes that were added in front since, such as one of seeds, are kept."""
        structure, shapes, is_large, is_turned = self.layout
        sizes = [math.prod(shape) for shape, large in zip(shapes, is_large, strict=True) if not large]
        rest, ends = iter(self.arrays), list(itertools.accumulate(sizes))
        small = iter(_split(next(rest), ends)) if sizes else iter(())  # the last part is filled with zeros

        def one(shape: tuple[int, ...], large: bool, turned: bool) -> Array:
            if not large:
                return _reshaped(next(small), shape)
            return next(rest).swapaxes(-1, -2) if turned else next(rest)

        return jax.tree.unflatten(structure, list(map(one, shapes, is_large, is_turned)))


def pack(tree: PyTree) -> Packed:
    """The arrays of a tree without an axis of seeds."""
    leaves, structure = jax.tree.flatten(tree)
    shapes, is_large = tuple(leaf.shape for leaf in leaves), tuple(leaf.size >= LARGE for leaf in leaves)
    is_turned = tuple(leaf.size >= LARGE and _is_tall(leaf.shape) and columns_are_slow() for leaf in leaves)
    small = [leaf.reshape(-1) for leaf in leaves if leaf.size < LARGE]
    rest = -sum(leaf.size for leaf in small) % ALIGNED
    vector = (jnp.concatenate([*small, jnp.zeros(rest, small[0].dtype)]),) if small else ()
    large = (leaf.T if turned else leaf for leaf, turned in zip(leaves, is_turned, strict=True) if leaf.size >= LARGE)
    return Packed((*vector, *large), Layout(structure, shapes, is_large, is_turned))


def _is_tall(shape: tuple[int, ...]) -> bool:
    """A matrix with many more rows than columns: with 256 of both, both ways take about the same time."""
    return len(shape) == 2 and shape[0] > 2 * shape[1]


def named(state: PyTree) -> PyTree:
    """A state in which every `Packed` is the tree that it was made of: how checkpoints hold it."""
    return jax.tree.map(lambda x: x.unpack() if _is_packed(x) else x, state, is_leaf=_is_packed)


def packed_again(state: PyTree, like: PyTree) -> PyTree:
    """The inverse of `named`, for a state of S seeds; `like` shows where something was packed."""
    places, structure = jax.tree.flatten(like, is_leaf=_is_packed)
    parts = structure.flatten_up_to(state)
    together = [jax.vmap(pack)(part) if _is_packed(place) else part for place, part in zip(places, parts, strict=True)]
    return structure.unflatten(together)


def _is_packed(x: object) -> bool:
    return isinstance(x, Packed)


def _split(vector: Array, ends: list[int]) -> list[Array]:
    return vector.__array_namespace__().split(vector, ends, axis=-1)


def _reshaped(part: Array, shape: tuple[int, ...]) -> Array:
    return part.reshape(*part.shape[:-1], *shape)
