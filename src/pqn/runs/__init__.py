"""A run on disk: its directory, its checkpoints, its metrics, and what is known about how it was made.

The package is also a function: `pqn.runs("runs/")` lists the runs of a directory, see `listing.list_runs`.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pqn.runs.listing import RunInfo


class _Callable(ModuleType):
    """A module under whose name users look for a function: `pqn.runs` is both."""

    def __call__(self, directory: str | os.PathLike[str] = "runs") -> list[RunInfo]:
        from pqn.runs.listing import list_runs

        return list_runs(directory)


sys.modules[__name__].__class__ = _Callable
