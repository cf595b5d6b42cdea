"""The same policies, counted in two ways: the first episode of each environment, and every episode that ends in time.

    pqn train acrobot-paper --seeds 10 --out runs/acrobot
    python -m bench.counting runs/acrobot [--num-envs 128] [--steps 500] [--seed 0] [--out FILE]

We report the first full episode of each environment. The public code plays as many steps as the longest episode may
have, and takes the mean over all episodes that end meanwhile. There, short episodes are counted several times in the
time in which a long one is counted once, and an episode that has begun late and is long is not counted at all. In
Acrobot short episodes are the good ones, so the same policy gets a better score.

Both numbers come from one play of each policy, so that they differ in nothing but the counting. Prints a JSON object:
the mean of each seed both ways, and the mean over seeds of each with its 95 % interval (Student's t).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from pqn.algorithms.base import Actor
from pqn.envs.contract import JaxEnv
from pqn.programs import rollout
from pqn.programs.evaluation import step_limit
from pqn.runs.opened import open_run
from pqn.types import Array, Draw, Policy


def play(env: JaxEnv, actor: Actor, policy: Policy, key: Array, steps: int) -> tuple[Array, Array]:
    """Returns [steps, N] where an episode ended, of greedy play, and whether one did."""
    reset_key, explore_key = jax.random.split(key)

    def step(c: tuple, t: Array) -> tuple[tuple, tuple[Array, Array]]:
        stream, so_far = c
        uniform = jax.random.uniform(jax.random.fold_in(explore_key, t), stream.inputs.first.shape)
        carry, action, _ = actor.act(policy, stream.carry, stream.seen, Draw(uniform, 0.0))
        env_state, timestep = env.step(stream.env, action)
        so_far = so_far + timestep.reward
        seen = rollout.observe(actor, timestep, action)
        stream = stream._replace(env=env_state, **seen._asdict(), carry=carry)
        ret = {"return": so_far} | timestep.info
        return (stream, jnp.where(timestep.over, 0.0, so_far)), (ret["return"], timestep.over)

    start = (rollout.start(env, actor, reset_key), jnp.zeros(env.num_envs))
    return jax.lax.scan(step, start, jnp.arange(steps))[1]


def count(returns: np.ndarray, ended: np.ndarray) -> dict[str, float | int]:
    """Of one seed, [steps, N]: the mean over first episodes, and over all that ended.

    >>> returns, ended = np.array([[-1.0, 0], [-1, -2], [-1, 0]]), np.array([[1, 0], [1, 1], [1, 0]], bool)
    >>> count(returns, ended)
    {'first': -1.5, 'all': -1.25, 'first_episodes': 2, 'all_episodes': 4}
    """
    reached = ended.any(axis=0)
    first = returns[ended.argmax(axis=0), np.arange(ended.shape[1])][reached]
    episodes = returns[ended]
    return {
        "first": float(first.mean()),
        "all": float(episodes.mean()),
        "first_episodes": int(reached.sum()),
        "all_episodes": int(ended.sum()),
    }


def interval(values: list[float]) -> dict[str, float]:
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    half = float(student.ppf(0.975, len(values) - 1)) * error
    return {"mean": mean, "low": mean - half, "high": mean + half}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--steps", type=int, default=0, help="of each environment; 0: the longest an episode may have")
    parser.add_argument("--seed", type=int, default=0, help="of the episodes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    opened = open_run(given.run)
    trained = opened.trained("last")
    actor, policies = opened.actor(trained, None, "eval")
    env = opened.source(None, "eval")(given.num_envs)
    assert isinstance(env, JaxEnv), "simulators are not counted here"
    steps = given.steps or step_limit(actor.config, env.spec)
    keys = jax.random.split(jax.random.key(given.seed), trained.config.seeds)
    over_seeds = jax.jit(jax.vmap(lambda policy, key: play(env, actor, policy, key, steps)))
    returns, ended = map(np.asarray, over_seeds(policies, keys))
    seeds = [count(*one) for one in zip(returns, ended, strict=True)]
    result = {
        "command": f"python -m bench.counting RUN --num-envs {given.num_envs} --steps {steps} --seed {given.seed}",
        "preset": trained.config.preset,
        "trained_steps": trained.step,
        "seeds": seeds,
        "first": interval([float(seed["first"]) for seed in seeds]),
        "all": interval([float(seed["all"]) for seed in seeds]),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
