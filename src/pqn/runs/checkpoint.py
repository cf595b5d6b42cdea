"""Checkpoints: a complete training state on disk, written whole or not at all, and never believed unchecked.

    checkpoints/
      step-000000409600/
        state.safetensors    every array of the state under a readable name, "params/torso/Dense_0/kernel"
        manifest.json        format, counters, names, shapes and dtypes, SHA-256 of the data and of the manifest itself

A checkpoint is written in a temporary directory beside its final place, flushed to the disk and renamed, so a process
killed at any moment leaves the previous checkpoints untouched. Safetensors loads a flipped bit without complaint, hence
the hashes. Nothing here executes what it reads: no pickle, no eval; the structure comes from the caller's own state.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy
import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save as serialise

from pqn.errors import CheckpointError, DamagedCheckpoint, reason
from pqn.runs import files
from pqn.runs.files import fsync_directory
from pqn.runs.metrics import to_json

FORMAT_VERSION = 1
DATA = "state.safetensors"
MANIFEST = "manifest.json"

_NAME = re.compile(r"step-(\d{12})(\.replaced)?")
_TEMPORARY = ".tmp-"
# Dtypes that safetensors knows; the others travel as bytes.
_NATIVE = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64"),
}
# All dtypes of numbers that an array can have; nothing else in a manifest is ever made into one.
_DTYPES = {
    *_NATIVE,
    "complex128",
    *(name for name, kind in vars(ml_dtypes).items() if isinstance(kind, type) and issubclass(kind, np.generic)),
}
# Typed PRNG keys: dtype -> generator and words of raw data of one key.
_KEYS = {"key<fry>": ("threefry2x32", 2), "key<rbg>": ("rbg", 4), "key<urbg>": ("unsafe_rbg", 4)}
MOST_NAME = 1024  # characters of an array's name
MOST_ELEMENTS = 2**48  # of an array
MOST_HEADER = 100 * 2**20  # bytes of a safetensors header; safetensors itself reads no larger one

PathLike = str | os.PathLike[str]
Tree = TypeVar("Tree")


class Leaf(NamedTuple):
    """What the manifest says about one array."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """As JAX prints it: "float32", "bool", "key<fry>"."""
    key_impl: str | None = None
    """Generator of a PRNG key, which is stored as its raw data; None for plain arrays."""

    def __str__(self) -> str:
        return f"{files.shown(self.name)} with shape {self.shape} and dtype {self.dtype}"

    @property
    def stored_bytes(self) -> int:
        """Of its data in the file."""
        words = _KEYS[self.dtype][1] if self.key_impl is not None else 0
        return math.prod(self.shape) * (4 * words or np.dtype(self.dtype).itemsize)


class Contents(NamedTuple):
    """A checkpoint that has been read and verified."""

    path: Path
    leaves: dict[str, Leaf]
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]


class NoCheckpoint(CheckpointError):
    """A directory without an intact checkpoint."""


class NoIntactCheckpoint(NoCheckpoint):
    """A directory whose checkpoints are all damaged."""


# ---------------------------------------------------------------------------------------------------------- writing


def save(
    directory: PathLike, state: Any, step: int, metadata: Mapping[str, Any] | None = None, keep: int | None = None
) -> Path:
    """Write `state` as the checkpoint `step-<step>` of `directory` and return its path.

    A run is one line of history: after the new checkpoint is safe, those with a larger step (left by a future that was
    abandoned when an older checkpoint was resumed) are removed, and all but the newest `keep`. Leftovers of a killed
    process are removed first. The directory must have one writer at a time; the run's lock sees to that.

    Args:
        directory: where the checkpoints of the run lie; created if missing.
        state: a pytree of arrays, scalars and typed PRNG keys.
        step: orders the checkpoints.
        metadata: anything that has a JSON form; comes back from `restore`.
        keep: number of checkpoints to keep, None for all.

    Raises:
        CheckpointError: the disk is full or cannot be written. The earlier checkpoints are intact.
        TypeError: a leaf is not an array, or the metadata has no JSON form.
    """
    if not 0 <= step < 10**12:
        raise ValueError(f"a checkpoint's step lies in [0, 1e12), not {step}")
    if keep is not None and keep < 1:
        raise ValueError(f"at least one checkpoint must be kept, not {keep}")
    directory = Path(directory)
    final = directory / f"step-{step:012d}"
    temporary = directory / f"{_TEMPORARY}{final.name}-{os.getpid()}"
    leaves, arrays = _flatten(state)
    data = serialise(arrays, metadata={"format": "pqn"})
    manifest = _manifest(data, leaves, step, metadata or {})
    try:
        if not files.is_directory(directory):
            directory.mkdir(parents=True)
        _remove_leftovers(directory)
        temporary.mkdir()
        _write(temporary / DATA, data)
        _write(temporary / MANIFEST, manifest)
        fsync_directory(temporary)
        if os.path.lexists(
            final
        ):  # a directory cannot be renamed onto another; `_listing` finds the old one if we die here
            replaced = final.with_name(final.name + ".replaced")
            _remove(replaced)
            final.rename(replaced)
        temporary.rename(final)
        fsync_directory(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(f"cannot write the checkpoint {final} ({_size(len(data))}): {reason(error)}") from error
    _prune(directory, final, keep)
    return final


def _flatten(state: Any) -> tuple[list[Leaf], dict[str, np.ndarray]]:
    """Describe the leaves of a state and fetch their data to the host."""
    entries = jax.tree_util.tree_flatten_with_path(state)[0]
    leaves = [_describe(_name(path), leaf) for path, leaf in entries]
    raw = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for _, leaf in entries]
    # One call for all leaves: the copies from the device overlap.
    return leaves, {leaf.name: _storable(leaf, array) for leaf, array in zip(leaves, jax.device_get(raw), strict=True)}


def _storable(leaf: Leaf, value: Any) -> np.ndarray:
    """Return the array that safetensors is given: C order, native bytes, a dtype it knows."""
    array = np.asarray(value, order="C")
    if array.dtype.kind in "OSUMmT":
        raise TypeError(f"only arrays of numbers can be saved in a checkpoint, but {leaf.name} is {value!r:.60}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name not in _NATIVE:
        array = np.frombuffer(array.tobytes(), np.uint8)
    return array


def _manifest(data: bytes, leaves: list[Leaf], step: int, metadata: Mapping[str, Any]) -> bytes:
    content = {
        "format": "pqn-checkpoint",
        "format_version": FORMAT_VERSION,
        "step": int(step),
        "metadata": metadata,
        "data": {"file": DATA, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()},
        "leaves": [
            {"path": leaf.name, "shape": leaf.shape, "dtype": leaf.dtype}
            | ({"key_impl": leaf.key_impl} if leaf.key_impl else {})
            for leaf in leaves
        ],
    }
    content = json.loads(to_json(content))  # the seal must not depend on tuples or NumPy scalars
    return (to_json(content | {"manifest_sha256": _seal(content)}, indent=1) + "\n").encode()


def _seal(content: Mapping[str, Any]) -> str:
    """Hash the manifest itself: a flipped digit in a counter is as bad as one in the data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _prune(directory: Path, newest: Path, keep: int | None) -> None:
    """Remove what the new checkpoint makes useless. It is safe by now, so a failure here harms nobody."""
    older = [path for path in _listing(directory) if path.name < newest.name and path.suffix != ".replaced"]
    kept = {newest, *(older if keep is None else older[: keep - 1])}
    with contextlib.suppress(OSError):
        for path in _listing(directory):
            if path not in kept:
                # Renamed first: a process killed in between must not leave half a checkpoint under a real name.
                trash = directory / f"{_TEMPORARY}{path.name}-removed"
                path.rename(trash)
                _remove(trash)


def _remove_leftovers(directory: Path) -> None:
    for path in directory.glob(f"{_TEMPORARY}*"):
        _remove(path)


def _remove(path: Path) -> None:
    """Remove whatever stands there; a link itself, never what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------- reading


def restore(path: PathLike, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """Read one checkpoint into the structure of `like`; see `place`.

    Args:
        path: a `step-…` directory.
        like: a pytree of arrays or `jax.ShapeDtypeStruct`s with the structure, shapes and dtypes to expect. NumPy
            arrays and Python numbers come back as such, everything else as JAX arrays placed like their model.

    Returns:
        The state, bit for bit, and the metadata it was saved with, to which "step" is added if it was not there.

    Raises:
        DamagedCheckpoint: a file is missing, torn or altered.
        CheckpointError: the checkpoint cannot be read, or is from another network.
    """
    contents = read(path)
    return place(contents, like), contents.metadata


def restore_latest(
    directory: PathLike, like: Tree, warn: Callable[[str], None] = lambda message: None
) -> tuple[Tree, dict[str, Any]]:
    """Read the newest intact checkpoint of a directory; see `restore`.

    Args:
        warn: told, in a sentence, about each damaged checkpoint that was passed over.

    Raises:
        NoCheckpoint: there is no intact checkpoint.
        CheckpointError: the newest intact one is from another network.
    """
    return newest(directory, lambda path: restore(path, like), warn)


def latest(directory: PathLike, warn: Callable[[str], None] = lambda message: None) -> Path | None:
    """Return the newest intact checkpoint of a directory, None where there is none."""
    try:
        return newest(directory, lambda path: read(path).path, warn)
    except NoCheckpoint:
        return None


def read(path: PathLike) -> Contents:
    """Read a checkpoint, believing nothing before it is verified.

    The hashes find accidents. They do not stop somebody who computes them anew, so everything else is checked as well:
    names, shapes and dtypes first, the sizes that follow from them next, and only then is the data read.

    Raises:
        DamagedCheckpoint: a file is missing, torn or altered.
        CheckpointError: the checkpoint cannot be read.
    """
    path = Path(path)
    manifest = _read_manifest(path)
    leaves = _leaves(path, manifest)
    data = _read_data(path, manifest["data"], sum(leaf.stored_bytes for leaf in leaves.values()))
    try:
        stored = dict(safetensors.deserialize(data))
    except safetensors.SafetensorError as error:
        raise _damaged(path, f"{DATA} is not a safetensors file") from error
    if stored.keys() != leaves.keys():
        name = files.shown(min(stored.keys() ^ leaves.keys()))
        raise _damaged(path, f"{name} is in one of {DATA} and {MANIFEST} only")
    for name, leaf in leaves.items():
        if len(stored[name]["data"]) != leaf.stored_bytes:
            raise _damaged(path, f"{DATA} has {len(stored[name]['data'])} bytes for {leaf}")
    arrays = {name: _decode(leaf, stored[name]["data"]) for name, leaf in leaves.items()}
    return Contents(path, leaves, arrays, _metadata(manifest))


def place(contents: Contents, like: Tree, prefix: str = "") -> Tree:
    """Bring what was read into the structure of `like`.

    Args:
        contents: a checkpoint.
        like: see `restore`.
        prefix: where in the state the structure begins, "learner/" for its learner alone. Then only what `like` has,
            and what stands beside it within the same part ("learner/params"), is compared.

    Raises:
        CheckpointError: the checkpoint is from another network.
    """
    entries, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = {prefix + _name(key): leaf for key, leaf in entries}
    depth = prefix.count("/") + 1
    parts = {"/".join(name.split("/")[:depth]) for name in wanted}
    found = {
        name: leaf for name, leaf in contents.leaves.items() if not prefix or "/".join(name.split("/")[:depth]) in parts
    }
    _compare(found, {name: _describe(name, leaf) for name, leaf in wanted.items()})
    values = [_place(contents.leaves[name], contents.arrays[name], leaf) for name, leaf in wanted.items()]
    return jax.tree_util.tree_unflatten(structure, values)


def read_metadata(path: PathLike) -> dict[str, Any]:
    """Return the metadata of a checkpoint, as `restore` does, without reading its arrays.

    Raises:
        DamagedCheckpoint: the manifest is missing, torn or altered.
    """
    return _metadata(_read_manifest(Path(path)))


def read_tree(path: PathLike, prefix: str = "") -> dict[str, Any]:
    """Return the arrays under a prefix as nested dicts: `read_tree(path, "params")["torso"]["Dense_0"]["kernel"]`.

    Needs no model of the state, so it can load the parameters alone. Tuples and lists become dicts with the keys "0",
    "1", …; PRNG keys stay raw data.

    Raises:
        CheckpointError: the checkpoint is damaged or has nothing under the prefix.
    """
    contents = read(path)
    parents = prefix.strip("/").split("/") if prefix.strip("/") else []
    tree: dict[str, Any] = {}
    for name, array in contents.arrays.items():
        parts = name.split("/")
        if parts[: len(parents)] != parents or len(parts) == len(parents):
            continue
        node = tree
        for part in parts[len(parents) : -1]:
            node = node.setdefault(_unescape(part), {})
        node[_unescape(parts[-1])] = array
    if not tree:
        known = ", ".join(sorted({name.split("/")[0] for name in contents.arrays})) or "nothing"
        raise CheckpointError(f"the checkpoint {path} has nothing under {prefix!r}: it holds {known}")
    return tree


Result = TypeVar("Result")


def newest(directory: PathLike, read: Callable[[Path], Result], warn: Callable[[str], None]) -> Result:
    """Return `read` of the newest checkpoint for which it does not raise `DamagedCheckpoint`.

    Raises:
        NoCheckpoint: there is none; `NoIntactCheckpoint` where there were some.
    """
    candidates = _listing(Path(directory))
    for number, path in enumerate(candidates):
        try:
            return read(path)
        except DamagedCheckpoint as error:
            last = number + 1 == len(candidates)
            warn(f"{error}; " + ("there is no older one" if last else "using the previous one"))
    if not candidates:
        raise NoCheckpoint(f"there is no checkpoint in {directory}")
    raise NoIntactCheckpoint(f"there is no intact checkpoint in {directory}: all {len(candidates)} are damaged")


def _listing(directory: Path) -> list[Path]:
    """Return the checkpoints of a directory, newest first; one that was being replaced follows its replacement."""
    if not files.is_directory(directory):
        return []
    try:
        found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name)]
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoints in {directory}: {reason(error)}") from error
    return sorted(found, key=lambda path: (path.name[:17], len(path.name) == 17), reverse=True)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        content: Any = files.parse_json(_read_bytes(path, MANIFEST, files.MOST_JSON))
    except ValueError as error:
        raise _damaged(path, f"{MANIFEST} is torn or not a manifest: {error}") from error
    seal = content.pop("manifest_sha256", None) if isinstance(content, dict) else None
    if seal is None:
        raise _damaged(path, f"{MANIFEST} is torn or not a manifest")
    if seal != _seal(content):
        raise _damaged(path, f"{MANIFEST} does not match its own SHA-256")
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise CheckpointError(
            f"the checkpoint {path} has format version {version!r:.20}, "
            f"and this version of pqn reads version {FORMAT_VERSION}"
        )
    _check_manifest(path, content)
    return content


def _check_manifest(path: Path, content: Mapping[str, Any]) -> None:
    """Raise DamagedCheckpoint where something is missing or of the wrong kind; `_leaves` looks at the leaves."""
    step, data = content.get("step"), content.get("data")
    if not is_count(step):
        raise _damaged(path, f"{MANIFEST} has no step")
    named = _NAME.fullmatch(path.name)
    if named and int(named[1]) != step:
        raise _damaged(path, f"its {MANIFEST} is of step {step}")
    if not isinstance(content.get("metadata"), dict):
        raise _damaged(path, f"{MANIFEST} has no metadata")
    if (
        not isinstance(data, dict)
        or data.get("file") != DATA
        or not is_count(data.get("bytes"))
        or "sha256" not in data
    ):
        raise _damaged(path, f"{MANIFEST} does not describe {DATA}")


def _leaves(path: Path, manifest: Mapping[str, Any]) -> dict[str, Leaf]:
    """The leaves by their names, each of a shape and a dtype that can be."""
    entries = manifest.get("leaves")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _damaged(path, f"{MANIFEST} does not list the arrays")
    leaves: dict[str, Leaf] = {}
    for entry in entries:
        name, shape, dtype = entry.get("path"), entry.get("shape"), entry.get("dtype")
        if not isinstance(name, str) or len(name) > MOST_NAME or name.count("/") > files.MOST_DEPTH:
            raise _damaged(path, f"{MANIFEST} has an array without a name that can be")
        if name in leaves:
            raise _damaged(path, f"{files.shown(name)} occurs twice in {MANIFEST}")
        if not isinstance(shape, list) or not all(map(is_count, shape)) or math.prod(shape) >= MOST_ELEMENTS:
            raise _damaged(path, f"{files.shown(name)} has a shape that cannot be in {MANIFEST}")
        leaf = Leaf(name, tuple(shape), dtype if isinstance(dtype, str) else "", entry.get("key_impl"))
        is_key = leaf.dtype in _KEYS and _KEYS[leaf.dtype][0] == leaf.key_impl
        if not is_key and (leaf.dtype not in _DTYPES or leaf.key_impl is not None):
            raise _damaged(path, f"{files.shown(name)} has a dtype that cannot be in {MANIFEST}")
        leaves[name] = leaf
    for name in leaves:
        parts = name.split("/")
        if any("/".join(parts[:count]) in leaves for count in range(1, len(parts))):
            raise _damaged(path, f"{files.shown(name)} lies within another array in {MANIFEST}")
    return leaves


def _read_data(path: Path, expected: Mapping[str, Any], least: int) -> bytes:
    """The data, of the size and with the hash that the manifest promises; `least`: bytes of the arrays alone."""
    size = expected["bytes"]
    if not least <= size <= least + 8 + MOST_HEADER:
        raise _damaged(path, f"{DATA} is said to have {size} bytes, and its arrays {least}")
    if size > _memory():
        raise CheckpointError(f"the checkpoint {path} has {_size(size)}, which do not fit into memory")
    data = _read_bytes(path, DATA, size)
    if len(data) != size:
        raise _damaged(path, f"{DATA} has {len(data)} bytes instead of {size}")
    if hashlib.sha256(data).hexdigest() != expected.get("sha256"):
        raise _damaged(path, f"the SHA-256 of {DATA} is not the one in {MANIFEST}")
    return data


def _metadata(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {"step": manifest["step"], **manifest["metadata"]}


def _read_bytes(path: Path, name: str, most: int) -> bytes:
    """One file of a checkpoint. What stands in its place, or in the checkpoint's, is damage: an older one may do."""
    try:
        if not files.is_directory(path):
            raise CheckpointError(f"there is no checkpoint {path}")
        return files.read_bytes(path / name, most)
    except files.NotOurs as error:
        raise _damaged(path, str(error)) from error
    except FileNotFoundError as error:
        raise _damaged(path, f"{name} is missing") from error
    except OSError as error:
        if error.errno == errno.EIO:
            raise _damaged(path, f"the disk cannot read {name}") from error
        raise CheckpointError(f"cannot read {path / name}: {reason(error)}") from error


def is_count(value: Any) -> bool:
    """Whether a value from JSON is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _memory() -> int:
    """Bytes of memory of this machine; a lot where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**46


def _damaged(path: Path, what: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(f"the checkpoint {path} is damaged: {what}")


def _decode(leaf: Leaf, data: bytes) -> np.ndarray:
    """Rebuild an array from the bytes of the data file."""
    if leaf.key_impl is not None:  # raw key data has a trailing axis of its own
        return np.frombuffer(data, np.uint32).reshape(*leaf.shape, -1 if leaf.stored_bytes else _KEYS[leaf.dtype][1])
    return np.frombuffer(data, np.dtype(leaf.dtype)).reshape(leaf.shape)


def _compare(found: Mapping[str, Leaf], wanted: Mapping[str, Leaf]) -> None:
    """Raise a sentence about the first leaf in which a checkpoint differs from what the run needs."""
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


def _place(leaf: Leaf, array: np.ndarray, like: Any) -> Any:
    """Make of a stored array what its model is: a number, a NumPy array or an array on a device."""
    if isinstance(like, bool | int | float | complex):
        return type(like)(array.item())
    if isinstance(like, np.ndarray | np.generic):
        return array[()] if isinstance(like, np.generic) else array
    # An array without a fixed place stays without one: pinning it to a device would forbid later moves.
    sharding = like.sharding if getattr(like, "committed", True) else None
    # A copy: device_put on a CPU adopts NumPy's memory, which a compiled function cannot take over when it is donated.
    placed = jax.numpy.array(array, copy=True)
    if leaf.key_impl is not None:
        placed = jax.random.wrap_key_data(placed, impl=leaf.key_impl)
    return placed if sharding is None else jax.device_put(placed, sharding)


# ------------------------------------------------------------------------------------------------------------ names


def _describe(name: str, leaf: Any) -> Leaf:
    """Return name, shape and dtype of an array, a `ShapeDtypeStruct` or a number."""
    if _is_key(leaf):
        impl = None if isinstance(leaf, jax.ShapeDtypeStruct) else str(jax.random.key_impl(leaf))
        return Leaf(name, tuple(leaf.shape), str(leaf.dtype), impl)
    if not hasattr(leaf, "dtype"):
        leaf = np.asarray(leaf)
    return Leaf(name, tuple(leaf.shape), np.dtype(leaf.dtype).name)


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_weight(name: str) -> bool:
    return "params" in name.split("/")


def _name(path: tuple[Any, ...]) -> str:
    """Return a readable and unique name for a leaf: the keys that lead to it, joined by slashes."""
    if not path:
        return "%"  # the state is a single array; no escaped key looks like this
    return "/".join(_escape(jax.tree_util.keystr((key,), simple=True)) for key in path)


def _escape(key: str) -> str:
    key = key.replace("%", "%25").replace("/", "%2F")
    return "%5F_metadata__" if key == "__metadata__" else key  # safetensors has that name for itself


def _unescape(key: str) -> str:
    return key.replace("%5F", "_").replace("%2F", "/").replace("%25", "%")


def _size(count: int) -> str:
    value, units = float(count), ["bytes", "kB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"
