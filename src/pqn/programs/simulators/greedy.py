"""The greedy environments that are stepped together with the training environments, as in the paper.

They take a few per cent of the time and never stop a run. An environment reports one episode at a time: the first that
began after its last report. So an evaluation has at most one episode of each environment, however short the episodes
are. An episode that is still open at an evaluation is reported by a later one. The parameters change during such an
episode. `player.Player` plays episodes with one set of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from pqn.programs.evaluation import Evaluation, score
from pqn.programs.simulators.groups import Layout
from pqn.programs.simulators.records import GroupSteps, Outcomes, from_host
from pqn.types import PyTree

WAITING, PLAYING, OVER = 0, 1, 2  # for an episode to begin; the episode to report; its result is known


class GreedyEpisodes:
    """The episodes of the greedy environments [S, E], each of which waits, plays or has a result to report.

    Args:
      layout: which environments of each group are greedy.
      info: the names of what the environments report in addition.
    """

    def __init__(self, layout: Layout, info: Sequence[str]):
        self.layout = layout
        shape = (layout.num_seeds, layout.num_greedy)
        self.phase = np.full(shape, PLAYING, np.int32)
        self.ret, self.length = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.fresh = np.ones(shape, bool)  # an episode begins with the next step
        self.info = {name: np.zeros(shape, np.float32) for name in info}

    def add(self, groups: Sequence[GroupSteps]) -> None:
        """Adds the steps of a rollout."""
        if not self.phase.size:
            return
        parts = [
            jax.tree.map(lambda x, n=group.num_train: x[:, :, n:], steps.outcomes())
            for steps, group in zip(groups, self.layout.groups, strict=True)
        ]
        outcomes: Outcomes = jax.tree.map(lambda *x: np.concatenate(x, axis=2), *parts)
        for t in range(self.layout.steps):
            self._step(jax.tree.map(lambda x, t=t: x[:, t], outcomes))

    def _step(self, outcome: Outcomes) -> None:
        over = np.asarray(outcome.over)
        begins = (self.phase == WAITING) & over
        result = score(self._so_far(), outcome.timestep(), playing=from_host(self.phase == PLAYING))
        self.ret, self.length = np.asarray(result.ret), np.asarray(result.length)
        self.info = {name: np.asarray(value) for name, value in result.info.items()}
        self.phase[result.finished] = OVER
        self._begin(begins)
        self.fresh = over

    def _so_far(self) -> Evaluation:
        info = {name: from_host(value) for name, value in self.info.items()}
        return Evaluation(from_host(self.ret), from_host(self.length), from_host(self.phase == OVER), info)

    def _begin(self, where: np.ndarray) -> None:
        self.phase[where] = PLAYING
        self.ret[where], self.length[where] = 0.0, 0.0

    def report(self) -> Evaluation:
        """The results that are known [S, E], NaN elsewhere; the environments that reported wait for a new episode."""
        result = self._so_far().known()
        over = self.phase == OVER
        self.phase[over] = WAITING
        self._begin(over & self.fresh)
        return result

    def save(self) -> PyTree:
        """What a checkpoint holds: arrays by name."""
        return {name: getattr(self, name) for name in ("phase", "ret", "length", "fresh", "info")}

    def restore(self, saved: PyTree) -> None:
        """The inverse of `save`."""
        for name, value in saved.items():
            setattr(self, name, jax.tree.map(np.array, value))
