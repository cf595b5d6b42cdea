"""Steps per second compared with rejax's PQN, at the paper's CartPole configuration, in one run on one machine.

    python -m bench.rejax_ratio

Installs rejax from PyPI into a virtual environment of its own (it needs an older gymnax than ours), then lets the two
take turns, each in its own process, and prints both speeds and their ratio. Compilation is left out on both sides, and
neither evaluates. rejax's version uses Adam with element-wise clipping where ours uses RAdam with a global norm; that
is as close as its options allow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

STEPS = 50 * 2048  # per timed repeat: 50 updates of 32 environments × 64 steps
REPEATS = 3

THEIRS = f"""
import time, jax
from flax import linen as nn
from rejax import PQN
from rejax.networks import DiscreteQNetwork, EpsilonGreedyPolicy
algo = PQN.create(
    env="CartPole-v1", num_envs=32, num_steps=64, num_minibatches=16, num_epochs=4, learning_rate=1e-4, gamma=0.99,
    td_lambda=0.95, max_grad_norm=10.0, eps_start=1.0, eps_end=0.2, exploration_fraction=0.2,
    total_timesteps={STEPS}, eval_freq={STEPS}, skip_initial_evaluation=True,
)
network = EpsilonGreedyPolicy(DiscreteQNetwork)(
    hidden_layer_sizes=(256, 256), action_dim=2, activation=lambda x: nn.relu(nn.LayerNorm()(x)))
algo = algo.replace(agent=network, eval_callback=lambda algo, state, rng: ())
train = jax.jit(algo.train)
key = jax.random.PRNGKey(0)
state, _ = jax.block_until_ready(train(key))
steps = int(state.global_step)
best = float("inf")
for _ in range({REPEATS}):
    began = time.perf_counter()
    jax.block_until_ready(train(key))
    best = min(best, time.perf_counter() - began)
print(steps / best)
"""

OURS = f"""
import time, jax
from pqn.envs import registry
from pqn.presets import preset
from pqn.programs.compiled import CompiledProgram
config = preset("cartpole-paper", {{"eval.count": 0}})
program = CompiledProgram(config, lambda n: registry.make(config.env.name, n))
program.compile()
count = {STEPS} // config.steps_per_update
best = float("inf")
for repeat in range({REPEATS} + 1):
    state = jax.block_until_ready(program.init())
    began = time.perf_counter()
    jax.block_until_ready(program.chunk(state, count))
    if repeat:
        best = min(best, time.perf_counter() - began)
print(count * config.steps_per_update / best)
"""


def prepare(folder: Path) -> Path:
    """A virtual environment with rejax in it; returns its interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        packages = ["rejax==0.1.3", "gymnax==0.0.9"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def measure(python: Path | str, code: str) -> float:
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"the benchmark failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", type=Path, default=Path(".venv-rejax"), help="where rejax is installed")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    python = prepare(given.venv)
    ours, theirs = [], []
    for _ in range(given.rounds):  # in turn, so that both meet the same load of the machine
        ours.append(measure(sys.executable, OURS))
        theirs.append(measure(python, THEIRS))
    row = {
        "ours": max(ours),
        "rejax": max(theirs),
        "ratio": max(ours) / max(theirs),
        "rounds": list(zip(ours, theirs, strict=True)),
    }
    print(json.dumps({"bench": "rejax_ratio", "unit": "steps/s"} | row))


if __name__ == "__main__":
    main()
