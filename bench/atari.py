"""How fast the Atari emulators step alone, under random actions.

    python -m bench.atari --env pong breakout --num-envs 64 128 256 --threads 0 --steps 500
    python -m bench.atari --env pong --num-envs 128 --backend ale envpool

Prints one JSON row for each combination: microseconds per vector step, environment steps per second (four frames each)
and the share of the time that the caller spent waiting in `recv`, which is what a learner could do something else in.
`--threads 0` uses every core that the process may run on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from typing import Any

import numpy as np

from pqn.envs.adapters import atari


def measure(game: str, num_envs: int, threads: int, backend: str, steps: int) -> dict[str, Any]:
    """Times `steps` vector steps after as many that spread the environments over their games."""
    env = atari.make(game, num_envs, threads=threads, backend=backend)
    actions = np.random.default_rng(0).integers(0, env.spec.num_actions, (steps, num_envs, 1)).astype(np.int32)
    env.reset(np.arange(num_envs))
    for action in actions:
        env.send(action)
        env.recv()
    waited, began = 0.0, time.perf_counter()
    for action in actions:
        env.send(action)
        sent = time.perf_counter()
        env.recv()
        waited += time.perf_counter() - sent
    elapsed = time.perf_counter() - began
    env.close()
    return {
        "env": f"atari:{game}",
        "backend": backend,
        "num_envs": num_envs,
        "threads": threads or atari.usable_cores(),
        "us_per_step": round(1e6 * elapsed / steps, 1),
        "steps_per_second": round(steps * num_envs / elapsed),
        "waiting": round(waited / elapsed, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", default=["pong"], metavar="GAME")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--threads", type=int, nargs="+", default=[0])
    parser.add_argument("--backend", nargs="+", default=["ale"], choices=atari.BACKENDS)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    for combination in itertools.product(given.env, given.num_envs, given.threads, given.backend):
        print(json.dumps(measure(*combination, given.steps)), flush=True)


if __name__ == "__main__":
    main()
