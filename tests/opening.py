"""Opening runs in tests: hear what is said, and stop before anything is trained."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NoReturn

from pqn.progress import Progress


class Listening(Progress):
    """Remembers what was said."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)

    warn = note


class WouldTrain(Exception):
    """Raised in place of compiling: the run was opened, and is about to go on from here."""


def would_train(*_: Any) -> NoReturn:
    raise WouldTrain


def copy_of(run: Path, directory: Path) -> Path:
    """A copy of a run, to change."""
    return Path(shutil.copytree(run, directory / "run"))
