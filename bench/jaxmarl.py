"""How fast the JaxMARL environments step alone, under random legal actions.

    python -m bench.jaxmarl --env smax:2s3z overcooked:cramped_room hanabi:2 --num-envs 128 1024 --steps 200

Prints one JSON row for each environment and number of copies: seconds to compile, microseconds per vector step, and
environment steps per second (one step moves all agents).
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
from pqn.exploration import epsilon_greedy
from pqn.types import Array


def measure(name: str, num_envs: int, steps: int) -> dict[str, Any]:
    """Times `steps` vector steps after as many that spread the environments over their episodes."""
    env = registry.make(name, num_envs)
    no_preference = jnp.zeros((num_envs, env.spec.num_agents, env.spec.num_actions))

    def run(state: Any, avail: Array | None, key: Array) -> tuple[Any, Array | None, Array, Array]:
        def step(carry: tuple, uniform: Array) -> tuple[tuple, tuple[Array, Array]]:
            state, avail = carry
            state, timestep = env.step(state, epsilon_greedy(uniform, no_preference, avail, 1.0))
            # The sum keeps the observations alive: a result that nobody reads would not be computed.
            seen = jnp.sum(timestep.obs, dtype=jnp.float32) + jnp.sum(timestep.reward)
            return (state, timestep.avail), (jnp.sum(timestep.first[:, 0]), seen)

        uniform = jax.random.uniform(key, (steps, num_envs, env.spec.num_agents))
        (state, avail), (ended, seen) = jax.lax.scan(step, (state, avail), uniform)
        return state, avail, ended, seen

    state, timestep = jax.jit(env.reset)(jax.random.key(0))
    began = time.perf_counter()
    compiled = jax.jit(run).lower(state, timestep.avail, jax.random.key(1)).compile(compiler_options(env))
    compile_s = time.perf_counter() - began
    state, avail, ended, _ = compiled(state, timestep.avail, jax.random.key(1))
    elapsed = seconds(compiled, state, avail, jax.random.key(2))
    return {
        "env": name,
        "num_envs": num_envs,
        "num_agents": env.spec.num_agents,
        "device": jax.devices()[0].device_kind,
        "compile_s": round(compile_s, 1),
        "us_per_step": round(1e6 * elapsed / steps, 1),
        "steps_per_second": round(steps * num_envs / elapsed),
        "ended_per_step": round(float(np.mean(ended)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", default=["smax:3m", "overcooked:cramped_room", "hanabi:2"])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64])
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    enable_compilation_cache()
    for name in given.env:
        for num_envs in given.num_envs:
            print(json.dumps(measure(name, num_envs, given.steps)), flush=True)


if __name__ == "__main__":
    main()
