"""One program for several configurations that differ in traced hyperparameters alone.

The trials are laid on the axis of seeds: S = K·s for K trials of s seeds each, first all seeds of the first trial. Each
place on the axis has hyperparameters of its own. A trial gives the numbers that it would give alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.base import TRACED, Hyper
from pqn.config import Config
from pqn.programs.base import JaxFactory, RunState
from pqn.programs.compiled import CompiledProgram

R = TypeVar("R")


class TrialsProgram(CompiledProgram):
    """A `CompiledProgram` whose seeds belong to several trials.

    Args:
      configs: validated configurations for which `shape_of` is the same.
      make_env: makes the environment with a given number of copies.
    """

    def __init__(self, configs: Sequence[Config], make_env: JaxFactory):
        first = configs[0]
        super().__init__(first.replace(seeds=first.seeds * len(configs)).validate(), make_env)
        self.per_trial, self.trials = first.seeds, list(configs)
        self.seeds = jnp.tile(jnp.arange(first.seed, first.seed + first.seeds), len(configs))
        each = [Hyper.of(config) for config in configs]
        self.hyper = jax.tree.map(lambda *values: jnp.repeat(jnp.stack(values), first.seeds, axis=0), *each)

    def over_seeds_and(self, hyper: Hyper, function: Callable[..., R]) -> Callable[..., R]:
        """Each seed has the hyperparameters of its trial: `hyper` has an axis [S]."""
        return lambda *of_all: self.over_seeds(function)(*of_all, hyper)

    def narrowed(self, kept: Sequence[int], state: RunState) -> tuple[TrialsProgram, RunState]:
        """The program of some of the trials, not compiled yet, and their part of the state."""
        program = TrialsProgram([self.trials[index] for index in kept], self.make_env)
        places = np.concatenate([np.arange(self.per_trial) + index * self.per_trial for index in kept])
        return program, jax.tree.map(lambda x: x[places], state)


def shape_of(config: Config) -> str:
    """What a compiled program depends on: trials of which it is the same can share one.

    Of a traced hyperparameter it depends on whether it is 0: an algorithm may leave out what that switches off.
    """
    same = Config()
    options = {f"{group}.{name}": (group, name) for group, name in TRACED.values()}
    zeros = [option for option, (group, name) in options.items() if getattr(getattr(config, group), name) == 0]
    defaults = {option: getattr(getattr(same, group), name) for option, (group, name) in options.items()}
    return repr((zeros, config.replace(defaults)))
