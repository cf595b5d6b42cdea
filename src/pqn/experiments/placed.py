"""An arm of an experiment as a task of `pqn.fleet`: another process, or another machine, brings it to its result."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pqn.errors import DeviceError
from pqn.experiments import runner
from pqn.experiments.deadline import Deadline
from pqn.experiments.paper import Arm, estimate, experiment, find_arms
from pqn.fleet.arms import Left
from pqn.progress import Progress, clock

STARTING = 2.0  # minutes that a training needs at least to compile and to get anywhere


@dataclasses.dataclass(frozen=True)
class PlacedArm:
    """What `runner.run_arm` needs to know, in a form that can be sent. It fulfils `fleet.arms.Task`."""

    experiment: str
    arm: str
    share: float
    seeds: int
    results: Path
    """Where results go: `out` of `run_arm`."""
    known: int = 0
    """How many results there were when another one was asked for; 0: one is enough."""
    gigabytes: float | None = None
    overrides: Mapping[str, object] = dataclasses.field(default_factory=dict)
    ends: float | None = None
    """When to save and stop, in seconds since 1970: the clocks of all machines should agree on that."""

    @property
    def label(self) -> str:
        return f"{self.experiment}/{self.arm}"

    @property
    def out(self) -> Path:
        return self.results / runner.RUNS / self.experiment / self.arm

    @property
    def paper_arm(self) -> Arm:
        (found,) = find_arms(experiment(self.experiment), [self.arm])
        return found

    def is_complete(self) -> bool:
        given = (self.paper_arm, self.share, self.seeds, self.results)
        return runner.unfinished(*given) is None and len(runner.complete(*given)) > self.known

    def finish(self, progress: Progress) -> None:
        arm, deadline = self.paper_arm, Deadline(None if self.ends is None else (self.ends - time.time()) / 60)
        if self.is_complete():  # a process that died may have done it
            return
        if not fits(arm, self.share, self.seeds, deadline):
            raise Left(f"{clock(60 * max(deadline.minutes_left, 0))} are left")
        try:
            runner.run_arm(
                arm, self.share, self.seeds, self.results, again=self.known > 0, deadline=deadline,
                gigabytes=self.gigabytes, overrides=self.overrides, progress=progress,
            )  # fmt: skip
        except DeviceError as error:
            raise DeviceError(sentence(arm, error)) from error

    def resolved(self) -> Self:
        return dataclasses.replace(self, results=self.results.resolve())

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self) | {"results": str(self.results), "overrides": dict(self.overrides)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        fields: dict = dict(data)
        overrides = {name: _as_given(value) for name, value in fields["overrides"].items()}
        return cls(**fields | {"results": Path(fields["results"]), "overrides": overrides})


def fits(arm: Arm, share: float, seeds: int, deadline: Deadline) -> bool:
    """Whether there is time to begin an arm. A training may be interrupted, so it needs time to start only."""
    needed = estimate(arm, experiment(arm.experiment), share, seeds)
    return deadline.minutes_left >= (min(needed, STARTING) if arm.program == "training" else needed)


def sentence(arm: Arm, error: BaseException) -> str:
    """Why an arm failed, in one line."""
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, DeviceError):
        said += f" (reproduce: --memory less than {arm.gigabytes:g} GB a seed trains fewer seeds at once)"
    return said


def _as_given(value: object) -> object:
    """A value of an option after a trip through JSON, which has no tuples."""
    return tuple(_as_given(each) for each in value) if isinstance(value, list) else value
