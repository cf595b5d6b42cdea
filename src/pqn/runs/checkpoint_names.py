"""Names in the directory of checkpoints: `step-000000409600`, and what a killed process may have left there."""

from __future__ import annotations

import re

TEMPORARY = ".tmp-"  # how the name of what is not a checkpoint yet, or no more, begins
REPLACED = ".replaced"  # how the name of a checkpoint ends while another is put in its place

_NAME = re.compile(rf"step-(\d{{12}})({re.escape(REPLACED)})?")


def name_of(step: int) -> str:
    return f"step-{step:012d}"


def step_of(name: str) -> int | None:
    """The step of a checkpoint, also of one that was being replaced; None for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None
