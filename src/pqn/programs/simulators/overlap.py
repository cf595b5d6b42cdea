"""Learning from one rollout while the next one is collected: the gradient steps of an update are taken in pieces."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from pqn.algorithms.base import Hyper, Metrics, Progress, Work
from pqn.programs.simulators.records import Collected
from pqn.types import Array

Descend = Callable[[Progress, Work, tuple[Hyper, np.int32]], tuple[Progress, Metrics]]  # from a given gradient step on


class UnlearnedRollout(NamedTuple):
    """A rollout that has not been learned from yet."""

    collected: Collected
    key: Array  # of its minibatches


def piece_size(steps: int, most: int) -> int:
    """Gradient steps in a piece: as few as make at most `most` equal pieces of `steps` gradient steps.

    >>> piece_size(12, 5)
    3
    """
    return min(size for size in range(1, steps + 1) if steps % size == 0 and steps // size <= most)


class GradientSteps:
    """The gradient steps of one update. Any thread may take the next piece of them.

    Args:
      descend: takes the gradient steps of one piece.
      hyper: its hyperparameters.
      progress: where the gradient steps start.
      work: what all of them are.
      starts: the number of the first gradient step of each piece.
    """

    def __init__(self, descend: Descend, hyper: Hyper, progress: Progress, work: Work, starts: range):
        self.work = work
        self._descend, self._hyper, self._progress, self._starts = descend, hyper, progress, starts
        self._metrics: list[Metrics] = []
        self._lock = Lock()

    def take_piece(self) -> None:
        """Queues the next piece, unless none is left or another thread is queueing one."""
        if not self._lock.acquire(blocking=False):  # this thread has simulators that wait for it
            return
        try:
            done = len(self._metrics)
            if done < len(self._starts):
                given = (self._hyper, np.int32(self._starts[done]))
                self._progress, metrics = self._descend(self._progress, self.work, given)
                self._metrics.append(metrics)
        finally:
            self._lock.release()

    def finish(self) -> tuple[Progress, list[Metrics]]:
        """Queues what is left. Returns where the gradient steps end, and the metrics of each piece."""
        while len(self._metrics) < len(self._starts):
            self.take_piece()
        return self._progress, self._metrics
