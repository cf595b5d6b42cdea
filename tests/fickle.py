"""An environment for tests of greedy play, and play written out step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.acting import QActor
from pqn.algorithms.base import LearnerState
from pqn.envs.contract import Outcome
from pqn.types import EnvSpec, Inputs


class FickleState(NamedTuple):
    t: Any
    length: Any
    score: Any


class Fickle:
    """Observations are noise and rewards depend on the action, so that returns tell how was played.

    Episodes last two to seven steps. Which of the four actions are legal changes with every step (`masked`). A score of
    ten times the rewards takes the place of the return (`scored`).
    """

    def __init__(self, masked: bool = False, scored: bool = False):
        self.scored = scored
        self.spec = EnvSpec("fickle", (3,), np.dtype("float32"), num_actions=4, masked=masked)

    def reset(self, key):
        length = jax.random.randint(jax.random.fold_in(key, 1), (), 2, 8)
        return FickleState(jnp.int32(0), length, jnp.float32(0)), jax.random.normal(key, (3,))

    def step(self, key, state, action):
        reward = 1.0 + action.astype(jnp.float32) ** 2
        after = FickleState(state.t + 1, state.length, state.score + 10.0 * reward)
        info = {"t": after.t} | ({"return": after.score} if self.scored else {})
        return Outcome(after, jax.random.normal(key, (3,)), reward, after.t == state.length, info=info)

    def avail(self, state):
        return (jnp.arange(4) + state.t) % 3 != 0


class FirstEpisodes(NamedTuple):
    """Of each environment, what its first episode came to; `length` counts the steps that were played of it."""

    ret: np.ndarray
    length: np.ndarray
    finished: np.ndarray
    info: dict[str, np.ndarray]


def play(env: Any, actor: QActor, state: LearnerState, key: Any, steps: int) -> FirstEpisodes:
    """`steps` greedy steps of a vector environment, reset with `key`."""
    variables = {"params": state.params, "batch_stats": state.stats}
    think = jax.jit(lambda carry, inputs: actor.network.apply(variables, carry, inputs))
    step = jax.jit(env.step)
    envs, now = jax.jit(env.reset)(key)
    carry = actor.network.initial_carry(env.num_envs, env.spec.num_agents)
    ret, length, finished = (np.zeros(env.num_envs) for _ in range(3))
    info = {name: np.zeros(env.num_envs) for name in now.info}
    for _ in range(steps):
        carry, q = think(carry, Inputs(now.obs[None], now.first[None]))
        legal = np.ones(q.shape[1:], bool) if now.avail is None else np.asarray(now.avail)
        action = np.where(legal, np.asarray(q[0]), -np.inf).argmax(-1).astype(np.int32)
        envs, now = step(envs, action)
        for i in np.flatnonzero(finished == 0):
            ret[i], length[i] = ret[i] + now.reward[i], length[i] + 1
            if now.terminated[i] or now.truncated[i]:
                finished[i] = 1
                info = {name: np.where(np.arange(len(old)) == i, now.info[name], old) for name, old in info.items()}
                ret[i] = now.info["return"][i] if "return" in now.info else ret[i]
    return FirstEpisodes(ret, length, finished > 0, info)
