"""Runs many arms one after the other, as far as the time allows; what fails is told, not hidden."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pqn.errors import DeviceError, Interrupted, PqnError
from pqn.experiments import runner
from pqn.experiments.deadline import Deadline
from pqn.experiments.paper import Arm, estimate, experiment
from pqn.progress import Progress, clock

State = Literal["done", "failed", "left", "preset missing"]
STARTING = 2.0  # minutes that a training needs at least to compile and to get anywhere


class Outcome(NamedTuple):
    """What became of an arm."""

    arm: Arm
    state: State
    path: Path | None = None
    why: str = ""


def run_arms(
    arms: Sequence[Arm],
    share: float,
    seeds: int | None,
    out: Path,
    *,
    minutes: float | None = None,
    again: bool = False,
    gigabytes: float | None = None,
    overrides: Callable[[Arm], Mapping[str, object]] | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Runs every arm that has no result yet, and those that were begun first; with `again`, all.

    Args:
      seeds: of each arm; None takes the experiment's own number.
      minutes: after which to save and stop. An arm that cannot be saved half-way is begun only if it should fit.
      The others are those of `runner.run_arm`.

    Returns:
      What became of each arm, in the order given.

    Raises:
      Interrupted: the user stopped it.
    """
    progress, deadline = progress or Progress(), Deadline(minutes)
    outcomes: dict[Arm, Outcome] = {}
    for arm in sorted(arms, key=lambda arm: _place(arm, share, _seeds(arm, seeds), out)):
        count = _seeds(arm, seeds)
        if not arm.known:
            outcomes[arm] = Outcome(arm, "preset missing", why=f"there is no preset {arm.preset!r} yet")
        elif not fits(arm, share, count, deadline):
            outcomes[arm] = Outcome(arm, "left", why=f"{clock(60 * max(deadline.minutes_left, 0))} are left")
        else:
            options = overrides(arm) if overrides else {}
            outcomes[arm] = _run_one(arm, share, count, out, again, deadline, gigabytes, options, progress)
    return [outcomes[arm] for arm in arms]


def fits(arm: Arm, share: float, seeds: int, deadline: Deadline) -> bool:
    """Whether there is time to begin an arm. A training may be interrupted, so it needs time to start only."""
    needed = estimate(arm, experiment(arm.experiment), share, seeds)
    return deadline.minutes_left >= (min(needed, STARTING) if arm.program == "training" else needed)


def _seeds(arm: Arm, seeds: int | None) -> int:
    return experiment(arm.experiment).seeds if seeds is None else seeds


def _place(arm: Arm, share: float, seeds: int, out: Path) -> int:
    """What was begun comes first, what has failed before comes last."""
    if runner.failures(arm, out):
        return 2
    return 0 if runner.unfinished(arm, share, seeds, out) else 1


def _run_one(
    arm: Arm, share: float, seeds: int, out: Path, again: bool, deadline: Deadline, gigabytes: float | None,
    overrides: Mapping[str, object], progress: Progress,
) -> Outcome:  # fmt: skip
    progress.note(f"--- {arm.experiment}/{arm.name}: {seeds} seeds, {100 * share:g} % of the budget")
    try:
        path = runner.run_arm(
            arm, share, seeds, out, again=again, deadline=deadline, gigabytes=gigabytes, overrides=overrides,
            progress=progress,
        )  # fmt: skip
    except runner.TimeIsUp as error:
        return Outcome(arm, "left", why=str(error))
    except Interrupted:
        raise
    except PqnError as error:
        return _failed(arm, share, seeds, out, error, progress)
    except Exception as error:
        # Of an environment or a library. The other arms can still run, so this one only is reported, with its lines.
        progress.warn(traceback.format_exc())
        return _failed(arm, share, seeds, out, error, progress)
    return Outcome(arm, "done", path)


def _failed(arm: Arm, share: float, seeds: int, out: Path, error: Exception, progress: Progress) -> Outcome:
    sentence = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, DeviceError):
        sentence += f" (reproduce: --memory less than {arm.gigabytes:g} GB a seed trains fewer seeds at once)"
    progress.warn(f"{arm.experiment}/{arm.name} failed: {sentence}")
    runner.note_failure(arm, share, seeds, out, error)
    return Outcome(arm, "failed", why=sentence)
