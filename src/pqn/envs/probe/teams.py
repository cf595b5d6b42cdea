"""Probes for two agents."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.contract import Outcome
from pqn.types import Array, EnvSpec


class TeamMatch:
    """Two agents with a cue each, 0 or 1, which the other cannot see; one step that pays 1 for each agent right.

    The payoff is a sum over agents: Q_i(cue, a) = 1 if a = cue else 0 is an exact decomposition, and a team that plays
    it earns `best` = 2. Fails if the agents' observations or actions are mixed up, or the reward is not the team's.
    """

    best = 2.0

    def __init__(self) -> None:
        self.spec = EnvSpec(
            "probe:team-match", (2,), np.dtype(np.float32), num_actions=2, num_agents=2, max_episode_steps=1
        )

    def reset(self, key: Array) -> tuple[Array, Array]:
        cues = jax.random.bernoulli(key, shape=(2,)).astype(jnp.int32)
        return cues, jax.nn.one_hot(cues, 2)

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        right = jnp.sum((action == state).astype(jnp.float32))
        return Outcome(state, jax.nn.one_hot(state, 2), right, jnp.bool_(True))


class TwoStepGame:
    """The game with which QMIX was introduced: a sum of values cannot express it, a monotonic mixture can.

    The first agent's first action decides which of two matrices the second step pays by: A pays 7 whatever both do, B
    pays ((0, 1), (1, 8)). The best team goes to B and earns `best` = 8. Explored uniformly, the closest sum of values
    to B puts its best entry at 6.5, so that VDN goes to A and earns `best_sum` = 7.
    """

    best, best_sum = 8.0, 7.0

    def __init__(self) -> None:
        self.payoff = np.array([[[0, 0], [0, 0]], [[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)  # [S, A, A]
        self.spec = EnvSpec(
            "probe:two-step-game",
            (3,),
            np.dtype(np.float32),
            num_actions=2,
            num_agents=2,
            max_episode_steps=2,
            world_size=3,
        )

    def reset(self, key: Array) -> tuple[Array, Array]:
        return jnp.int32(0), self._observe(jnp.int32(0))

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        after = jnp.where(state == 0, 1 + action[0], state)
        reward = jnp.asarray(self.payoff)[state, action[0], action[1]]
        return Outcome(after, self._observe(after), reward, state > 0)

    def world_state(self, state: Array) -> Array:
        return jax.nn.one_hot(state, 3)

    def _observe(self, state: Array) -> Array:
        return jnp.broadcast_to(jax.nn.one_hot(state, 3), (2, 3))
