"""Evaluation in simulators on the CPU, in two ways.

`Beside` follows the greedy environments that are stepped beside training, as in the paper: they cost a few per cent
and never stop a run. An environment reports one episode at a time: the first that began after its last report. So a
row holds at most one episode of each environment, however short the episodes are; one that is still open when a row
is due is not lost but reported in a later row, and the row says so. Parameters change while such an episode is
played. Where a number about *one* set of parameters is wanted, as at the end of a run or for `pqn eval`, a `Player`
plays the first full episode of fresh environments, as for environments in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pqn.algorithms.base import Actor
from pqn.envs.contract import HostEnv
from pqn.programs.evaluation import Evaluation, score
from pqn.programs.simulators.collect import over_seeds_but_last
from pqn.programs.simulators.pool import Pool, Share
from pqn.programs.simulators.records import Seen, Track
from pqn.types import Array, Draw, Policy, PyTree, TimeStep

WAITING, PLAYING, OVER = 0, 1, 2  # for an episode to begin; the episode to report; its result is in


class Beside:
    """The episodes of the greedy environments [S, E], of which each waits, plays or has a result to report."""

    def __init__(self, num_seeds: int, shares: list[Share], info: list[str]):
        self.shares = shares
        shape = (num_seeds, shares[-1].beside.stop)
        self.phase = np.full(shape, PLAYING, np.int32)
        self.ret, self.length = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.fresh = np.ones(shape, bool)  # an episode begins with the next step
        self.info = {name: np.zeros(shape, np.float32) for name in info}

    def add(self, tracks: tuple[Track, ...]) -> None:
        """Takes note of a rollout."""
        if not self.phase.size:
            return
        parts = [jax.tree.map(lambda x, n=share.num_train: x[:, :, n:], _numbers(track))
                 for track, share in zip(tracks, self.shares, strict=True)]  # fmt: skip
        steps = jax.tree.map(lambda *x: np.concatenate(x, axis=2), *parts)
        for t in range(steps["over"].shape[1]):
            self._step(jax.tree.map(lambda x, t=t: x[:, t], steps))

    def _step(self, now: dict[str, Any]) -> None:
        waiting, over = self.phase == WAITING, now["over"]
        nothing: Any = None
        timestep = TimeStep(nothing, nothing, now["reward"], over, over, info=now["info"], valid=now["valid"])
        fields: tuple[Any, ...] = (self.ret, self.length, self.phase == OVER, self.info)
        result: Any = score(Evaluation(*fields), timestep, playing=self.phase == PLAYING)
        self.ret, self.length, self.info = result.ret, result.length, result.info
        self.phase[result.finished] = OVER
        self._begin(waiting & over)
        self.fresh = over

    def _begin(self, where: np.ndarray) -> None:
        self.phase[where] = PLAYING
        self.ret[where], self.length[where] = 0.0, 0.0

    def report(self) -> Evaluation:
        """The results that are in [S, E], NaN where none is; the environments that reported wait for a new episode."""
        over = self.phase == OVER
        fields: tuple[Any, ...] = (self.ret, self.length, over, self.info)
        result = Evaluation(*fields).known()
        self.phase[over] = WAITING
        self._begin(over & self.fresh)
        return result

    def save(self) -> PyTree:
        return {name: getattr(self, name) for name in ("phase", "ret", "length", "fresh", "info")}

    def restore(self, saved: PyTree) -> None:
        for name, value in saved.items():
            setattr(self, name, jax.tree.map(np.array, value))


def _numbers(track: Track) -> dict[str, Any]:
    """[S, T, n] each."""
    valid = np.ones_like(track.over) if track.valid is None else track.valid
    return {"reward": track.reward, "over": track.over, "valid": valid, "info": track.info}


class Player:
    """Plays episodes with one actor, compiled once however often it plays."""

    def __init__(self, actor: Actor, num_seeds: int, epsilon: float):
        self.actor, self.num_seeds = actor, num_seeds

        def act_one(policy: Policy, seen: Seen, key: Array, t: Array) -> tuple[PyTree, Array]:
            uniform = jax.random.uniform(jax.random.fold_in(key, t), seen.first.shape)
            carry, action, _ = actor.act(policy, seen.carry, seen.read(actor), Draw(uniform, epsilon))
            return carry, action

        self.act = jax.jit(over_seeds_but_last(act_one, num_seeds))

    def play(
        self,
        make_env: Callable[[int], HostEnv],
        policy: Policy,
        keys: Array,
        episodes: int,
        max_steps: int,
    ) -> Evaluation:
        """The first full episode of `episodes` fresh environments for each of S seeds; returns numpy arrays [S, E].

        An episode that ends early waits for the longest one; its environment goes on, and nobody looks.
        """
        resets, explores = jax.vmap(jax.random.split, out_axes=1)(keys)
        pool = Pool(make_env, self.num_seeds, episodes, 0, groups=1, first_seed=self.actor.config.seed)
        try:
            timestep = pool.reset(env_seeds(resets, episodes), np.zeros((self.num_seeds, 0), np.int64))[0]
            shape = (self.num_seeds, episodes)
            zeros: Any = np.zeros(shape, np.float32)
            finished: Any = np.zeros(shape, bool)
            info: dict[str, Any] = dict.fromkeys(timestep.info, zeros)
            result = Evaluation(zeros, zeros, finished, info)
            action: Any = np.zeros((*shape, self.actor.spec.num_agents), np.int32)
            carry = self.actor.initial_carry(*action.shape)
            for t in range(max_steps):
                carry, action = self.act(policy, Seen.of(timestep, action, carry), explores, np.int32(t))
                pool.send(0, np.asarray(action))
                timestep = pool.recv(0)
                result = score(result, timestep, ~result.finished)
                if np.all(result.finished):
                    break
        finally:
            pool.close()
        return result.known()


def env_seeds(keys: Array, count: int) -> np.ndarray:
    """[S, count] seeds for simulators, non-negative and below 2³¹, from a key for each of S seeds."""
    bits = jax.vmap(lambda key: jax.random.bits(key, (count,), "uint32") >> 1)(keys)
    return np.asarray(bits).astype(np.int64)
