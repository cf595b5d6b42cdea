"""What optimistic resets buy: Craftax alone, under random actions, for several reset ratios.

    python -m bench.craftax --env Craftax-Symbolic-v1 --num-envs 1024 --ratios 1 16 --every 1 --steps 96
    python -m bench.craftax --env Craftax-Symbolic-v1 --num-envs 1024 --ratios 32 64 --every 16 --steps 96
    python -m bench.craftax --env Craftax-Symbolic-v1 --state   # the bytes of one environment's state; compiles nothing

Prints one JSON row for each number of environments, ratio and number of steps that a pool lasts: seconds to compile,
microseconds per vector step, steps per second, and how crowded the pool of new worlds was. Random actions end an
episode of Classic after some 140 steps, sooner than a trained agent does, so the crowding here is near its worst.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bench.timing import seconds
from pqn.device import compiler_options, enable_compilation_cache
from pqn.envs import registry
from pqn.envs.contract import JaxEnv
from pqn.envs.pooled import PooledReset
from pqn.types import Array


class Case(NamedTuple):
    """One row to be, compiled."""

    env: JaxEnv
    state: Any
    run: Callable[..., Any]
    compile_s: float


def prepare(name: str, num_envs: int, ratio: int, every: int, steps: int) -> Case:
    """Compiles `steps` vector steps."""
    env = registry.make(name, num_envs, reset_ratio=ratio, reset_every=every)

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
    compiled = jax.jit(run).lower(state, jax.random.key(1)).compile(compiler_options(env))
    return Case(env, state, compiled, time.perf_counter() - began)


def measure(case: Case, steps: int) -> dict[str, Any]:
    """Times the steps after as many that spread the environments over their episodes."""
    env = case.env
    (state, _), _ = case.run(case.state, jax.random.key(1))
    _, ended = case.run(state, jax.random.key(2))
    ended = np.asarray(ended)
    elapsed = seconds(case.run, state, jax.random.key(2))
    pooled = isinstance(env, PooledReset)
    ratio, every, pool = (env.ratio, env.every, env.pool_size) if pooled else (1, 1, env.num_envs)
    per_pool = ended[: len(ended) // every * every].reshape(-1, every).sum(axis=1)
    return {
        "env": env.spec.name,
        "num_envs": env.num_envs,
        "reset_ratio": ratio,
        "reset_every": every,
        "device": jax.devices()[0].device_kind,
        "compile_s": round(case.compile_s, 1),
        "us_per_step": round(1e6 * elapsed / steps, 1),
        "steps_per_second": round(steps * env.num_envs / elapsed),
        "pool": pool,
        "ended_per_step": round(float(ended.mean()), 3),
        "shared_fraction": round(float(np.maximum(per_pool - pool, 0).sum() / max(per_pool.sum(), 1)), 4),
    }


def state_bytes(name: str, most: int = 6) -> dict[str, Any]:
    """Bytes of one environment's state, which every step reads, every reset selects and every loop carries on."""
    state, timestep = jax.eval_shape(registry.make(name, 1).reset, jax.random.key(0))
    sizes, kinds = {}, {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state.inner):
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        size = leaf.size * (8 if is_key else leaf.dtype.itemsize)  # a key is two words
        sizes[jax.tree_util.keystr(path).strip(".")] = size
        kinds[str(leaf.dtype)] = kinds.get(str(leaf.dtype), 0) + size
    largest = dict(sorted(sizes.items(), key=lambda item: -item[1])[:most])
    observation = timestep.obs.size * timestep.obs.dtype.itemsize
    return {
        "env": name,
        "arrays": len(sizes),
        "bytes": sum(sizes.values()),
        "bytes_by_type": kinds,
        "largest": largest,
        "observation_bytes": observation,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Craftax-Classic-Symbolic-v1")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64])
    parser.add_argument("--ratios", type=int, nargs="+", default=[1, 8, 16, 32, 64])
    parser.add_argument("--every", type=int, nargs="+", default=[16])
    parser.add_argument("--steps", type=int, default=96, help="a multiple of the longest --every")
    parser.add_argument("--jobs", type=int, default=1, help="compilations side by side; each then takes longer")
    parser.add_argument("--state", action="store_true", help="print the bytes of one environment's state, and no times")
    given = parser.parse_args()
    if given.state:
        print(json.dumps(state_bytes(given.env)))
        return
    enable_compilation_cache()
    choices = list(itertools.product(given.num_envs, given.ratios, given.every))
    # A minute each, nearly all of it compiling: side by side where there are cores.
    with ThreadPoolExecutor(given.jobs) as pool:
        cases = list(pool.map(lambda choice: prepare(given.env, *choice, given.steps), choices))
    for case in cases:
        print(json.dumps(measure(case, given.steps)), flush=True)


if __name__ == "__main__":
    main()
