"""What exists once the simulators of a run have been started."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import jax
import numpy as np

from pqn.algorithms.base import Algorithm
from pqn.programs.base import HostFactory
from pqn.programs.simulators.collect import Collector, shapes_of
from pqn.programs.simulators.greedy import GreedyEpisodes
from pqn.programs.simulators.groups import Layout
from pqn.programs.simulators.seeds import episode_seeds
from pqn.programs.simulators.simulators import Simulators
from pqn.types import Array, PyTree, TimeStep


class Started(NamedTuple):
    """Simulators that have been reset, and what is made for them."""

    simulators: Simulators
    collector: Collector
    greedy: GreedyEpisodes
    first: list[TimeStep]  # of each group, after the reset
    saved_shape: PyTree  # shapes of what `Simulators.save` returns; () where it cannot or need not be called


def start_simulators(
    make_env: HostFactory,
    algorithm: Algorithm,
    layout: Layout,
    run_seeds: Array,
    shard: int | None = None,
    collector: Collector | None = None,
) -> Started:
    """Starts the simulators of a run, and their first episodes.

    Args:
      make_env: makes a `HostEnv` of a given size.
      algorithm: whose actor acts.
      layout: the groups of simulators.
      run_seeds: the S seeds of the run.
      shard: the shard that they are of, in a run that has several.
      collector: that of another shard, to be used for this one, too.

    Raises:
      EnvFailed: a simulator failed. Those that had been started are closed.
    """
    config = algorithm.config
    reserve_cores = config.simulators.cores == "reserved"
    simulators = Simulators(make_env, layout.num_seeds, layout.groups, reserve_cores, config.seed)
    with contextlib.ExitStack() as unless_started:
        unless_started.callback(simulators.close)
        timesteps = simulators.reset(*episode_seeds(run_seeds, layout, 0, shard))
        first: list[TimeStep] = jax.tree.map(np.array, timesteps)  # copies: the arrays are the simulators' own
        collector = collector or Collector(algorithm, layout, first[0], config.eval.epsilon)
        greedy = GreedyEpisodes(layout, list(first[0].info))
        # With overlap a rollout is always being collected, and no checkpoint holds it.
        saves = simulators.can_save and not config.simulators.overlap
        saved_shape = shapes_of(simulators.save()) if saves else ()
        unless_started.pop_all()
    return Started(simulators, collector, greedy, first, saved_shape)
