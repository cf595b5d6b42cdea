"""Which memory learns most, at equal steps and in equal time; and what a gradient step of each costs.

    python -m bench.memories --out runs/memories                # small networks, on a CPU
    python -m bench.memories smax-2s3z craftax-classic-rnn --out runs/memories-gpu
    python -m bench.memories --gradient --steps 128 --batch 40 --size 512

The first two train each task with each memory and write a JSON file: greedy returns along the run, and the time of an
update. That time is measured after the trainings, by turns, best of several rounds; on a CPU it is the time that the
cores have worked, since others may use them, too. "Equal minutes" is what each has learned when the fastest has
finished, by these times.

The last prints one JSON row for each memory: forward and backward pass of one layer, and the time to compile it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from pqn.config import Config
from pqn.device import compiler_options, enable_compilation_cache
from pqn.envs import registry
from pqn.networks import linear_memory, memory
from pqn.presets import preset
from pqn.programs.compiled import CompiledProgram
from pqn.progress import Progress
from pqn.runs.provenance import describe_source
from pqn.training import train

# Small enough for two cores: a quarter of the units, a third of the steps.
SMALL = {"network.hidden": (64,), "network.memory_size": 64, "learner.minibatches": 4, "total_steps": 300_000}
SHORT = {"env.kwargs": {"memory_length": 30}, "learner.rollout_steps": 64, "total_steps": 200_000}
# Name of a task -> its preset, and what is changed. Other presets, as for a GPU, are taken as they are.
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chain-30": ("memory-chain", SMALL | SHORT),
    "chain-100": ("memory-chain", SMALL),
    "masked-cartpole": (
        "cartpole-rnn",
        SMALL | {"learner.lr": 1e-3, "total_steps": 200_000, "eval.num_envs": 16, "eval.count": 8},
    ),
    # As many gradient steps per step of the game as the presets, with an eighth of their units.
    "small-smax-2s3z": (
        "smax-2s3z",
        {"network.hidden": (64, 64), "network.memory_size": 64, "env.num_envs": 32, "learner.minibatches": 4}
        | {"total_steps": 1_000_000, "eval.num_envs": 32, "eval.count": 10},
    ),
    "small-craftax-classic": (
        "craftax-classic-rnn",
        {"network.hidden": (64,), "network.memory_size": 64, "env.num_envs": 64, "env.kwargs": {"max_timesteps": 500}}
        | {"total_steps": 1_000_000, "eval.num_envs": 16, "eval.count": 10},
    ),
}
ROUNDS = 5


def clock() -> float:
    """Seconds of work of all cores of a CPU, whoever else uses them; with an accelerator, seconds as they pass."""
    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


def compare(name: str, memories: list[str], seeds: int, out: Path) -> dict[str, Any]:
    """Trains a preset with each memory, then times them by turns."""
    configs = {kind: configure(name, kind, seeds) for kind in memories}
    rows = {kind: learn(config, out / f"{name}-{kind}") for kind, config in configs.items()}
    for kind, milliseconds in update_times(configs).items():
        rows[kind]["ms_per_update"] = milliseconds
    budget = min(row["updates"] * row["ms_per_update"] for row in rows.values())
    for row in rows.values():
        row["minutes"] = round(row["updates"] * row["ms_per_update"] / 60e3, 3)
        row["return_at_equal_minutes"] = at_update(row, budget / row["ms_per_update"])
    settle(list(rows.values()))
    started, options = TASKS.get(name, (name, {}))
    return {"task": name, "preset": started, "options": options, "seeds": seeds, "rows": list(rows.values())}


def configure(name: str, kind: str, seeds: int) -> Config:
    name, options = TASKS.get(name, (name, {}))
    return preset(name, {"eval.count": 15} | options | {"network.memory": kind}, seeds=seeds)


def learn(config: Config, run: Path) -> dict[str, Any]:
    result = train(config, out=run, progress=Progress(quiet=True))
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    curve = [
        {"update": row["update"], "step": row["step"], "returns": [score(seed) for seed in row["returns"]]}
        for row in rows
        if row["kind"] == "eval"
    ]
    return {
        "memory": config.network.memory,
        "updates": config.updates,
        "steps": result.summary["steps"],
        "parameters": result.summary["memory_bytes"]["parameters"] // (4 * config.seeds),
        "train_s": result.summary["train_seconds"],
        "return": round(float(np.mean(curve[-1]["returns"])), 3),
        "return_per_seed": curve[-1]["returns"],
        "return_over_run": round(float(np.mean([row["returns"] for row in curve])), 3),
        "curve": curve,
    }


def score(returns: list[float | None]) -> float:
    """The mean of a seed's finished episodes."""
    return round(float(np.mean([value for value in returns if value is not None])), 3)


def at_update(row: dict[str, Any], update: float) -> float:
    """The mean return after so many updates, on the straight line between two evaluations."""
    points = [(point["update"], float(np.mean(point["returns"]))) for point in row["curve"]]
    return round(float(np.interp(update, *zip(*points, strict=True))), 3)


def settle(rows: list[dict[str, Any]]) -> None:
    """When each began to stay above 95 % of the best mean return: `settled_at` in steps and `settled_s`, or None."""
    means = [[float(np.mean(point["returns"])) for point in row["curve"]] for row in rows]
    enough = 0.95 * max(map(max, means))
    for row, curve in zip(rows, means, strict=True):
        low = max((i for i, value in enumerate(curve) if value < enough), default=-1)
        point = row["curve"][low + 1] if low + 1 < len(curve) else None
        row["settled_at"] = point and point["step"]
        row["settled_s"] = point and round(point["update"] * row["ms_per_update"] / 1e3, 2)


def update_times(configs: dict[str, Config]) -> dict[str, float]:
    """Milliseconds of an update with each memory, all seeds: the best of several rounds in which they take turns."""
    programs, states, best = {}, {}, dict.fromkeys(configs, float("inf"))
    for kind, config in configs.items():
        programs[kind] = CompiledProgram(config, lambda n, env=config.env: registry.make(env.name, n, **env.kwargs))
        programs[kind].compile()  # as the training did: the compilation cache has it
        states[kind] = jax.block_until_ready(programs[kind].init())
    for _ in range(ROUNDS):
        for kind, program in programs.items():
            began = clock()
            states[kind], _ = jax.block_until_ready(program.chunk(states[kind], 1))
            best[kind] = min(best[kind], clock() - began)
    return {kind: round(1e3 * value, 3) for kind, value in best.items()}


def gradient_step(kind: str, given: argparse.Namespace, rounds: bool) -> dict[str, Any]:
    """Forward and backward pass of one layer; with `rounds` as accelerators scan, without as a CPU does."""
    module = memory.CELLS[kind](given.size, given.dtype)
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (given.steps, given.batch, given.size))
    first = jax.random.bernoulli(keys[1], 0.01, (given.steps, given.batch))
    carry = module.initial_carry(given.size, given.batch)
    params = module.init(keys[2], carry, x[:1], first[:1])

    def loss(params: Any, x: Any) -> Any:
        return jnp.sum(jnp.square(module.apply(params, carry, x, first, True)[1]))

    with mock.patch.object(linear_memory, "scans_in_parallel", lambda: rounds):
        began = clock()
        compiled = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(params, x).compile(compiler_options())
        compile_s = clock() - began
    scan = ("rounds" if rounds else "loop") if kind in ("mingru", "lru") else "loop with a product"
    row = {"memory": kind, "scan": scan, "steps": given.steps, "batch": given.batch, "size": given.size}
    row |= {"dtype": given.dtype, "device": jax.devices()[0].device_kind, "compile_s": round(compile_s, 2)}
    return row | {"call": (compiled, params, x), "ms": float("inf")}


def gradients(given: argparse.Namespace) -> None:
    """One JSON row for each memory and way to scan, timed by turns."""
    kinds = [
        (kind, rounds) for kind in given.memories for rounds in (False, True) if kind in ("mingru", "lru") or rounds
    ]
    rows = [gradient_step(kind, given, rounds) for kind, rounds in kinds]
    for _ in range(ROUNDS):
        for row in rows:
            function, *args = row["call"]
            began = clock()
            jax.block_until_ready(function(*args))
            row["ms"] = min(row["ms"], 1e3 * (clock() - began))
    for row in rows:
        row.pop("call")
        print(json.dumps(row | {"ms": round(row["ms"], 3)}), flush=True)


def table(found: dict[str, Any]) -> str:
    lines = [
        f"{found['task']}, {found['seeds']} seeds",
        f"{'memory':8} {'return':>8} {'over run':>9} {'equal minutes':>14} {'ms/update':>10} {'parameters':>11}",
    ]
    for row in found["rows"]:
        lines.append(
            f"{row['memory']:8} {row['return']:8.2f} {row['return_over_run']:9.2f} "
            f"{row['return_at_equal_minutes']:14.2f} {row['ms_per_update']:10.1f} {row['parameters']:11}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help=f"{', '.join(TASKS)}, or presets as they are")
    parser.add_argument("--memories", nargs="+", choices=sorted(memory.CELLS), default=["gru", "lstm", "mingru", "lru"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/memories"), help="folder of the runs and of memories.json"
    )
    parser.add_argument("--gradient", action="store_true", help="only time the gradient step of one layer")
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    given = parser.parse_args()
    if given.gradient:
        return gradients(given)
    enable_compilation_cache()
    words = ["python -m bench.memories", *given.tasks, "--seeds", str(given.seeds)]
    data: dict[str, Any] = {
        "command": " ".join(words),
        "commit": describe_source()["commit"],
        "device": jax.devices()[0].device_kind,
    }
    data |= {"date": time.strftime("%Y-%m-%d"), "tasks": []}
    for name in given.tasks:
        data["tasks"].append(compare(name, given.memories, given.seeds, given.out))
        print(table(data["tasks"][-1]), flush=True)
        (given.out / "memories.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
