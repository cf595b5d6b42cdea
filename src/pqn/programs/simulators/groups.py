"""How the environments of a run are split into groups, and the sizes of their rollouts."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from pqn.config import Config
from pqn.types import EnvSpec


class Group(NamedTuple):
    """The environments of one group, as ranges of the N training and E greedy environments of each seed."""

    train: slice
    greedy: slice

    @property
    def num_train(self) -> int:
        return self.train.stop - self.train.start

    @property
    def size(self) -> int:
        """Environments per seed; the training ones come first."""
        return self.num_train + self.greedy.stop - self.greedy.start


def split_into_groups(num_train: int, num_greedy: int, count: int) -> tuple[Group, ...]:
    """`count` groups of nearly equal size, or fewer where there are fewer training environments.

    A group with more of the one kind gets fewer of the other.

    >>> [group.size for group in split_into_groups(5, 3, 2)]
    [4, 4]
    """
    count = min(count, num_train)
    train = _split(num_train, count)
    greedy = _split(num_greedy, count)[::-1]
    ends = np.cumsum([0, *(part.stop - part.start for part in greedy)])
    return tuple(Group(a, slice(int(b), int(c))) for a, (b, c) in zip(train, itertools.pairwise(ends), strict=True))


def _split(count: int, parts: int) -> list[slice]:
    ends = [-(-count * i // parts) for i in range(parts + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]


class Layout(NamedTuple):
    """The sizes of a rollout from simulators."""

    groups: tuple[Group, ...]
    num_seeds: int  # S
    num_train: int  # N
    num_greedy: int  # E
    num_agents: int  # M
    steps: int  # T
    segment_length: int  # L
    burn_in: int  # W
    bootstraps: bool  # whether truncated steps are given the value of their final observation

    @staticmethod
    def of(config: Config, spec: EnvSpec, count: int) -> Layout:
        """The layout of a run, or of each of its shards, whose environments are split into `count` groups."""
        num_train = config.env.num_envs // config.shards
        num_greedy = (config.simulators.greedy_envs if config.eval.count else 0) // config.shards
        return Layout(
            groups=split_into_groups(num_train, num_greedy, count),
            num_seeds=config.seeds,
            num_train=num_train,
            num_greedy=num_greedy,
            num_agents=spec.num_agents,
            steps=config.learner.rollout_steps,
            segment_length=config.segment_length,
            burn_in=config.learner.burn_in,
            bootstraps=spec.truncates and config.learner.bootstrap_truncation,
        )
