"""What optimistic resets buy: Craftax alone, under random actions, for several reset ratios.

    python -m bench.craftax --env Craftax-Symbolic-v1 --num-envs 1024 --ratios 1 8 16 32 64 --steps 100

Prints one JSON row for each number of environments and ratio: seconds to compile, microseconds per vector step, steps
per second, and how crowded the pool of new worlds was. Random actions end an episode of Classic after some 140 steps,
sooner than a trained agent does, so the crowding here is near its worst.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.timing import seconds
from pqn.device import compiler_options, enable_compilation_cache
from pqn.envs import registry
from pqn.types import Array


def measure(name: str, num_envs: int, ratio: int, steps: int) -> dict[str, Any]:
    """Times `steps` vector steps after as many that spread the environments over their episodes."""
    env = registry.make(name, num_envs, reset_ratio=ratio)

    def run(state: Any, key: Array) -> tuple[Any, Array]:
        def step(state: Any, key: Array) -> tuple[Any, tuple[Array, Array]]:
            action = jax.random.randint(key, (env.num_envs, env.spec.num_agents), 0, env.spec.num_actions)
            state, timestep = env.step(state, action)
            # The sum keeps the observations alive: a result that nobody reads would not be computed.
            return state, (jnp.sum(timestep.first), jnp.sum(timestep.obs) + jnp.sum(timestep.reward))

        state, (ended, total) = jax.lax.scan(step, state, jax.random.split(key, steps))
        return (state, total), ended

    state, _ = jax.jit(env.reset)(jax.random.key(0))
    began = time.perf_counter()
    compiled = jax.jit(run).lower(state, jax.random.key(1)).compile(compiler_options())
    compile_s = time.perf_counter() - began
    (state, _), _ = compiled(state, jax.random.key(1))
    _, ended = compiled(state, jax.random.key(2))
    ended = np.asarray(ended)
    elapsed = seconds(compiled, state, jax.random.key(2))
    pool = getattr(env, "pool_size", num_envs)
    return {
        "env": name,
        "num_envs": num_envs,
        "reset_ratio": ratio,
        "device": jax.devices()[0].device_kind,
        "compile_s": round(compile_s, 1),
        "us_per_step": round(1e6 * elapsed / steps, 1),
        "steps_per_second": round(steps * num_envs / elapsed),
        "pool": pool,
        "ended_per_step": round(float(ended.mean()), 3),
        "shared_fraction": round(float(np.maximum(ended - pool, 0).sum() / max(ended.sum(), 1)), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Craftax-Classic-Symbolic-v1")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64])
    parser.add_argument("--ratios", type=int, nargs="+", default=[1, 8, 16, 32, 64])
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    enable_compilation_cache()
    for num_envs in given.num_envs:
        for ratio in given.ratios:
            print(json.dumps(measure(given.env, num_envs, ratio, given.steps)), flush=True)


if __name__ == "__main__":
    main()
