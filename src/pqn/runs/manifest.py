"""manifest.json: what a checkpoint says about itself.

It lists the arrays and the metadata, has the SHA-256 of the data, and is sealed by a SHA-256 of its own: a flipped
digit in a counter is as bad as one in the data. The hashes find accidents. They do not stop somebody who computes new
ones, so everything else is checked as well.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pqn.errors import CheckpointError, DamagedCheckpoint
from pqn.runs import files
from pqn.runs.checkpoint_names import step_of
from pqn.runs.json_text import MOST_DEPTH, parse_json, to_json
from pqn.runs.leaves import DTYPES, KEYS, Leaf

FORMAT_VERSION = 1
PARTS_VERSION = 2  # of a checkpoint in parts, which earlier versions cannot read
DATA = "state.safetensors"
MANIFEST = "manifest.json"
PART_NAME = re.compile(r"part-\d{6}-\d{6}\.safetensors")

MOST_NAME = 1024  # characters of an array's name
MOST_ELEMENTS = 2**48  # of an array


class PartBlock(NamedTuple):
    """One array of a part: a box cut out of a whole array."""

    name: str
    start: tuple[int, ...]  # of its first axes; 0 for the others
    shape: tuple[int, ...]


class PartFile(NamedTuple):
    """A file with what one device held."""

    file: str
    bytes: int
    sha256: str
    blocks: tuple[PartBlock, ...]


class Manifest(NamedTuple):
    """A manifest that was checked."""

    metadata: dict[str, object]
    """What was saved with the state; "step" is added if it was not there."""
    leaves: dict[str, Leaf]
    data_bytes: int
    data_sha256: object
    parts: tuple[PartFile, ...] = ()
    """The files that hold the arrays, where several processes wrote them; then there is no data file."""


def write(data: bytes, leaves: Iterable[Leaf], step: int, metadata: Mapping[str, object]) -> bytes:
    """The manifest of a checkpoint whose data file is `data`.

    Raises:
      TypeError: the metadata has no JSON form.
    """
    file = {"file": DATA, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return _sealed({"format_version": FORMAT_VERSION, "data": file}, leaves, step, metadata)


def write_parts(parts: Iterable[PartFile], leaves: Iterable[Leaf], step: int, metadata: Mapping[str, object]) -> bytes:
    """The manifest of a checkpoint in parts."""
    entries = [part._asdict() | {"blocks": [block._asdict() for block in part.blocks]} for part in parts]
    return _sealed({"format_version": PARTS_VERSION, "parts": entries}, leaves, step, metadata)


def as_part(entry: tuple[str, int, str, list[tuple[str, list[int], list[int]]]]) -> PartFile:
    """A part that has travelled as JSON from another process of this run."""
    file, size, digest, blocks = entry
    return PartFile(
        file, size, digest, tuple(PartBlock(name, tuple(start), tuple(shape)) for name, start, shape in blocks)
    )


def _sealed(files: Mapping[str, object], leaves: Iterable[Leaf], step: int, metadata: Mapping[str, object]) -> bytes:
    content = {
        "format": "pqn-checkpoint",
        **files,
        "step": int(step),
        "metadata": metadata,
        "leaves": [
            {"path": leaf.name, "shape": leaf.shape, "dtype": leaf.dtype}
            | ({"key_impl": leaf.key_impl} if leaf.key_impl else {})
            for leaf in leaves
        ],
    }
    content = json.loads(to_json(content))  # the seal must not depend on tuples or NumPy scalars
    return (to_json(content | {"manifest_sha256": seal(content)}, indent=1) + "\n").encode()


def seal(content: Mapping[str, object]) -> str:
    """The SHA-256 of a manifest's content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parse(path: Path, text: bytes) -> Manifest:
    """The manifest of the checkpoint at `path`.

    Raises:
      DamagedCheckpoint: it is torn or altered, or says what cannot be.
      CheckpointError: another version of pqn wrote it in a format that this one does not read.
    """
    content = _unseal(path, text)
    step, metadata = content.get("step"), content.get("metadata")
    if not _is_count(step):
        raise damaged(path, f"{MANIFEST} has no step")
    if step_of(path.name) not in (None, step):
        raise damaged(path, f"its {MANIFEST} is of step {step}")
    if not isinstance(metadata, dict):
        raise damaged(path, f"{MANIFEST} has no metadata")
    leaves, metadata = _leaves(path, content.get("leaves")), {"step": step, **metadata}
    if content["format_version"] == PARTS_VERSION:
        return Manifest(metadata, leaves, 0, None, _parts(path, content.get("parts")))
    data = content.get("data")
    if not isinstance(data, dict) or data.get("file") != DATA or "sha256" not in data:
        raise damaged(path, f"{MANIFEST} does not describe {DATA}")
    size = data.get("bytes")
    if not isinstance(size, int) or not _is_count(size):
        raise damaged(path, f"{MANIFEST} does not describe {DATA}")
    return Manifest(metadata, leaves, size, data["sha256"])


def _parts(path: Path, entries: object) -> tuple[PartFile, ...]:
    """The parts, each with a name and a size that are possible."""
    wrong = damaged(path, f"{MANIFEST} does not describe its parts")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise wrong
    parts = []
    for entry in entries:
        file, size, digest, blocks = (entry.get(key) for key in ("file", "bytes", "sha256", "blocks"))
        if not isinstance(file, str) or not PART_NAME.fullmatch(file) or not isinstance(digest, str):
            raise wrong
        if not isinstance(size, int) or not _is_count(size) or not isinstance(blocks, list):
            raise wrong
        parts.append(PartFile(file, size, digest, tuple(_block(block, wrong) for block in blocks)))
    return tuple(parts)


def _block(entry: object, wrong: DamagedCheckpoint) -> PartBlock:
    if not isinstance(entry, dict):
        raise wrong
    name, start, shape = entry.get("name"), entry.get("start"), entry.get("shape")
    numbers = [*start, *shape] if isinstance(start, list) and isinstance(shape, list) else [""]
    if not isinstance(name, str) or not all(map(_is_count, numbers)):
        raise wrong
    return PartBlock(name, tuple(entry["start"]), tuple(entry["shape"]))


def damaged(path: Path, what: str) -> DamagedCheckpoint:
    """The error about a checkpoint that is damaged."""
    return DamagedCheckpoint(f"the checkpoint {path} is damaged: {what}")


def _unseal(path: Path, text: bytes) -> dict[str, object]:
    """The content, if its seal and its version are right."""
    try:
        content = parse_json(text)
    except ValueError as error:
        raise damaged(path, f"{MANIFEST} is torn or not a manifest: {error}") from error
    if not isinstance(content, dict) or content.get("manifest_sha256") is None:
        raise damaged(path, f"{MANIFEST} is torn or not a manifest")
    expected = content.pop("manifest_sha256")
    if expected != seal(content):
        raise damaged(path, f"{MANIFEST} does not match its own SHA-256")
    version = content.get("format_version")
    if type(version) is not int or version not in (FORMAT_VERSION, PARTS_VERSION):
        raise CheckpointError(
            f"the checkpoint {path} has format version {version!r:.20}, "
            f"and this version of pqn reads version {FORMAT_VERSION} or {PARTS_VERSION}"
        )
    return content


def _leaves(path: Path, entries: object) -> dict[str, Leaf]:
    """The leaves by their names, each with a shape and a dtype that are possible."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise damaged(path, f"{MANIFEST} does not list the arrays")
    leaves: dict[str, Leaf] = {}
    for entry in entries:
        leaf = _leaf(path, entry)
        if leaf.name in leaves:
            raise damaged(path, f"{files.shown(leaf.name)} occurs twice in {MANIFEST}")
        leaves[leaf.name] = leaf
    for name in leaves:
        parts = name.split("/")
        if any("/".join(parts[:count]) in leaves for count in range(1, len(parts))):
            raise damaged(path, f"{files.shown(name)} lies within another array in {MANIFEST}")
    return leaves


def _leaf(path: Path, entry: Mapping[str, object]) -> Leaf:
    name, shape, dtype, key_impl = (entry.get(key) for key in ("path", "shape", "dtype", "key_impl"))
    if not isinstance(name, str) or len(name) > MOST_NAME or name.count("/") > MOST_DEPTH:
        raise damaged(path, f"{MANIFEST} has an array without a possible name")
    if not isinstance(shape, list) or not all(map(_is_count, shape)) or math.prod(shape) >= MOST_ELEMENTS:
        raise damaged(path, f"{files.shown(name)} has an impossible shape in {MANIFEST}")
    is_key = isinstance(dtype, str) and dtype in KEYS and KEYS[dtype][0] == key_impl
    if not isinstance(dtype, str) or not (is_key or (dtype in DTYPES and key_impl is None)):
        raise damaged(path, f"{files.shown(name)} has an impossible dtype in {MANIFEST}")
    return Leaf(name, tuple(shape), dtype, KEYS[dtype][0] if is_key else None)


def _is_count(value: object) -> bool:
    """Whether a value from JSON is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
