"""The arrays of a checkpoint: names, shapes, dtypes, and how each is stored. NumPy only."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from pqn.runs import files

# Dtypes that safetensors knows. Arrays of other dtypes are stored as bytes.
_NATIVE = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64"),
}
# All dtypes of numbers that an array can have. No other dtype is accepted from a manifest.
DTYPES = {
    *_NATIVE,
    "complex128",
    *(name for name, kind in vars(ml_dtypes).items() if isinstance(kind, type) and issubclass(kind, np.generic)),
}
# Typed PRNG keys: dtype -> generator, and 32-bit words of raw data in one key.
KEYS = {"key<fry>": ("threefry2x32", 2), "key<rbg>": ("rbg", 4), "key<urbg>": ("unsafe_rbg", 4)}


class Leaf(NamedTuple):
    """What the manifest says about one array."""

    name: str
    """The keys that lead to it in the state, joined by slashes: "learner/params/torso/Dense_0/kernel"."""
    shape: tuple[int, ...]
    dtype: str
    """As JAX prints it: "float32", "bool", "key<fry>"."""
    key_impl: str | None = None
    """Generator of a PRNG key, which is stored as its raw data; None for plain arrays."""

    def __str__(self) -> str:
        return f"{files.shown(self.name)} with shape {self.shape} and dtype {self.dtype}"

    @property
    def stored_bytes(self) -> int:
        """Size of its data in the file."""
        words = KEYS[self.dtype][1] if self.key_impl is not None else 0
        return math.prod(self.shape) * (4 * words or np.dtype(self.dtype).itemsize)


class Contents(NamedTuple):
    """A checkpoint that was read and verified."""

    path: Path
    leaves: dict[str, Leaf]
    """In the order of the state that was saved."""
    arrays: dict[str, np.ndarray]
    metadata: dict[str, object]


def encode(leaf: Leaf, value: object) -> np.ndarray:
    """The array that safetensors is given: C order, native bytes, a dtype it knows.

    Raises:
      TypeError: it is not an array of numbers.
    """
    array = np.asarray(value, order="C")
    if array.dtype.kind in "OSUMmT":
        raise TypeError(f"only arrays of numbers can be saved in a checkpoint, but {leaf.name} is {value!r:.60}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name not in _NATIVE:
        array = np.frombuffer(array.tobytes(), np.uint8)
    return array


def decode(leaf: Leaf, data: bytes) -> np.ndarray:
    """The array of some bytes of the data file; a PRNG key as its raw data, which has one more axis."""
    if leaf.key_impl is not None:
        return np.frombuffer(data, np.uint32).reshape(*leaf.shape, KEYS[leaf.dtype][1])
    return np.frombuffer(data, np.dtype(leaf.dtype)).reshape(leaf.shape)
