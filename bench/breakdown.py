"""Where the time of an update goes: environment alone, collecting, learning.

    python -m bench.breakdown minatar-breakout --seeds 1 10

Prints, for each number of seeds, microseconds per vector step of the environment under random actions, per vector step
of collecting, and per gradient step of learning, and the steps per second of whole updates.

Two revisions are compared in one call on one machine, in turn, so that both see the same clock and the same load. Each
runs its own copy of this file with its own copy of the package:

    mkdir -p .scratch/old && git archive REVISION src bench | tar x -C .scratch/old
    for round in 1 2; do for tree in . .scratch/old; do
      (cd $tree && PYTHONPATH=src:. python -m bench.breakdown cartpole minatar-breakout | sed "s|^|$tree |")
    done; done

Compare the best of the rounds. PYTHONPATH comes before an installed `pqn`. The folder `.scratch` is not under version
control: where another machine gets a copy of the working tree, it must be copied there too.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp

from bench.programs import program_of
from bench.timing import seconds
from pqn.device import compiler_options
from pqn.loops import repeated
from pqn.programs import rollout
from pqn.types import Array


def breakdown(name: str, seeds: int, updates: int = 20, jobs: int = 4) -> dict[str, float]:
    """Times the parts of `updates` updates of a preset, compiling `jobs` of them at once."""
    program = program_of(name, seeds)
    config, env, learner, hyper = program.config, program.env, program.algorithm, program.hyper
    steps, gradient_steps = config.learner.rollout_steps, config.learner.epochs * config.learner.minibatches
    state = jax.jit(jax.vmap(program.init_one))(program.seeds)

    def random_steps(env_state, key: Array):
        def step(c, key):
            action = jax.random.randint(key, (env.num_envs, env.spec.num_agents), 0, env.spec.num_actions)
            c, timestep = env.step(c, action)
            return c, jnp.sum(timestep.reward)

        return jax.lax.scan(step, env_state, jax.random.split(key, updates * steps))[1].sum()

    def collect(state):
        def body(_, c):
            stream, total = c
            stream, data, _ = rollout.collect(env, learner, state.learner, stream, state.key, hyper)
            return stream, total + jnp.sum(data.reward)

        return jax.lax.fori_loop(0, updates, body, (state.stream, 0.0))[1]

    def learn(state):
        _, data, _ = rollout.collect(env, learner, state.learner, state.stream, state.key, hyper)
        with repeated(program.planned_updates, program.doubled):  # laid out as in a run of the preset's length
            return jax.lax.fori_loop(
                0, updates, lambda _, c: learner.update(c, data, state.key, hyper)[0], state.learner
            )

    parts = [
        (program.over_seeds(random_steps), state.stream.env, state.key),
        (program.over_seeds(collect), state),
        (program.over_seeds(learn), state),
        (lambda state: program._chunk(state, hyper, jnp.int32(updates)), state),
    ]
    with ThreadPoolExecutor(jobs) as pool:
        options = compiler_options(env, program.doubled)
        compiled = list(pool.map(lambda part: jax.jit(part[0]).lower(*part[1:]).compile(options), parts))
    times = [seconds(run, *part[1:]) for run, part in zip(compiled, parts, strict=True)]
    env_only, collecting, learning, total = times
    vector_steps = updates * steps
    return {
        "seeds": seeds,
        "env_us_per_step": 1e6 * env_only / vector_steps,
        "collect_us_per_step": 1e6 * collecting / vector_steps,
        "learn_us_per_gradient_step": 1e6 * learning / (updates * gradient_steps),
        "update_ms": 1e3 * total / updates,
        "steps_per_second": vector_steps * env.num_envs * seeds / total,
        "env_only_steps_per_second": vector_steps * env.num_envs * seeds / env_only,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--updates", type=int, default=20)
    # Craftax compiles for minutes; but XLA tries out kernels on arrays of the real size while it compiles for a GPU.
    parser.add_argument("--jobs", type=int, default=4, help="compilations side by side; fewer need less memory")
    given = parser.parse_args()
    for name in given.presets:
        for seeds in given.seeds:
            row = breakdown(name, seeds, given.updates, given.jobs)
            print(json.dumps({"preset": name, "device": jax.devices()[0].device_kind} | row), flush=True)


if __name__ == "__main__":
    main()
