"""Evaluation: the first full episode of each environment, greedy unless told otherwise."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from pqn.algorithms.base import Actor
from pqn.config import Config
from pqn.envs.contract import JaxEnv
from pqn.errors import EnvFailed
from pqn.programs import rollout
from pqn.types import Array, Draw, EnvSpec, Policy, TimeStep

STEPS_BETWEEN_CHECKS = 16  # asking "have all finished?" stalls an accelerator, so it is asked once in a while


class Evaluation(NamedTuple):
    """One number per environment: its first episode. An episode that did not end has no return, but it is counted."""

    ret: Array  # [..., E]
    length: Array  # [..., E]
    finished: Array  # [..., E] bool; false where the step limit came first
    info: dict[str, Array]  # name -> [..., E]

    def known(self) -> Evaluation:
        """NaN instead of every number of an episode that did not end: what it had so far is not what it would get."""
        xp = self.ret.__array_namespace__()

        def hide(x: Array) -> Array:
            return xp.where(self.finished, x, xp.nan)

        return Evaluation(
            hide(self.ret), hide(self.length), self.finished, {name: hide(value) for name, value in self.info.items()}
        )

    @property
    def unfinished(self) -> np.ndarray:
        """[S] how many of a seed's episodes did not end."""
        return np.sum(~np.asarray(self.finished), axis=-1)

    def check(self, name: str, first_seed: int) -> Evaluation:
        """Itself, of environments called `name` and seeds that start at `first_seed`.

        Raises:
          EnvFailed: an episode that ended has a return that is no number.
        """
        sick = np.asarray(self.finished) & ~np.isfinite(self.ret)
        if sick.any():
            seed = first_seed + int(np.argwhere(sick)[0][0])
            raise EnvFailed(f"seed {seed}: {name} gave a NaN or infinite reward in an evaluation")
        return self


def means(values: ArrayLike) -> np.ndarray:
    """Means [S] over the episodes [S, E] that ended, the others being NaN; NaN where none did."""
    values = np.asarray(values, np.float64)
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.divide(total, known.sum(axis=-1), out=np.full(total.shape, np.nan), where=known.any(axis=-1))


def mean(values: ArrayLike) -> float | None:
    """Mean over the seeds of their `means`; None where no episode of any seed ended."""
    known = means(values)
    known = known[~np.isnan(known)]
    return float(known.mean()) if known.size else None


def say_unfinished(unfinished: int, episodes: int, max_steps: int | None = None) -> str:
    """`3 of 64 episodes unfinished after 500 steps`."""
    after = "" if max_steps is None else f" after {max_steps} steps"
    return f"{unfinished} of {episodes} episodes unfinished{after}"


def step_limit(config: Config, spec: EnvSpec) -> int:
    """How many steps an evaluation may take."""
    return config.eval.max_steps or spec.max_episode_steps or 10_000


def evaluate(
    env: JaxEnv, actor: Actor, policy: Policy, key: Array, epsilon: Array | float, max_steps: int
) -> Evaluation:
    """Plays one episode in each environment. Episodes that end early wait, frozen, for the longest one."""
    reset_key, explore_key = jax.random.split(key)
    stream = rollout.start(env, actor, reset_key)
    blank = rollout.none_finished(env, stream)
    zeros = jnp.zeros(env.num_envs)
    result = Evaluation(zeros, zeros, jnp.zeros(env.num_envs, bool), blank.info)

    def step(c: tuple, t: Array) -> tuple[tuple, None]:
        stream, result = c
        uniform = jax.random.uniform(jax.random.fold_in(explore_key, t), stream.inputs.first.shape)
        carry, action, _ = actor.act(policy, stream.carry, stream.seen, Draw(uniform, epsilon))
        env_state, timestep = env.step(stream.env, action)
        result = score(result, timestep, ~result.finished & (t < max_steps))
        seen = rollout.observe(actor, timestep, action)
        stream = stream._replace(env=env_state, **seen._asdict(), carry=carry)
        return (stream, result), None

    def unfinished(c: tuple) -> Array:
        t, (_, result) = c
        return (t < max_steps) & ~jnp.all(result.finished)

    def block(c: tuple) -> tuple:
        t, inner = c
        inner, _ = jax.lax.scan(step, inner, t + jnp.arange(STEPS_BETWEEN_CHECKS))
        return t + STEPS_BETWEEN_CHECKS, inner

    _, (_, result) = jax.lax.while_loop(unfinished, block, (jnp.int32(0), (stream, result)))
    return result.known()


def score(result: Evaluation, timestep: TimeStep, playing: Array) -> Evaluation:
    """Adds a step to the episodes that are `playing`; of numpy or of jax arrays."""
    xp = result.ret.__array_namespace__()
    ended = playing & timestep.over
    ret = result.ret + xp.where(playing, timestep.reward, 0.0)
    if "return" in timestep.info:
        ret = xp.where(ended, timestep.info["return"], ret)
    length = result.length + (playing if timestep.valid is None else playing & timestep.valid)
    info = {name: xp.where(ended, value, result.info[name]) for name, value in timestep.info.items()}
    return Evaluation(ret, length, result.finished | ended, info)
