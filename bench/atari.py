"""How fast the Atari emulators step alone, under random actions, and how much of that whole trainings keep.

    python -m bench.atari --env pong breakout --num-envs 64 128 256 --threads 0 --steps 500
    python -m bench.atari --env pong --num-envs 128 --backend ale envpool
    python -m bench.atari --training atari-pong --updates 40 --rounds 2

Prints one JSON row for each combination: microseconds per vector step, environment steps per second (four frames each)
and the share of the time that the caller spent waiting in `recv`, which is what a learner could do something else in.
`--threads 0` uses every core that the process may run on.

`--training` runs a preset from its first update to its last row, as `pqn train` does: learning, rows, checkpoints and
the evaluations of greedy environments are in its time; compilation and the games of the last evaluation are not. Runs
without and with `simulators.overlap` take turns with the emulators alone, in one process, and each is compared with the
emulators just before and just after it. Nothing is the best of several: the row has every run, and the share is that of
all runs together. Steps of greedy environments count, since emulators take them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import pqn
from pqn.cli.options import pair
from pqn.config import Config
from pqn.envs.adapters import atari
from pqn.runs.provenance import describe_device


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


def short(name: str, updates: int, settings: dict[str, Any]) -> Config:
    """A preset that ends after some updates; its last evaluation, which would play whole games, is cut short."""
    config = pqn.preset(name, settings | {"eval.num_envs": 1, "eval.max_steps": 1})
    return config.replace({"total_steps": updates * config.steps_per_update})


def whole_run(config: Config) -> dict[str, float]:
    """Emulator steps of one run and the seconds that it took to train, with all that it did between the updates."""
    with tempfile.TemporaryDirectory() as folder:
        result = pqn.train(config, out=Path(folder) / "run")
        rows = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    last = max(row["wall"] for row in rows if row["kind"] == "train")
    envs = config.env.num_envs + config.simulators.greedy_envs
    steps = result.summary["steps"] * config.seeds * envs / config.env.num_envs
    return {"steps": steps, "seconds": last - result.summary["compile_seconds"]}


def sustained(name: str, updates: int, rounds: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Whole runs of a preset, in turn with the emulators alone."""
    config = short(name, updates, settings)
    envs = config.env.num_envs + config.simulators.greedy_envs
    game = config.env.name.split(":", 1)[1]
    per_run = updates * config.learner.rollout_steps

    def alone() -> float:
        return measure(game, envs, 0, config.env.kwargs.get("backend", "ale"), per_run)["steps_per_second"]

    kinds = {"one_after_the_other": False, "overlapped": True}
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    before = alone()
    for _ in range(rounds):
        for kind, overlap in kinds.items():
            run = whole_run(config.replace({"simulators.overlap": overlap}))
            after = alone()
            runs[kind].append(run | {"alone": (before + after) / 2})
            before = after
    shares = {
        kind: sum(run["steps"] for run in each) / sum(run["alone"] * run["seconds"] for run in each)
        for kind, each in runs.items()
    }
    return {
        "bench": "atari --training",
        "preset": name,
        "updates": updates,
        "settings": settings,
        "num_envs": config.env.num_envs,
        "greedy_envs": config.simulators.greedy_envs,
        "device": describe_device(),
        "share_of_alone": {kind: round(share, 3) for kind, share in shares.items()},
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", default=["pong"], metavar="GAME")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--threads", type=int, nargs="+", default=[0])
    parser.add_argument("--backend", nargs="+", default=["ale"], choices=atari.BACKENDS)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--training", metavar="PRESET", help="compare whole runs of a preset with the emulators alone")
    parser.add_argument("--updates", type=int, default=40, help="length of each run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--set", nargs="*", type=pair, default=[], metavar="OPTION=VALUE", help="options of the runs")
    given = parser.parse_args()
    if given.training:
        row = sustained(given.training, given.updates, given.rounds, dict(given.set))
        print(json.dumps(row, ensure_ascii=False), flush=True)
        return
    for combination in itertools.product(given.env, given.num_envs, given.threads, given.backend):
        print(json.dumps(measure(*combination, given.steps)), flush=True)


if __name__ == "__main__":
    main()
