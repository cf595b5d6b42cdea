"""What the stability meter costs compared with a training update, on the network sizes PQN is used with.

    python -m bench.theory [--iterations 40] [--batch 256] [--networks small large]

One line per network: parameters, time to compile, time of one report, and the same in units of a gradient step
(forward and backward) on the same batch, which is what an option to log stability during training should quote.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp

from bench.timing import seconds
from pqn.theory.jacobian import Transitions, values
from pqn.theory.stability import make_meter


def mlp(key: jax.Array, sizes: tuple[int, ...]):
    """An MLP with LayerNorm and ReLU, its parameters and one random batch of observations."""
    keys = jax.random.split(key, len(sizes) - 1)
    params = {
        f"dense{i}": jax.random.normal(k, (rows, columns)) / jnp.sqrt(rows)
        for i, (k, rows, columns) in enumerate(zip(keys, sizes[:-1], sizes[1:], strict=True))
    }

    def q_fn(params, x):
        for i in range(len(sizes) - 2):
            x = x @ params[f"dense{i}"]
            x = jax.nn.relu((x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5))
        return x @ params[f"dense{len(sizes) - 2}"]

    return q_fn, params


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--networks", nargs="+", choices=("small", "large"), default=["small", "large"])
    options = parser.parse_args()
    networks = {"small": (4, 256, 256, 2), "large": (512, 1024, 1024, 17)}
    print(f"{jax.devices()[0].device_kind}, {options.iterations} Lanczos iterations, batch {options.batch}")
    for name in options.networks:
        sizes = networks[name]
        q_fn, params = mlp(jax.random.key(0), sizes)
        obs = jax.random.normal(jax.random.key(1), (2, options.batch, sizes[0]))
        ones = jnp.ones(options.batch)
        batch = Transitions(obs[0], jnp.zeros(options.batch, jnp.int32), ones, 0.99 * ones, obs[1])
        final = {leaf: leaf == f"dense{len(sizes) - 2}" for leaf in params}
        meter = make_meter(q_fn, final=final, iterations=options.iterations)
        stacked = jax.tree.map(lambda x: x[None], batch)
        began = time.perf_counter()
        jax.block_until_ready(meter(params, stacked, jnp.asarray([0.25, 0.01]), jax.random.key(2)))
        compiled = time.perf_counter() - began
        report = seconds(meter, params, stacked, jnp.asarray([0.25, 0.01]), jax.random.key(2))
        loss = jax.jit(jax.grad(lambda p, q_fn=q_fn, b=batch: jnp.mean(jnp.square(values(q_fn, p, b)[0] - 1.0))))
        step = seconds(loss, params)
        count = sum(leaf.size for leaf in params.values())
        print(
            f"{name:6s} {count:>9,d} parameters   compile {compiled:5.1f} s   report {report:7.3f} s"
            f"   = {report / step:6.0f} gradient steps"
        )


if __name__ == "__main__":
    main()
