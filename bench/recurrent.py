"""The loop over time of a recurrent gradient step: how far to unroll it, and what the written-out gradient saves.

    python -m bench.recurrent --cell gru --steps 132 --batch 40 --size 512 --unroll 1 4 8 16 132

Prints one JSON row for each gradient and degree of unrolling: seconds to compile, milliseconds for a forward and
backward pass through one layer. The defaults are a minibatch of the SMAX preset; Craftax has `--cell lstm --steps 128
--batch 256`.
"""

from __future__ import annotations

import argparse
import json
import time
from unittest import mock

import jax
import jax.numpy as jnp

from bench.timing import seconds
from pqn.device import compiler_options, enable_compilation_cache
from pqn.networks import memory


def measure(cell: str, steps: int, batch: int, size: int, unroll: int, train: bool, seeds: int) -> dict[str, object]:
    """Times the gradient of one recurrent layer through `steps` steps."""
    module = memory.CELLS[cell](size)
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (seeds, steps, batch, size))
    first = jax.random.bernoulli(keys[1], 0.01, (steps, batch))
    carry = module.initial_carry(size, batch)
    params = jax.vmap(lambda key: module.init(key, carry, x[0], first))(jax.random.split(keys[2], seeds))

    def loss(params, x):
        return jnp.sum(jnp.square(module.apply(params, carry, x, first, train)[1]))

    with mock.patch.object(memory, "unroll", lambda _: unroll):
        began = time.perf_counter()
        gradient = jax.vmap(jax.grad(loss, argnums=(0, 1))) if seeds > 1 else jax.grad(loss, argnums=(0, 1))
        given = (params, x) if seeds > 1 else jax.tree.map(lambda leaf: leaf[0], (params, x))
        compiled = jax.jit(gradient).lower(*given).compile(compiler_options())
        compile_s = time.perf_counter() - began
    return {
        "cell": cell,
        "steps": steps,
        "batch": batch,
        "size": size,
        "seeds": seeds,
        "gradient": "written out" if train else "of the loop",
        "unroll": unroll,
        "device": jax.devices()[0].device_kind,
        "compile_s": round(compile_s, 1),
        "ms": round(1e3 * seconds(compiled, *given), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", choices=sorted(memory.CELLS), default="gru")
    parser.add_argument("--steps", type=int, default=132)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--unroll", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    enable_compilation_cache()
    for seeds in given.seeds:
        for train in (False, True):
            for unroll in given.unroll:
                row = measure(given.cell, given.steps, given.batch, given.size, unroll, train, seeds)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
