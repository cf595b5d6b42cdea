"""Whether a directory has a run already, and whether it is the run that is wanted now."""

from __future__ import annotations

from pathlib import Path

from pqn.config import Config
from pqn.errors import RunError
from pqn.runs import files
from pqn.runs.configs import describe, differences
from pqn.runs.directory import CONFIG
from pqn.runs.opened import Warn, open_run

NO_INFLUENCE = ("log.", "save.", "simulators.cores")  # options that say nothing about what a run learns


def begun(run: Path, config: Config, wanted_by: str, warn: Warn | None = None) -> bool:
    """Whether a run of this configuration has been begun in `run` before.

    Args:
      run: a run directory, or a place for one.
      config: what is to be trained there.
      wanted_by: who asks, for the message: "this sweep".
      warn: told what the user should know.

    Raises:
      RunError: a run of another configuration is there, so that its results are not those that were asked for.
    """
    if not files.kind_of(run / CONFIG):
        return False
    changed = differences(config, open_run(run, warn).config)
    refused = {name: values for name, values in changed.items() if not name.startswith(NO_INFLUENCE)}
    if refused:
        raise RunError(
            f"{run} was trained before with another configuration: {describe(refused, wanted_by, 'that run')}; "
            "choose another --out"
        )
    return True
