"""Where arms run: one after the other in this process, several at a time in processes, or on a Ray cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pqn.fleet.arms import Outcome, Task, attempt
from pqn.fleet.on_ray import run_on_ray
from pqn.fleet.processes import run_in_processes
from pqn.progress import Progress


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where arms run. The results do not depend on it.

    Attributes:
      jobs: how many processes at a time, on this machine; 1 trains in this process.
      ray: instead of these, a Ray cluster: its address, or "local" for one that is started on this machine and ends
        with the arms.
      retries: how often an arm goes on from its checkpoint after the process that trained it died.
      cpus: CPU cores that Ray reserves for an arm.
      gpus: GPUs that Ray reserves for an arm; a fraction lets several share one. None: 1 where the cluster has any.
    """

    jobs: int = 1
    ray: str | None = None
    retries: int = 2
    cpus: float = 1.0
    gpus: float | None = None


def run_arms(arms: Sequence[Task], placement: Placement, progress: Progress | None = None) -> list[Outcome]:
    """Brings every arm to its end and returns the outcomes, in the order of the arms.

    Args:
      arms: with different directories. On a cluster these must be on a file system that all machines share.
      placement: where they run.
      progress: where to report; by default to standard error.

    Raises:
      Interrupted: after a signal. Arms that were running are saved, and the same call goes on with them.
      ConfigError: Ray is not installed, or there is none at the address.
    """
    progress = progress or Progress()
    todo = [arm for arm in arms if not arm.is_complete()]
    if not todo:
        outcomes = []
    elif placement.ray is not None:
        outcomes = run_on_ray(todo, placement.ray, placement.retries, placement.cpus, placement.gpus, progress)
    elif placement.jobs > 1:
        outcomes = run_in_processes(todo, placement.jobs, placement.retries, progress)
    else:
        outcomes = _run_here(todo, progress)
    found = {outcome.arm.out.resolve(): outcome for outcome in outcomes}  # a cluster is told absolute paths
    wanted = {arm.out.resolve() for arm in todo}
    places = [(arm, arm.out.resolve()) for arm in arms]
    return [dataclasses.replace(found[path], arm=arm) if path in wanted else Outcome(arm) for arm, path in places]


def _run_here(arms: Sequence[Task], progress: Progress) -> list[Outcome]:
    outcomes = []
    for arm in arms:
        progress.note(f"--- {arm.label}")
        outcomes.append(attempt(arm, Progress(progress.stream, progress.quiet)))
        if outcomes[-1].error is not None:
            progress.note(f"{arm.label} failed: {outcomes[-1].error}")
    return outcomes
