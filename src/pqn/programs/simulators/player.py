"""Evaluation in simulators with one set of parameters: the first full episode of fresh environments."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from pqn.algorithms.base import Actor
from pqn.device import over_seeds_but_last
from pqn.envs.contract import HostEnv
from pqn.programs.evaluation import Evaluation, score
from pqn.programs.simulators.groups import split_into_groups
from pqn.programs.simulators.records import Observed, from_host
from pqn.programs.simulators.seeds import env_seeds
from pqn.programs.simulators.simulators import Simulators
from pqn.types import Array, Draw, Policy, PyTree


class Player:
    """Plays episodes with one actor; its functions are compiled once, however often it plays.

    Args:
      actor: who acts.
      num_seeds: S.
      epsilon: how often it acts at random.
      part: which share of the episodes it plays, of
      parts: equal shares. Together, the shares are what one player would play.
    """

    def __init__(self, actor: Actor, num_seeds: int, epsilon: float, part: int = 0, parts: int = 1):
        self.actor, self.num_seeds, self.part, self.parts = actor, num_seeds, part, parts

        def act_one(policy: Policy, observed: Observed, key: Array, t: Array) -> tuple[PyTree, Array]:
            own, *rest = observed.first.shape
            of_all = jax.random.uniform(jax.random.fold_in(key, t), (parts * own, *rest))
            uniform = of_all[part * own : (part + 1) * own]
            carry, action, _ = actor.act(policy, observed.carry, observed.seen(actor), Draw(uniform, epsilon))
            return carry, action

        self._act = jax.jit(over_seeds_but_last(act_one, num_seeds))

    def play(
        self, make_env: Callable[[int], HostEnv], policy: Policy, keys: Array, episodes: int, max_steps: int
    ) -> Evaluation:
        """The first full episode of `episodes` fresh environments for each of S seeds; returns NumPy arrays [S, E].

        E is its share of the episodes, which `parts` must divide.

        An environment whose episode has ended is stepped on until the longest one ends; its later steps do not count.
        """
        reset_keys, explore_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        seeds = env_seeds(reset_keys, episodes).reshape(self.num_seeds, self.parts, -1)[:, self.part]
        own = seeds.shape[1]
        groups = split_into_groups(own, 0, 1)
        simulators = Simulators(make_env, self.num_seeds, groups, first_seed=self.actor.config.seed)
        try:
            no_greedy = np.zeros((self.num_seeds, 0), np.int64)
            (timestep,) = simulators.reset(seeds, no_greedy)
            result = self._nothing_played(own, list(timestep.info))
            action = from_host(np.zeros((self.num_seeds, own, self.actor.spec.num_agents), np.int32))
            carry = self.actor.initial_carry(*action.shape)
            for t in range(max_steps):
                carry, action = self._act(policy, Observed.of(timestep, action, carry), explore_keys, np.int32(t))
                simulators.send(0, np.asarray(action))
                timestep = simulators.recv(0)
                result = score(result, timestep, ~result.finished)
                if np.all(result.finished):
                    break
        finally:
            simulators.close()
        return result.known()

    def _nothing_played(self, episodes: int, info: list[str]) -> Evaluation:
        zeros = from_host(np.zeros((self.num_seeds, episodes), np.float32))
        return Evaluation(zeros, zeros, from_host(np.zeros(zeros.shape, bool)), dict.fromkeys(info, zeros))
