"""Checkpoints: a complete training state on disk, written whole or not at all, and checked before it is used.

    checkpoints/
      step-000000409600/
        state.safetensors    every array of the state under a readable name, "learner/params/torso/Dense_0/kernel"
        manifest.json        format, counters, names, shapes and dtypes, SHA-256 of the data and of the manifest itself

A checkpoint is written in a temporary directory next to its final place, flushed to the disk and renamed, so a process
killed at any moment leaves the previous checkpoints untouched. Safetensors loads a flipped bit without complaint, hence
the hashes. Nothing here executes what it reads: no pickle, no eval; the structure comes from the caller's own state.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import safetensors
from safetensors.numpy import save as serialise

from pqn.errors import CheckpointError, DamagedCheckpoint, reason
from pqn.hosts import processes
from pqn.programs.base import Blocks
from pqn.runs import files, manifest, migrations, parts, state_tree
from pqn.runs.checkpoint_names import REPLACED, TEMPORARY, name_of, step_of
from pqn.runs.files import PathLike, fsync_directory
from pqn.runs.leaves import Contents, Leaf, decode
from pqn.runs.manifest import DATA, MANIFEST, Manifest, damaged
from pqn.types import PyTree

MOST_HEADER = 100 * 2**20  # bytes of a safetensors header; safetensors itself reads no larger one

Tree = TypeVar("Tree")
Result = TypeVar("Result")


class NoCheckpoint(CheckpointError):
    """A directory without an intact checkpoint."""


class NoIntactCheckpoint(NoCheckpoint):
    """A directory whose checkpoints are all damaged."""


# ---------------------------------------------------------------------------------------------------------- writing


class Held(NamedTuple):
    """A state as a checkpoint will hold it: a copy, which does not change any more."""

    leaves: list[Leaf]
    data: bytes


def held(state: PyTree) -> Held:
    """Copies a state, so that `save` can be called with it later, by another thread, while training goes on.

    Raises:
      TypeError: a leaf is not an array.
    """
    leaves, arrays = state_tree.flatten(state)  # on a CPU they are views of what the device has
    return Held(leaves, serialise(arrays, metadata={"format": "pqn"}))


def save(
    directory: PathLike,
    state: PyTree | Held,
    step: int,
    metadata: Mapping[str, object] | None = None,
    keep: int | None = None,
    also: Collection[int] = (),
) -> Path:
    """Writes `state` as the checkpoint `step-<step>` of `directory` and returns its path.

    A run is one line of history: after the new checkpoint is safe, those with a larger step (left by a future that was
    abandoned when an older checkpoint was resumed) are removed, and all but the newest `keep` and those of `also`.
    Leftovers of a killed process are removed first. The directory must have one writer at a time; the run's lock sees
    to that.

    Args:
      directory: where the checkpoints of the run are; created if missing.
      state: a pytree of arrays, scalars and typed PRNG keys, or what `held` made of one.
      step: orders the checkpoints.
      metadata: anything that has a JSON form; `read` returns it.
      keep: number of checkpoints to keep, None for all.
      also: steps of older checkpoints to keep beyond these.

    Raises:
      CheckpointError: the disk is full or cannot be written. The earlier checkpoints are intact.
      TypeError: a leaf is not an array, or the metadata has no JSON form.
    """
    if not 0 <= step < 10**12:
        raise ValueError(f"a checkpoint's step lies in [0, 1e12), not {step}")
    if keep is not None and keep < 1:
        raise ValueError(f"at least one checkpoint must be kept, not {keep}")
    directory = Path(directory)
    final = directory / name_of(step)
    kept = {name_of(number) for number in also}
    if isinstance(state, Blocks):
        return _save_together(final, state, step, metadata or {}, keep, kept)
    leaves, data = state if isinstance(state, Held) else held(state)
    _write_whole(final, {DATA: data, MANIFEST: manifest.write(data, leaves, step, metadata or {})})
    _prune(directory, final, keep, kept)
    return final


def _write_whole(final: Path, content: Mapping[str, bytes]) -> None:
    """Writes the files of a checkpoint such that the directory `final` has all of them or does not exist."""
    temporary = final.parent / f"{TEMPORARY}{final.name}-{os.getpid()}"
    try:
        _make_temporary(temporary)
        for name, data in content.items():
            _write(temporary / name, data)
        _put_in_place(temporary, final)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        size = _size(len(content[DATA]))
        raise CheckpointError(f"cannot write the checkpoint {final} ({size}): {reason(error)}") from error


def _make_temporary(temporary: Path) -> None:
    directory = temporary.parent
    if not files.is_directory(directory):
        directory.mkdir(parents=True)
    _remove_leftovers(directory)
    temporary.mkdir()


def _put_in_place(temporary: Path, final: Path) -> None:
    fsync_directory(temporary)
    # A directory cannot be renamed onto another; `listing` finds the old one if the process dies here.
    if os.path.lexists(final):
        replaced = final.with_name(final.name + REPLACED)
        _remove(replaced)
        final.rename(replaced)
    temporary.rename(final)
    fsync_directory(final.parent)


def _save_together(
    final: Path, state: Blocks, step: int, metadata: Mapping[str, object], keep: int | None, also: Collection[str]
) -> Path:
    """Every process writes what its devices hold; process 0 seals it when all have done so."""
    temporary, is_first = final.parent / f"{TEMPORARY}{final.name}-parts", processes.index() == 0
    leaves = state_tree.described(state.whole)
    whole = {leaf.name: leaf for leaf in leaves}

    def write() -> list[manifest.PartFile]:
        encoded = [parts.encode_part(block, whole) for block in state.blocks]
        for part, data in encoded:
            _write(temporary / part.file, data)
        return [part for part, _ in encoded]

    def seal() -> None:
        found = [manifest.as_part(part) for made in written for part in made]
        _write(temporary / MANIFEST, manifest.write_parts(found, leaves, step, metadata))
        _put_in_place(temporary, final)
        _prune(final.parent, final, keep, also)

    parts.together(final, lambda: _make_temporary(temporary) if is_first else None)
    written: list[list[PyTree]] = parts.together(final, write)  # after a trip through JSON
    parts.together(final, lambda: seal() if is_first else None)
    return final


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _prune(directory: Path, newest: Path, keep: int | None, also: Collection[str]) -> None:
    """Removes what the new checkpoint makes useless. The new one is safe by now, so a failure here loses nothing."""
    older = [path for path in listing(directory) if path.name < newest.name and path.suffix != REPLACED]
    kept = {newest, *(older if keep is None else older[: keep - 1]), *(path for path in older if path.name in also)}
    with contextlib.suppress(OSError):
        for path in listing(directory):
            if path not in kept:
                # Renamed first: a process killed in between must not leave half a checkpoint under a real name.
                trash = directory / f"{TEMPORARY}{path.name}-removed"
                path.rename(trash)
                _remove(trash)


def _remove_leftovers(directory: Path) -> None:
    for path in directory.glob(f"{TEMPORARY}*"):
        _remove(path)


def _remove(path: Path) -> None:
    """Removes what is at `path`; a link itself, never what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------- reading


def read(path: PathLike) -> Contents:
    """Reads a checkpoint and verifies it.

    Names, shapes and dtypes are checked first, then the sizes that follow from them, and only then is the data read.

    Raises:
      DamagedCheckpoint: a file is missing, torn or altered.
      CheckpointError: the checkpoint cannot be read.
    """
    path = Path(path)
    said = manifest.parse(path, _read_bytes(path, MANIFEST, files.MOST_JSON))
    if said.parts:
        arrays = parts.join(path, said, lambda name, size: _read_bytes(path, name, size))
        return Contents(path, said.leaves, arrays, said.metadata)
    data = _read_data(path, said)
    try:
        stored = dict(safetensors.deserialize(data))
    except safetensors.SafetensorError as error:
        raise damaged(path, f"{DATA} is not a safetensors file") from error
    if stored.keys() != said.leaves.keys():
        name = files.shown(min(stored.keys() ^ said.leaves.keys()))
        raise damaged(path, f"{name} is in one of {DATA} and {MANIFEST} only")
    for name, leaf in said.leaves.items():
        if len(stored[name]["data"]) != leaf.stored_bytes:
            raise damaged(path, f"{DATA} has {len(stored[name]['data'])} bytes for {leaf}")
    arrays = {name: decode(leaf, stored[name]["data"]) for name, leaf in said.leaves.items()}
    return Contents(path, said.leaves, arrays, said.metadata)


def describe(path: PathLike) -> dict[str, object]:
    """The metadata of a checkpoint, whose arrays are not read and may be damaged.

    Raises:
      DamagedCheckpoint: the manifest is missing, torn or altered.
      CheckpointError: it cannot be read.
    """
    path = Path(path)
    return manifest.parse(path, _read_bytes(path, MANIFEST, files.MOST_JSON)).metadata


def place(contents: Contents, like: Tree, prefix: str = "") -> Tree:
    """Brings a checkpoint into the structure of `like`; see `state_tree.unflatten`.

    A whole state (without `prefix`) may be one that an older version of pqn saved.

    Raises:
      CheckpointError: the checkpoint is from another network, or cannot be resumed.
    """
    return state_tree.unflatten(contents if prefix else migrations.present(contents), like, prefix)


def newest(
    directory: PathLike,
    read: Callable[[Path], Result],
    warn: Callable[[str], None],
    order: Callable[[Path], list[Path]] | None = None,
) -> Result:
    """Returns `read` of the newest checkpoint for which it does not raise `DamagedCheckpoint`.

    Args:
      directory: where the checkpoints of a run are.
      read: called with the path of a checkpoint.
      warn: told, in a sentence, about each damaged checkpoint that was passed over.
      order: which checkpoints of the directory to try, in their order; by default all, the newest first.

    Raises:
      NoCheckpoint: there is none; `NoIntactCheckpoint` where there were some.
    """
    candidates = (order or listing)(Path(directory))
    for number, path in enumerate(candidates):
        try:
            return read(path)
        except DamagedCheckpoint as error:
            last = number + 1 == len(candidates)
            warn(f"{error}; " + ("there is no older one" if last else "using the previous one"))
    if not candidates:
        raise NoCheckpoint(f"there is no checkpoint in {directory}")
    raise NoIntactCheckpoint(f"there is no intact checkpoint in {directory}: all {len(candidates)} are damaged")


def latest(directory: PathLike) -> Path | None:
    """The newest intact checkpoint of a directory, None where there is none."""
    try:
        return newest(directory, lambda path: read(path).path, lambda sentence: None)
    except NoCheckpoint:
        return None


def listing(directory: Path) -> list[Path]:
    """The checkpoints of a directory, newest first; one that was being replaced follows its replacement."""
    if not files.is_directory(directory):
        return []
    try:
        found = [path for path in directory.iterdir() if step_of(path.name) is not None]
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoints in {directory}: {reason(error)}") from error
    return sorted(found, key=lambda path: (step_of(path.name), path.suffix != REPLACED), reverse=True)


def _read_data(path: Path, said: Manifest) -> bytes:
    """The data file, of the size and with the hash that the manifest says."""
    size, least = said.data_bytes, sum(leaf.stored_bytes for leaf in said.leaves.values())
    if not least <= size <= least + 8 + MOST_HEADER:
        raise damaged(path, f"{DATA} is said to have {size} bytes, and its arrays {least}")
    if size > _memory():
        raise CheckpointError(f"the checkpoint {path} has {_size(size)}, which do not fit into memory")
    data = _read_bytes(path, DATA, size)
    if len(data) != size:
        raise damaged(path, f"{DATA} has {len(data)} bytes instead of {size}")
    if hashlib.sha256(data).hexdigest() != said.data_sha256:
        raise damaged(path, f"the SHA-256 of {DATA} is not the one in {MANIFEST}")
    return data


def _read_bytes(path: Path, name: str, most: int) -> bytes:
    """One file of a checkpoint. Anything else in its place, or in the checkpoint's, is damage: an older one may do."""
    try:
        if not files.is_directory(path):
            raise CheckpointError(f"there is no checkpoint {path}")
        return files.read_bytes(path / name, most)
    except files.NotOurs as error:
        raise damaged(path, str(error)) from error
    except FileNotFoundError as error:
        raise damaged(path, f"{name} is missing") from error
    except OSError as error:
        if error.errno == errno.EIO:
            raise damaged(path, f"the disk cannot read {name}") from error
        raise CheckpointError(f"cannot read {path / name}: {reason(error)}") from error


def _memory() -> int:
    """Bytes of memory of this machine; a large number where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**46


def _size(count: int) -> str:
    value, units = float(count), ["bytes", "kB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"
