"""Removing a run, to train another one in its place: the files that pqn wrote, and nothing else.

What is no run of pqn is refused. Other files in the directory stay. The configuration goes last: a process killed in
between leaves something that is still a run, and can be removed again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pqn.errors import RunError, reason
from pqn.runs import files
from pqn.runs.checkpoint_names import TEMPORARY, step_of
from pqn.runs.configs import read_config


def remove_run(path: Path, config: str, checkpoints: str, others: Sequence[str]) -> None:
    """Removes the run in a directory, if there is one; the caller holds its lock.

    Args:
      path: the directory.
      config: name of the file that makes it a run.
      checkpoints: name of the directory of its checkpoints.
      others: names of its other files.

    Raises:
      RunError: what is there is no run of pqn, or cannot be removed.
    """
    if not files.kind_of(path / config):
        return
    try:
        written = read_config(files.read_json(path / config), str(path / config))
    except RunError as error:
        raise RunError(f"{path} is not overwritten, since it is no intact run of pqn: {error}") from error
    try:
        for name in others:
            if files.is_file(path / name):
                (path / name).unlink()
        for name in written.log.to:
            if files.is_directory(path / name):
                shutil.rmtree(path / name)
        if files.is_directory(path / checkpoints):
            _remove_checkpoints(path / checkpoints)
        (path / config).unlink()
    except OSError as error:
        raise RunError(f"cannot remove the run in {path}: {reason(error)}") from error


def _remove_checkpoints(directory: Path) -> None:
    for path in directory.iterdir():
        if step_of(path.name) is not None or path.name.startswith(TEMPORARY):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    if not any(directory.iterdir()):  # what is left is not ours
        directory.rmdir()
