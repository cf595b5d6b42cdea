"""A training state as named arrays, and back: the names, shapes and dtypes of a pytree's leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pqn.errors import CheckpointError
from pqn.runs import files
from pqn.runs.leaves import Contents, Leaf, encode
from pqn.types import PyTree

Tree = TypeVar("Tree")


def flatten(state: PyTree) -> tuple[list[Leaf], dict[str, np.ndarray]]:
    """Describes the leaves of a state, and fetches their data to the host.

    Raises:
      TypeError: a leaf is not an array of numbers.
    """
    entries = jax.tree_util.tree_flatten_with_path(state)[0]
    leaves = [describe(name_of(path), leaf) for path, leaf in entries]
    raw = [jax.random.key_data(leaf) if is_key(leaf) else leaf for _, leaf in entries]
    # One call for all leaves: the copies from the device overlap.
    return leaves, {leaf.name: encode(leaf, array) for leaf, array in zip(leaves, jax.device_get(raw), strict=True)}


def unflatten(contents: Contents, like: Tree, prefix: str = "") -> Tree:
    """Brings the arrays of a checkpoint into the structure of `like`.

    Args:
      contents: a checkpoint.
      like: a pytree of arrays or `jax.ShapeDtypeStruct`s with the structure, shapes and dtypes to expect. NumPy arrays
        and Python numbers come back as such, everything else as JAX arrays placed like their model.
      prefix: where in the state the structure begins, "learner/" for its learner alone. Then only what `like` has, and
        what is in the same branch of the state ("learner/params"), is compared.

    Raises:
      CheckpointError: the checkpoint is from another network.
    """
    entries, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = {prefix + name_of(key): leaf for key, leaf in entries}
    depth = prefix.count("/") + 1
    branches = {_branch(name, depth) for name in wanted}
    found = {name: leaf for name, leaf in contents.leaves.items() if not prefix or _branch(name, depth) in branches}
    _compare(found, {name: describe(name, leaf) for name, leaf in wanted.items()})
    values = [place(contents.leaves[name], contents.arrays[name], leaf) for name, leaf in wanted.items()]
    return jax.tree_util.tree_unflatten(structure, values)


def place(leaf: Leaf, array: np.ndarray, like: object) -> object:
    """Makes of a stored array what its model is: a number, a NumPy array or an array on a device."""
    if isinstance(like, bool | int | float | complex):
        return type(like)(array.item())
    if isinstance(like, np.ndarray | np.generic):
        return array[()] if isinstance(like, np.generic) else array
    # An array without a fixed place stays without one: pinning it to a device would forbid later moves.
    sharding = getattr(like, "sharding", None) if getattr(like, "committed", True) else None
    # A copy: device_put on a CPU adopts NumPy's memory, which a compiled function cannot take over when it is donated.
    # At once where it belongs: what is kept on the host may be too large for the device.
    placed = jnp.array(array, copy=True, device=sharding)
    return placed if leaf.key_impl is None else jax.random.wrap_key_data(placed, impl=leaf.key_impl)


def describe(name: str, leaf: object) -> Leaf:
    """Name, shape and dtype of an array, a `ShapeDtypeStruct` or a number."""
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and is_key(leaf):
        impl = None if isinstance(leaf, jax.ShapeDtypeStruct) else str(jax.random.key_impl(leaf))
        return Leaf(name, tuple(leaf.shape), str(leaf.dtype), impl)
    array = leaf if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray) else np.asarray(leaf)
    return Leaf(name, tuple(array.shape), np.dtype(array.dtype).name)


def is_key(leaf: object) -> bool:
    """Whether it is an array of typed PRNG keys, or the shape of one."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def name_of(path: tuple[object, ...]) -> str:
    """A readable and unique name for a leaf: the keys that lead to it, joined by slashes."""
    if not path:
        return "%"  # the state is a single array; no escaped key looks like this
    return "/".join(_escape(jax.tree_util.keystr((key,), simple=True)) for key in path)


def _escape(key: str) -> str:
    key = key.replace("%", "%25").replace("/", "%2F")
    return "%5F_metadata__" if key == "__metadata__" else key  # safetensors uses that name itself


def _branch(name: str, depth: int) -> str:
    return "/".join(name.split("/")[:depth])


def _compare(found: Mapping[str, Leaf], wanted: Mapping[str, Leaf]) -> None:
    """Raises a sentence about the first leaf in which a checkpoint differs from what the run needs."""
    # A narrower layer also changes the optimiser's state, but the weight is what tells the user which option differs.
    names = sorted([*wanted, *(name for name in found if name not in wanted)], key=lambda name: not _is_weight(name))
    for name in names:
        have, need = found.get(name), wanted.get(name)
        if have is not None and need is not None and have[:3] == need[:3]:
            continue
        if have is None:
            difference = f"it has no {need}"
        elif need is None:
            difference = f"it holds {have}, which this run does not have"
        elif have.shape != need.shape:
            difference = f"{files.shown(name)} has shape {have.shape}, this run needs {need.shape}"
        else:
            difference = f"{files.shown(name)} has dtype {have.dtype}, this run needs {need.dtype}"
        origin = "network" if _is_weight(name) else "configuration or version of pqn"
        raise CheckpointError(f"this checkpoint is from another {origin}: {difference}")


def _is_weight(name: str) -> bool:
    return "params" in name.split("/")
