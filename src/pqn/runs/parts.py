"""Checkpoints that several processes write together: each device's arrays in a file of its own, one manifest for all.

    step-000000409600/
      part-000000-000000.safetensors    what the device of the first seed and the first shard held
      part-000000-000002.safetensors    …
      manifest.json                     which box of which array each file has, and the SHA-256 of each file

Which devices there were does not matter to who reads it: the boxes are put together to whole arrays.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import safetensors
from safetensors.numpy import save as serialise

from pqn.errors import CheckpointError, reason
from pqn.hosts import processes
from pqn.programs.base import Block
from pqn.runs import files, state_tree
from pqn.runs.leaves import KEYS, Leaf, decode
from pqn.runs.manifest import MANIFEST, Manifest, PartBlock, PartFile, damaged
from pqn.types import PyTree


def encode_part(block: Block, whole: Mapping[str, Leaf]) -> tuple[PartFile, bytes]:
    """What the manifest says of a block, and the content of its file."""
    leaves, arrays = state_tree.flatten(block.state)
    data = serialise(arrays, metadata={"format": "pqn"})
    file = f"part-{block.first_seed:06d}-{block.first_shard:06d}.safetensors"
    boxes = tuple(PartBlock(leaf.name, _start(block, leaf, whole[leaf.name]), leaf.shape) for leaf in leaves)
    return PartFile(file, len(data), hashlib.sha256(data).hexdigest(), boxes), data


def _start(block: Block, leaf: Leaf, whole: Leaf) -> tuple[int, ...]:
    """Where a block lies in the whole array. An axis that it has all of begins at 0."""
    starts = (block.first_seed, block.first_shard)
    return tuple(
        start if have != all_ else 0 for start, have, all_ in zip(starts, leaf.shape, whole.shape, strict=False)
    )


def join(path: Path, said: Manifest, read: Callable[[str, int], bytes]) -> dict[str, np.ndarray]:
    """The whole arrays of a checkpoint in parts; `read` returns a file of it, given its name and size.

    Raises:
      DamagedCheckpoint: a part is torn or altered, or the parts do not make up the arrays.
    """
    arrays = {name: np.zeros(_stored_shape(leaf), _dtype(leaf)) for name, leaf in said.leaves.items()}
    filled = dict.fromkeys(said.leaves, 0)
    for part in said.parts:
        data = read(part.file, part.bytes)
        if len(data) != part.bytes or hashlib.sha256(data).hexdigest() != part.sha256:
            raise damaged(path, f"{part.file} is not the one that {MANIFEST} describes")
        try:
            stored = dict(safetensors.deserialize(data))
        except safetensors.SafetensorError as error:
            raise damaged(path, f"{part.file} is not a safetensors file") from error
        for block in part.blocks:
            leaf, found = said.leaves.get(block.name), stored.get(block.name)
            if leaf is None or found is None or not _fits(block, leaf):
                raise damaged(path, f"{part.file} has no proper {files.shown(block.name)}")
            box = leaf._replace(shape=block.shape)
            if len(found["data"]) != box.stored_bytes:
                raise damaged(path, f"{part.file} has {len(found['data'])} bytes for {box}")
            where = tuple(slice(at, at + size) for at, size in zip(block.start, block.shape, strict=False))
            arrays[block.name][where] = decode(box, found["data"])
            filled[block.name] += math.prod(block.shape)
    short = [name for name, leaf in said.leaves.items() if filled[name] != math.prod(leaf.shape)]
    if short:
        raise damaged(path, f"its parts do not make up {files.shown(short[0])}")
    return arrays


def _fits(block: PartBlock, leaf: Leaf) -> bool:
    starts = (*block.start, *([0] * len(leaf.shape)))
    inside = all(at + size <= all_ for at, size, all_ in zip(starts, block.shape, leaf.shape, strict=False))
    return len(block.shape) == len(leaf.shape) and len(block.start) <= len(leaf.shape) and inside


def _stored_shape(leaf: Leaf) -> tuple[int, ...]:
    return leaf.shape if leaf.key_impl is None else (*leaf.shape, KEYS[leaf.dtype][1])


def _dtype(leaf: Leaf) -> np.dtype:
    return np.dtype(np.uint32 if leaf.key_impl is not None else leaf.dtype)


def together(final: Path, work: Callable[[], object]) -> list[PyTree]:
    """What `work` returned in each process, which has a JSON form.

    Raises:
      CheckpointError: it failed in one of them; raised in all.
    """
    made, failure = None, None
    try:
        made = work()
    except OSError as error:
        failure = f"process {processes.index()} cannot write the checkpoint {final}: {reason(error)}"
    answers = processes.gather_json({"made": made, "failure": failure})
    failures = [answer["failure"] for answer in answers if answer["failure"]]
    if failures:
        raise CheckpointError(failures[0])
    return [answer["made"] for answer in answers]
