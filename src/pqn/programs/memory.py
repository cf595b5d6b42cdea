"""Where the memory of a run goes, in bytes, as it is known before the run."""

from __future__ import annotations

from typing import NamedTuple

from pqn.algorithms.base import LearnerState
from pqn.device import size
from pqn.types import PyTree


class MemoryPlan(NamedTuple):
    """Bytes on the device, of all seeds together."""

    parameters: int  # running statistics of batch norms included
    optimizer: int
    target: int  # a target network
    buffer: int  # past steps
    environments: int  # their states, and what the agents see and remember
    rollout: int  # one, as the algorithm gets it
    planned: int  # what the largest compiled program holds at once: all of these, and what comes and goes

    @staticmethod
    def of(learner: LearnerState, stream: PyTree, rollout: PyTree, planned: int) -> MemoryPlan:
        """From the shapes of S seeds."""
        return MemoryPlan(
            parameters=size((learner.params, learner.stats)),
            optimizer=size(learner.opt),
            target=size(learner.target),
            buffer=size(learner.buffer),
            environments=size(stream),
            rollout=size(rollout),
            planned=planned,
        )
