"""Counting episodes while rollouts are collected: the one rule of which return and length an episode has."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from pqn.arrays import at_once
from pqn.types import Array, EpisodeStats, TimeStep


class Finished(NamedTuple):
    """Sums over the episodes that ended in a rollout; a mean over them is never biased by open episodes."""

    episodes: Array
    ret: Array
    length: Array
    info: dict[str, Array]
    fault: Array | None = None  # int32 `health.Fault` of the environments; None: not looked at (here)

    def over_environments(self) -> Finished:
        """The sums over all environments, from those of each [N]."""
        return at_once(lambda sums: jnp.sum(sums, axis=1), self)


def count_episodes(episode: EpisodeStats, finished: Finished, timestep: TimeStep) -> tuple[EpisodeStats, Finished]:
    """Adds the step to the open episodes and moves those that ended into the sums, per environment."""
    done = timestep.over
    ret, length = episode.ret + timestep.reward, episode.length + (1 if timestep.valid is None else timestep.valid)
    total = timestep.info.get("return", ret)

    def ended(sums: Array, value: Array) -> Array:
        return sums + jnp.where(done, value, 0.0)

    finished = Finished(
        finished.episodes + done,
        ended(finished.ret, total),
        ended(finished.length, length),
        {name: ended(finished.info[name], value) for name, value in timestep.info.items()},
    )
    return EpisodeStats(jnp.where(done, 0.0, ret), jnp.where(done, 0.0, length)), finished
