"""A larger share of the budget goes on where a smaller one has ended.

Every share has the schedules of the whole, so the smaller run is the beginning of the larger one, to the bit. Its
directory is copied, and the copy is trained on. The smaller result stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pqn.config import Config
from pqn.errors import PqnError
from pqn.experiments.record import CALLS
from pqn.runs import files
from pqn.runs.begun import begun
from pqn.runs.directory import CONFIG, LOCK, SUMMARY
from pqn.runs.opened import open_run

COPYING = ".copy"  # the name of a copy that is not complete


def schedule_steps(config: Config) -> int:
    """Environment steps over which ε and the learning rate run their course."""
    return config.learner.schedule_steps or config.total_steps


def as_begun(config: Config, run: Path) -> Config:
    """What `config` looks like in `run` if that is this plan, or the beginning of it; otherwise as it is."""
    if not files.kind_of(run / CONFIG):
        return config
    there = open_run(run).config
    if schedule_steps(there) != schedule_steps(config) or there.total_steps > config.total_steps:
        return config
    return config.replace({"total_steps": there.total_steps, "learner.schedule_steps": there.learner.schedule_steps})


def copy_beginning(config: Config, path: Path, finished: Sequence[Path]) -> Path | None:
    """Copies to `path` the run in `finished` that has the most of `config` behind it.

    Args:
      config: what is to be trained in `path`.
      path: a run directory that does not exist yet; those of the same name and seeds are looked for.
      finished: directories with runs that have reached their ends.

    Returns:
      The directory of `finished` that it was copied from; None where none of them is a beginning of `config`.
    """
    found = [(steps, folder) for folder in finished if (steps := _steps_of(config, folder / path.name))]
    if not found:
        return None
    _, folder = max(found)
    partial = path.with_name(f"{path.name}{COPYING}")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    # Without its summary: the copy is not finished.
    shutil.copytree(folder / path.name, partial, symlinks=True, ignore=shutil.ignore_patterns(LOCK, SUMMARY))
    earlier = [file.read_bytes() for file in (partial / CALLS, folder / CALLS) if file.exists()]
    files.write_atomically(partial / CALLS, b"".join(earlier))  # who trained the beginning
    partial.rename(path)
    return folder


def _steps_of(config: Config, run: Path) -> int:
    """The steps of a finished run that is a beginning of `config`; 0 for any other."""
    if not files.is_file(run / SUMMARY):
        return 0
    try:
        planned = as_begun(config, run).total_steps
        begun(run, as_begun(config, run), "this share")
    except PqnError:  # trained with other options, or damaged: the larger share is trained from the start
        return 0
    return planned if planned < config.total_steps else 0
