"""Checkpoints of older versions, brought into the present layout. NumPy only.

Up to commit 0e7f976 the optimiser's state was stored as it lay in memory. Of its two trees, mu and nu, all arrays with
fewer than 2**17 numbers per seed were one vector, and each larger array followed by itself:

    learner/opt/mu/0    [S, total] the small arrays, flattened, in the order of the parameters
    learner/opt/mu/1    [S, ...]   the first large one, and so on

If all arrays are large, 0 is the first of them. Now each array has the name of its parameter:
learner/opt/mu/torso/Dense_0/kernel.

Two parts of a run with simulators had other names: see `RENAMED`.

Up to commit f2229ae Craftax's maps of blocks and of items were int32. They are uint8 now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from pqn.errors import CheckpointError
from pqn.runs.leaves import Contents, Leaf

PARAMS = "learner/params/"
MOMENTS = ("learner/opt/mu/", "learner/opt/nu/")
RENAMED = {"beside/": "greedy/", "stream/seen/": "stream/observed/"}  # the beginning of names: old -> new
CRAFTAX_MAPS, CRAFTAX_FLOORS = ("map", "item_map"), (9, 48, 48)
LARGE = 2**17  # numbers per seed; those versions' limit, whatever the present one is


def present(contents: Contents) -> Contents:
    """A checkpoint in the present layout; itself where it is in that layout already.

    Raises:
      CheckpointError: its names show an older layout, but its arrays do not fit that layout.
    """
    for prefix in MOMENTS:
        if f"{prefix}0" in contents.leaves:
            contents = _named(contents, prefix)
    for old, new in RENAMED.items():
        if any(name.startswith(old) for name in contents.leaves):
            contents = _renamed(contents, old, new)
    return _narrowed(contents)


def _renamed(contents: Contents, old: str, new: str) -> Contents:
    """With `new` instead of `old` at the beginning of names."""

    def name_of(name: str) -> str:
        return new + name.removeprefix(old) if name.startswith(old) else name

    leaves = {name_of(name): leaf._replace(name=name_of(name)) for name, leaf in contents.leaves.items()}
    arrays = {name_of(name): array for name, array in contents.arrays.items()}
    return contents._replace(leaves=leaves, arrays=arrays)


def _narrowed(contents: Contents) -> Contents:
    """With Craftax's maps as uint8."""
    wide = [
        name
        for name, leaf in contents.leaves.items()
        if name.rpartition("/")[2] in CRAFTAX_MAPS and leaf.shape[-3:] == CRAFTAX_FLOORS and leaf.dtype == "int32"
    ]
    leaves = {name: contents.leaves[name]._replace(dtype="uint8") for name in wide}
    arrays = {name: contents.arrays[name].astype(np.uint8) for name in wide}
    return contents._replace(leaves=contents.leaves | leaves, arrays=contents.arrays | arrays) if wide else contents


def _named(contents: Contents, prefix: str) -> Contents:
    """With the arrays under `prefix` by the names of the parameters instead of by number."""
    params = [leaf for name, leaf in contents.leaves.items() if name.startswith(PARAMS)]
    packed = [contents.arrays[name] for name in _numbered(contents, prefix)]
    if not params or any(array.ndim < 1 or array.dtype != np.float32 for array in packed):
        raise _not_resumable(contents, prefix)
    arrays: dict[str, np.ndarray] = {}
    try:
        for leaf, array in zip(params, _unpacked(params, packed), strict=True):
            arrays[prefix + leaf.name.removeprefix(PARAMS)] = array.reshape(leaf.shape)
    except ValueError as error:
        raise _not_resumable(contents, prefix) from error
    leaves = {name: Leaf(name, array.shape, array.dtype.name) for name, array in arrays.items()}
    return contents._replace(
        leaves=_replaced(contents.leaves, prefix, leaves), arrays=_replaced(contents.arrays, prefix, arrays)
    )


def _numbered(contents: Contents, prefix: str) -> list[str]:
    """The names under `prefix`: they must be 0, 1, 2, …"""
    names = [name for name in contents.leaves if name.startswith(prefix)]
    wanted = [f"{prefix}{number}" for number in range(len(names))]
    if sorted(names) != sorted(wanted):
        raise _not_resumable(contents, prefix)
    return wanted


def _unpacked(params: list[Leaf], packed: list[np.ndarray]) -> Iterable[np.ndarray]:
    """One array for each parameter, in their order.

    Raises:
      ValueError: numbers or arrays are left over, or missing.
    """
    sizes = [math.prod(leaf.shape[1:]) for leaf in params]
    small = [size for size in sizes if size < LARGE]
    rest = iter(packed)
    vector = next(rest) if small else np.zeros((0, 0))
    if vector.ndim != 2 or vector.shape[-1] != sum(small) or len(packed) != bool(small) + len(sizes) - len(small):
        raise ValueError("other sizes than the parameters have")
    pieces = iter(np.split(vector, np.cumsum(np.array(small, int))[:-1], axis=-1))
    return [next(pieces) if size < LARGE else next(rest) for size in sizes]


def _replaced(entries: dict, prefix: str, new: dict) -> dict:
    """`entries` with `new` in place of those whose names start with `prefix`, in the same place of the order."""
    result = {}
    for name, value in entries.items():
        if name.startswith(prefix):
            result |= new
        else:
            result[name] = value
    return result


def _not_resumable(contents: Contents, prefix: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {contents.path} cannot be resumed: an older version of pqn stored its optimiser's state, and "
        f"the arrays of {prefix.rstrip('/')} do not have the sizes of the parameters; `pqn eval` can still play it"
    )
