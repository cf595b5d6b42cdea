"""Reading checkpoints in tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pqn.runs import checkpoint


def restore(path: Path, like: Any) -> tuple[Any, dict[str, Any]]:
    """The state of one checkpoint, in the structure of `like`, and its metadata."""
    contents = checkpoint.read(path)
    return checkpoint.place(contents, like), contents.metadata


def restore_latest(
    directory: Path, like: Any, warn: Callable[[str], None] = lambda sentence: None
) -> tuple[Any, dict[str, Any]]:
    """The same of the newest intact checkpoint of a directory."""
    return checkpoint.newest(directory, lambda path: restore(path, like), warn)


def read_tree(path: Path | None) -> dict[str, Any]:
    """The arrays of a checkpoint as nested dicts: ["learner"]["params"]["torso"]…"""
    assert path is not None
    tree: dict[str, Any] = {}
    for name, array in checkpoint.read(path).arrays.items():
        *parents, last = name.split("/")
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = array
    return tree
