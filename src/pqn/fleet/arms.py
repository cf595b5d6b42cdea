"""One run of many: `Arm`, what became of it (`Outcome`), and how to bring it to its end (`finish`, `attempt`).

This module imports JAX only where an arm is trained: who hands out arms to other processes must not hold a GPU.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from pqn.config import OWN_NETWORK, Config
from pqn.errors import Diverged, Interrupted, PqnError, reason
from pqn.progress import Progress
from pqn.runs import files
from pqn.runs.begun import begun
from pqn.runs.directory import SUMMARY

INTERRUPTED = 130  # exit status of a run that was stopped by a signal, as `pqn train` has it


@dataclasses.dataclass(frozen=True)
class Arm:
    """A run that is to be: `label` names it in tables, `out` is its run directory."""

    label: str
    config: Config
    out: Path


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of an arm. Where `error` is None, its run is complete."""

    arm: Arm
    error: str | None = None
    status: int = 0  # what `pqn train` would have exited with


def refuse_another(arm: Arm, warn: Callable[[str], None], what: str = "this sweep") -> bool:
    """Whether an arm has been begun before, with the same configuration.

    Args:
      arm: the arm.
      warn: told what the user should know about the run that is there.
      what: how the sentence calls the arms.

    Raises:
      RunError: with another one, so that its results are not those that were asked for.
    """
    return begun(arm.out, arm.config, what, warn)


def is_complete(arm: Arm) -> bool:
    return files.is_file(arm.out / SUMMARY)


def finish(arm: Arm, progress: Progress) -> None:
    """Trains an arm, or resumes it from its newest checkpoint; nothing where it is complete.

    Raises:
      PqnError: what `train` and `resume` raise.
    """
    from pqn.training import resume, train

    if is_complete(arm):
        return
    if refuse_another(arm, progress.warn, "this arm"):  # asked now: a worker that died may have begun it
        module = arm.config.network.module
        network = None if module == OWN_NETWORK else module
        resume(arm.out, env=arm.config.env.name, network=network, progress=progress)
    else:
        train(arm.config, out=arm.out, progress=progress)


def attempt(arm: Arm, progress: Progress, log: TextIO | None = None) -> Outcome:
    """`finish`, with every error as an outcome. `log` gets the traceback of one that nobody expected.

    Raises:
      Interrupted, KeyboardInterrupt: the user wants no more arms.
    """
    try:
        finish(arm, progress)
    except Interrupted:
        raise
    except PqnError as error:
        return Outcome(arm, str(error), 1 if isinstance(error, Diverged) else 2)
    except OSError as error:
        return Outcome(arm, f"cannot go on: {reason(error)}", 2)
    except Exception as error:
        traceback.print_exc(file=log)
        where = "" if log is None else f"; {log.name} has more"
        return Outcome(arm, f"{type(error).__name__} was not expected: {str(error)[:200]}{where}", 1)
    return Outcome(arm)


def log_of(arm: Arm) -> Path:
    """Where an arm that runs in another process writes what it would show: next to its run directory."""
    return arm.out.with_name(f"{arm.out.name}.log")


def say(outcome: Outcome, done: int, total: int, progress: Progress) -> None:
    """Reports an arm that runs in another process; `done` of `total` have ended with it."""
    if outcome.error is not None:
        progress.note(f"{outcome.arm.label} failed: {outcome.error}")
    else:
        progress.note(f"{outcome.arm.label} is complete ({done} of {total})")


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """That of the first arm that failed, or 0."""
    return next((outcome.status for outcome in outcomes if outcome.error is not None), 0)
