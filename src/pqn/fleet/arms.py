"""One piece of work of many: `Task`, the usual one (`Arm`, a run), what became of it (`Outcome`), and `attempt`.

This module imports JAX only where an arm is trained: who hands out arms to other processes must not hold a GPU.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, TextIO

from pqn.config import Config
from pqn.errors import Diverged, Interrupted, PqnError, reason
from pqn.options import OWN_NETWORK
from pqn.progress import Progress
from pqn.runs import files
from pqn.runs.begun import begun
from pqn.runs.directory import SUMMARY

INTERRUPTED = 130  # exit status of a run that was stopped by a signal, as `pqn train` has it
LEFT = 75  # of work that was left for another call: "try again later" in sysexits.h


class Left(PqnError):
    """Work that was saved and left for another call, such as at a deadline; not a failure."""


class Task(Protocol):
    """Work that this or any other process can bring to its end.

    Its class is named in what is sent to another process, and makes it again there by `from_dict`.
    """

    @property
    def label(self) -> str:
        """Names it in tables."""
        ...

    @property
    def out(self) -> Path:
        """What it works in: no other has the same."""
        ...

    def is_complete(self) -> bool: ...

    def finish(self, progress: Progress) -> None:
        """Does what is left of it; nothing where it is complete. What was begun before goes on where it stopped.

        Raises:
          PqnError: it failed, in a sentence; `Left` where it did not.
        """
        ...

    def resolved(self) -> Self:
        """The same with paths that do not depend on the working directory."""
        ...

    def to_dict(self) -> dict[str, object]:
        """What has a JSON form."""
        ...

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self: ...


@dataclasses.dataclass(frozen=True)
class Arm:
    """A run that is to be: `label` names it in tables, `out` is its run directory."""

    label: str
    config: Config
    out: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", files.as_path("out", self.out))  # a text will do as well

    def is_complete(self) -> bool:
        return files.is_file(self.out / SUMMARY)

    def finish(self, progress: Progress) -> None:
        """Trains it, or resumes it from its newest checkpoint; see `Task.finish`."""
        from pqn.training import resume, train

        if self.is_complete():
            return
        if refuse_another(self, progress.warn, "this arm"):  # asked now: a worker that died may have begun it
            module = self.config.network.module
            network = None if module == OWN_NETWORK else module
            resume(self.out, env=self.config.env.name, network=network, progress=progress)
        else:
            train(self.config, out=self.out, progress=progress)

    def resolved(self) -> Self:
        return dataclasses.replace(self, out=self.out.resolve())

    def to_dict(self) -> dict[str, object]:
        return {"label": self.label, "config": self.config.to_dict(), "out": str(self.out)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        return cls(str(data["label"]), Config.from_dict(data["config"]), Path(str(data["out"])))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of an arm. Where `error` is None, it is complete."""

    arm: Task
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


def attempt(arm: Task, progress: Progress, log: TextIO | None = None) -> Outcome:
    """`Task.finish`, with every error as an outcome. `log` gets the traceback of one that nobody expected.

    Raises:
      Interrupted, KeyboardInterrupt: the user wants no more arms.
    """
    try:
        arm.finish(progress)
    except Interrupted:
        raise
    except PqnError as error:
        return Outcome(arm, str(error), LEFT if isinstance(error, Left) else 1 if isinstance(error, Diverged) else 2)
    except OSError as error:
        return Outcome(arm, f"cannot go on: {reason(error)}", 2)
    except Exception as error:
        traceback.print_exc(file=log)
        where = "" if log is None else f"; {log.name} has more"
        return Outcome(arm, f"{type(error).__name__} was not expected: {str(error)[:200]}{where}", 1)
    return Outcome(arm)


def log_of(arm: Task) -> Path:
    """Where an arm that runs in another process writes what it would show: next to its directory."""
    return arm.out.with_name(f"{arm.out.name}.log")


def open_log(arm: Task) -> TextIO:
    """The log of an arm, to go on writing.

    Raises:
      RunError: something else stands there. The folder may be an old one of somebody else, with a pipe or a link in it.
    """
    path = log_of(arm)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.is_file(path)
    return path.open("a", encoding="utf-8")


def say(outcome: Outcome, done: int, total: int, progress: Progress) -> None:
    """Reports an arm that runs in another process; `done` of `total` have ended with it."""
    if outcome.status == LEFT:
        progress.note(f"{outcome.arm.label}: {outcome.error}")
    elif outcome.error is not None:
        progress.note(f"{outcome.arm.label} failed: {outcome.error}")
    else:
        progress.note(f"{outcome.arm.label} is complete ({done} of {total})")


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """That of the first arm that failed, or 0."""
    return next((outcome.status for outcome in outcomes if outcome.error is not None), 0)
