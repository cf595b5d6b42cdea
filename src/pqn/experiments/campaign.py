"""Runs many arms, one after the other or many at a time, as far as the time allows; what fails is told, not hidden."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pqn.errors import Interrupted, PqnError
from pqn.experiments import runner
from pqn.experiments.deadline import Deadline
from pqn.experiments.paper import Arm, experiment
from pqn.experiments.placed import PlacedArm, fits, sentence
from pqn.fleet import placement as fleet
from pqn.fleet.arms import LEFT
from pqn.fleet.placement import Placement
from pqn.progress import Progress, clock

State = Literal["done", "failed", "left", "preset missing"]


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
    placement: Placement | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Runs every arm that has no result yet, and those that were begun first; with `again`, all.

    Args:
      seeds: of each arm; None takes the experiment's own number.
      minutes: after which to save and stop. An arm that cannot be saved half-way is begun only if it should fit.
      placement: where they run; by default one after the other, in this process. The results do not depend on it.
      The others are those of `runner.run_arm`.

    Returns:
      What became of each arm, in the order given.

    Raises:
      Interrupted: the user stopped it.
    """
    progress = progress or Progress()
    arms_in_order = sorted(arms, key=lambda arm: _place(arm, share, _seeds(arm, seeds), out))
    if placement is not None and (placement.jobs > 1 or placement.ray is not None):
        ends = None if minutes is None else time.time() + 60 * minutes
        tasks = {
            arm: _placed(arm, share, _seeds(arm, seeds), out, again, gigabytes, overrides, ends)
            for arm in arms_in_order
            if arm.known
        }
        found = _run_elsewhere(tasks, placement, progress)
        return [found.get(arm) or _missing(arm) for arm in arms]
    outcomes, deadline = dict[Arm, Outcome](), Deadline(minutes)
    for arm in arms_in_order:
        count = _seeds(arm, seeds)
        if not arm.known:
            outcomes[arm] = _missing(arm)
        elif not fits(arm, share, count, deadline):
            outcomes[arm] = Outcome(arm, "left", why=f"{clock(60 * max(deadline.minutes_left, 0))} are left")
        else:
            options = overrides(arm) if overrides else {}
            outcomes[arm] = _run_one(arm, share, count, out, again, deadline, gigabytes, options, progress)
    return [outcomes[arm] for arm in arms]


def _placed(
    arm: Arm, share: float, seeds: int, out: Path, again: bool, gigabytes: float | None,
    overrides: Callable[[Arm], Mapping[str, object]] | None, ends: float | None,
) -> PlacedArm:  # fmt: skip
    known = len(runner.complete(arm, share, seeds, out)) if again else 0
    options = overrides(arm) if overrides else {}
    return PlacedArm(arm.experiment, arm.name, share, seeds, out, known, gigabytes, options, ends)


def _run_elsewhere(tasks: Mapping[Arm, PlacedArm], placement: Placement, progress: Progress) -> dict[Arm, Outcome]:
    """What became of arms that other processes ran."""
    found: dict[Arm, Outcome] = {}
    outcomes = fleet.run_arms(list(tasks.values()), placement, progress)
    for (arm, task), ended in zip(tasks.items(), outcomes, strict=True):
        given = (arm, task.share, task.seeds, task.results)
        if ended.error is None:
            found[arm] = Outcome(arm, "done", runner.finished(*given))
        elif ended.status == LEFT:
            found[arm] = Outcome(arm, "left", why=ended.error)
        else:
            runner.note_failure(*given, PqnError(ended.error))
            found[arm] = Outcome(arm, "failed", why=ended.error)
    return found


def _missing(arm: Arm) -> Outcome:
    return Outcome(arm, "preset missing", why=f"there is no preset {arm.preset!r} yet")


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
    said = sentence(arm, error)
    progress.warn(f"{arm.experiment}/{arm.name} failed: {said}")
    runner.note_failure(arm, share, seeds, out, error)
    return Outcome(arm, "failed", why=said)
