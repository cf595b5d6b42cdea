"""Evaluation: the first full episode of each environment, greedy unless told otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn import rollout
from pqn.config import Config
from pqn.envs.base import HostEnv, JaxEnv
from pqn.errors import EnvFailed
from pqn.exploration import epsilon_greedy
from pqn.learner import Learner, LearnerState
from pqn.types import Array, EnvSpec

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
        hide = lambda x: xp.where(self.finished, x, xp.nan)  # noqa: E731
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


def means(values: Any) -> np.ndarray:
    """Means [S] over the episodes [S, E] that ended, the others being NaN; NaN where none did."""
    values = np.asarray(values, np.float64)
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.divide(total, known.sum(axis=-1), out=np.full(total.shape, np.nan), where=known.any(axis=-1))


def mean(values: Any) -> float | None:
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
    env: JaxEnv, learner: Learner, state: LearnerState, key: Array, epsilon: Array | float, max_steps: int
) -> Evaluation:
    """Plays one episode in each environment. Episodes that end early wait, frozen, for the longest one."""
    reset_key, explore_key = jax.random.split(key)
    stream = rollout.start(env, learner, reset_key)
    blank = rollout.none_finished(env, stream)
    zeros = jnp.zeros(env.num_envs)
    result = Evaluation(zeros, zeros, jnp.zeros(env.num_envs, bool), blank.info)

    def step(c: tuple, t: Array) -> tuple[tuple, None]:
        stream, result = c
        carry, q = learner.q_values(state, stream.carry, stream.inputs)
        uniform = jax.random.uniform(jax.random.fold_in(explore_key, t), q.shape[:2])
        action = epsilon_greedy(uniform, q, stream.avail, epsilon)
        env_state, timestep = env.step(stream.env, action)
        result = score(result, timestep, ~result.finished & (t < max_steps))
        inputs = rollout.observe(learner, timestep, action)
        stream = stream._replace(env=env_state, inputs=inputs, avail=timestep.avail, carry=carry)
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


def score(result: Evaluation, timestep: rollout.TimeStep, playing: Array) -> Evaluation:
    """Adds a step to the episodes that are `playing`; of numpy or of jax arrays."""
    xp = result.ret.__array_namespace__()
    ended = playing & timestep.over
    ret = result.ret + xp.where(playing, timestep.reward, 0.0)
    if "return" in timestep.info:
        ret = xp.where(ended, timestep.info["return"], ret)
    length = result.length + (playing if timestep.valid is None else playing & timestep.valid)
    info = {name: xp.where(ended, value, result.info[name]) for name, value in timestep.info.items()}
    return Evaluation(ret, length, result.finished | ended, info)


def histogram(returns: np.ndarray, most: int = 32) -> dict[str, int] | None:
    """How often each return came, where they are whole numbers and few, such as the scores of a card game.

    Episodes that did not end (NaN) are left out.

    >>> histogram(np.array([[0.0, 24.0], [25.0, 24.0]]))
    {'0': 1, '24': 2, '25': 1}
    """
    returns = np.asarray(returns)
    values, counts = np.unique(returns[~np.isnan(returns)], return_counts=True)
    if not len(values) or len(values) > most or not np.all(values == np.round(values)):
        return None
    return {f"{value:.0f}": int(count) for value, count in zip(values, counts, strict=True)}


def evaluate_run(
    run: str | os.PathLike[str],
    episodes: int,
    epsilon: float = 0.0,
    seed: int = 0,
    *,
    env: Any = None,
    warn: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Plays all agents of a run's newest intact checkpoint.

    Args:
      run: a run directory.
      episodes: how many for each seed.
      epsilon: exploration.
      seed: of the episodes.
      env: where to play, if not in the environment that the run records by name: that of a run which was trained in one
        of your own, or any other that the network fits; see `pqn.train`.
      warn: told what the user should know, in a sentence; by default a Python warning.

    Returns:
      A report: env, step, seeds, episodes, returns [S][episodes], return_mean and return_std [S], mean, quartiles
      (lowest and highest included), histogram, unfinished, max_steps and the means of the environment's own infos.
      Episodes that did not end within max_steps have NaN for a return and are in no other number but `unfinished`;
      where none ended, quartiles and means are None or NaN.

    Raises:
      PqnError: with a sentence for the user: not a run, no intact checkpoint, or not an environment for its agents.
      EnvFailed: the environment failed, or gave a reward that is no number.
    """
    from pqn.device import enable_compilation_cache
    from pqn.envs.check import check_quickly, is_ours
    from pqn.opened import open_run

    enable_compilation_cache()
    opened = open_run(run, warn)
    make_env: Any = opened.source(env, "eval")
    trained = opened.newest()
    config, step, (learner, stacked) = trained.config, trained.step, trained.learner()
    env = make_env(episodes)
    opened.compare(trained, make_env, env.spec, exact=False)
    if not is_ours(env):
        check_quickly(env)
    limit = step_limit(config, env.spec)
    keys = jax.random.split(jax.random.key(seed), config.seeds)
    if isinstance(env, HostEnv):
        from pqn.host.greedy import Player

        env.close()
        result: Any = Player(learner, config.seeds, epsilon).play(make_env, stacked, keys, episodes, limit)
    else:
        play = jax.jit(jax.vmap(lambda state, key: evaluate(env, learner, state, key, epsilon, limit)))
        result = jax.device_get(play(stacked, keys))
    returns = result.check(config.env.name, config.seed).ret
    known = returns[~np.isnan(returns)]
    return {
        "env": make_env.name,
        "step": step,
        "seeds": list(range(config.seed, config.seed + config.seeds)),
        "episodes": episodes,
        "returns": returns,
        "return_mean": means(returns),
        "return_std": np.sqrt(means((returns - means(returns)[:, None]) ** 2)),
        "mean": mean(returns),
        "quartiles": np.quantile(known, [0.0, 0.25, 0.5, 0.75, 1.0]) if known.size else None,
        "histogram": histogram(returns),
        "unfinished": int(result.unfinished.sum()),
        "max_steps": limit,
        "info": {name: mean(value) for name, value in result.info.items()},
    }
