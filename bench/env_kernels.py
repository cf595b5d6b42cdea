"""What a step of an environment costs a GPU: its kernels and the bytes they move, counted without one.

    pip install 'jax-cuda13-plugin[with-cuda]'       # the version of the installed jax; no driver is needed
    python -m bench.env_kernels Craftax-Symbolic-v1 --num-envs 1024
    python -m bench.env_kernels Breakout-MinAtar Asterix-MinAtar smax:2s3z overcooked:cramped_room hanabi:2

Compiles steps under random actions for an H200 (see `bench.kernels`), and prints a JSON row for each environment. A
kernel takes about two microseconds, however little it does; memory delivers 4.8 TB/s. `least_us` is the sum of both: an
estimate, not a measurement, of how long a step takes. Bytes are those of operands and results. Of an operand that a
kernel only takes slices of, the slices count. What is behind a condition, such as new worlds in Craftax, is left out.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

from bench.kernels import FREE, compile_for_gpu, computations, counted_loops, loops
from pqn.device import compiler_options
from pqn.envs import registry

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8}
_SLICES = {"dynamic-slice", "gather", "slice"}
_UPDATES = {"dynamic-update-slice", "scatter"}
KERNEL_US, BYTES_PER_US = 2.0, 4.8e6


def size(shape: str) -> int:
    """Bytes of a shape, or of all shapes of a tuple."""
    total = 0
    for kind, lengths in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        count = 1
        for length in filter(None, lengths.split(",")):
            count *= int(length)
        total += count * _BYTES.get(kind, 4)
    return total


def parsed(line: str) -> tuple[str, str, str, str] | None:
    """Name, shape, operation and the rest of an instruction."""
    found = re.search(r"(%[\w.\-]+) = (.*?) ([\w\-]+)\((.*)", line)
    return None if found is None else (found[1], found[2], found[3], found[4])


def operands(rest: str) -> list[str]:
    return re.findall(r"%[\w.\-]+", rest.split("), ")[0])


def fused(instructions: list[str], result: int) -> int:
    """Bytes that a fusion moves: what is updated in place is neither read nor written as a whole."""
    sizes: dict[str, int] = {}
    uses: dict[str, list[tuple[str, int]]] = {}
    same: dict[str, str] = {}  # a bitcast -> the parameter it is of
    for name, shape, operation, rest in filter(None, map(parsed, instructions)):
        if operation == "parameter":
            sizes[name], uses[name] = size(shape), []
            continue
        for place, operand in enumerate(same.get(one, one) for one in operands(rest)):
            if operand in uses and operation == "bitcast":
                same[name] = operand
            elif operand in uses:
                # The first operand of an update is what is updated, the others are read.
                what = "read" if operation in _UPDATES and place else operation
                uses[operand].append((what, size(shape)))
    moved = result
    for name, used in uses.items():
        kinds = {operation for operation, _ in used}
        if kinds and kinds <= _SLICES:
            moved += min(sizes[name], sum(taken for _, taken in used))
        elif kinds and kinds <= _UPDATES:
            moved -= min(moved, sizes[name])
        else:
            moved += sizes[name]
    return moved


def traffic(found: dict[str, list[str]], body: str) -> tuple[int, int]:
    """Kernels of a computation, those of its loops included, and the bytes they move."""
    kernels, moved = 0, 0
    sizes: dict[str, int] = {}
    for name, shape, operation, rest in filter(None, map(parsed, found[body])):
        sizes[name] = size(shape)
        if operation in FREE or operation == "conditional":
            continue
        kernels += 1
        called = re.search(r"calls=%?([\w.\-]+)", rest)
        if called and called[1] in found:
            moved += fused(found[called[1]], sizes[name])
        else:
            moved += sizes[name] + sum(sizes.get(one, 0) for one in operands(rest))
    for inner, times in counted_loops(found[body]):
        count, more = traffic(found, inner)
        kernels, moved = kernels + times * count, moved + times * more
    return kernels, moved


def measure(name: str, num_envs: int) -> dict[str, Any]:
    env = registry.make(name, num_envs)

    def run(state: Any, key: jax.Array, steps: jax.Array) -> Any:
        def step(carry: Any) -> Any:
            done, state, key, total = carry
            key, now = jax.random.split(key)
            action = jax.random.randint(now, (env.num_envs, env.spec.num_agents), 0, env.spec.num_actions)
            state, timestep = env.step(state, action)
            # The sum keeps the observations alive: a result that nobody reads would not be computed.
            return done + 1, state, key, total + jnp.sum(timestep.obs) + jnp.sum(timestep.reward)

        return jax.lax.while_loop(lambda carry: carry[0] < steps, step, (0, state, key, jnp.float32(0)))

    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    given = jax.eval_shape(lambda: (state_like(state), jax.random.key(0), jnp.int32(1)))
    compiled, seconds = compile_for_gpu(run, given, compiler_options(env) or {}, donate_argnums=0)
    found, entry = computations(compiled.as_text())
    ((body, _),) = loops(found[entry])
    kernels, moved = traffic(found, body)
    return {
        "env": name,
        "num_envs": num_envs,
        "kernels_per_step": kernels,
        "mb_per_step": round(moved / 1e6, 1),
        "least_us": round(kernels * KERNEL_US + moved / BYTES_PER_US),
        "compile_s": seconds,
    }


def state_like(state: Any) -> Any:
    """Arrays of these shapes, which are never made."""

    def one(leaf: Any) -> jax.Array:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jnp.broadcast_to(jax.random.key(0), leaf.shape)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(one, state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="+")
    parser.add_argument("--num-envs", type=int, default=128)
    given = parser.parse_args()
    # What is laid out differently for accelerators asks for this; the arrays themselves stay abstract.
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        for name in given.envs:
            print(json.dumps(measure(name, given.num_envs)), flush=True)


if __name__ == "__main__":
    main()
