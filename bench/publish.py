"""From run directories to a file under results/: numbers, curves, and all that is needed to make them again.

    python -m bench.publish RUN… --out results/minatar [--metric NAME] [--training] [--commit HASH]

Writes OUT.json (one entry per run: command, commit, device, date, versions, greedy returns per seed, learning curve,
speed, peak device memory and the memory of a replay buffer of a million transitions) and OUT.png (one panel per
task, of the return or of a metric of the environment's own, such as win; of greedy evaluations or, where those are few,
of the episodes of `--training`). `--commit` is for machines on which the code ran without its git history.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from pqn.envs import registry
from pqn.report.figures import curve_grid
from pqn.report.statistics import bootstrap_interval, iqm
from pqn.runs.directory import RunDir
from pqn.runs.metrics import curve, read_metrics, to_json


def entry(run: RunDir, commit: str | None) -> dict[str, Any]:
    """What a reader needs to trust one run."""
    environment, rows = run.read_json("environment.json"), read_metrics(run.metrics)
    summary = run.read_json("summary.json") if (run.path / "summary.json").exists() else stopped(run, rows)
    rows = [
        row for row in rows if row["kind"] != "eval" or np.isfinite(_per_seed(row)).all()
    ]  # with a game of each seed
    steps, values = curve(rows, "eval")
    train_steps, train = curve(rows, "train", points=20)
    last = next(row for row in reversed(rows) if row["kind"] == "eval")
    infos = [name.removeprefix("info/") for name in last if name.startswith("info/")]
    final = np.asarray(summary["eval_return"]["per_seed"], float)
    interval = bootstrap_interval(final) if len(final) > 1 else None
    git = environment.get("git") or {}
    preset = summary["preset"]
    return {
        "preset": preset,
        "env": summary["env"],
        "command": _command(environment["command"]),
        "commit": commit or git.get("commit"),
        "date": environment["time"],
        "device": summary["device"],
        "versions": environment["versions"],
        "steps_per_seed": summary["steps"],
        "stopped_before_its_end": summary.get("stopped", False),
        "greedy_return": {
            "mean": final.mean(),
            "iqm": iqm(final),
            "iqm_95": None if interval is None else [interval.low, interval.high],
            "per_seed": final,
        },
        "greedy_info": {name: last[f"info/{name}"] for name in infos},
        "training_return_last_tenth": np.nanmean(train[-2:]) if np.isfinite(train[-2:]).any() else None,
        "steps_per_second": summary["steps_per_second"],
        "train_seconds": summary["train_seconds"],
        "wall_seconds": summary["wall_seconds"],
        "compile_seconds": summary["compile_seconds"],
        "peak_memory_bytes": summary.get("peak_memory_bytes"),
        "replay_buffer_bytes": replay_buffer_bytes(run.read_json("config.json")),
        "curve": {
            "steps": steps,
            "seconds": [round(row["wall"], 1) for row in rows if row["kind"] == "eval"],
            "greedy_return": values.round(2),
        },
        "info_curves": {name: curve(rows, "eval", metric=name)[1].round(4) for name in infos},
        "training_curve": {"steps": train_steps, "return": train.round(2), "steps_per_second": speeds(rows)},
    }


def speeds(rows: list[dict[str, Any]], points: int = 20) -> list[int]:
    """Steps per second over the run, in at most as many parts: shows where it did not have the device to itself."""
    rates = [row["steps_per_second"] for row in rows if row["kind"] == "train"]
    return [round(float(np.median(part))) for part in np.array_split(rates, min(points, len(rates)))]


def replay_buffer_bytes(config: dict[str, Any], transitions: int = 1_000_000) -> int:
    """What a buffer of a million transitions of this task would hold: each observation and mask once, and no memory."""
    spec = registry.make(config["env"]["name"], 1, **config["env"]["kwargs"]).spec
    seen = math.prod(spec.obs_shape) * np.dtype(spec.obs_dtype).itemsize + (spec.num_actions if spec.masked else 0)
    return transitions * (spec.num_agents * (seen + 4) + 4 + 1)  # an action per agent; a reward and a flag for all


def stopped(run: RunDir, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What `summary.json` would say of a run that was stopped before its end."""
    config, environment = run.read_json("config.json"), run.read_json("environment.json")
    train = [row for row in rows if row["kind"] == "train"]
    last = next(row for row in reversed(rows) if row["kind"] == "eval" and np.isfinite(_per_seed(row)).all())
    done, updates = train[-1]["step"], np.diff([0, *(row["update"] for row in train)])
    share = updates / updates.sum()
    return {
        "stopped": True,
        "preset": config["preset"],
        "env": config["env"]["name"],
        "seeds": config["seeds"],
        "steps": done,
        "device": environment["device"],
        "steps_per_second": round(1 / sum(share / [row["steps_per_second"] for row in train]), 1),
        "train_seconds": None,
        "wall_seconds": train[-1]["wall"],
        "compile_seconds": None,
        "eval_return": {"per_seed": _per_seed(last)},
        "peak_memory_bytes": train[-1].get("peak_memory_bytes"),
    }


def _command(command: list[str] | str) -> str:
    """As a reader would type it: without where the run went, how loudly, and by which file the program was started."""
    words = shlex.split(command) if isinstance(command, str) else command
    words = words[next((i for i, word in enumerate(words) if word in ("train", "resume")), 0) :]
    kept = [word for before, word in zip(["", *words], words, strict=False) if "--out" not in (before, word)]
    return " ".join(["pqn", *(word for word in kept if word != "--quiet")])


def _per_seed(row: dict[str, Any]) -> np.ndarray:
    """Mean return of an evaluation row [S] over the episodes that ended; NaN where a seed ended none."""
    returns = [[value for value in seed if value is not None] for seed in row["returns"]]
    return np.array([np.mean(seed) if seed else np.nan for seed in returns])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="path without suffix")
    parser.add_argument("--metric", default="return")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--commit", default=None)
    given = parser.parse_args()
    runs = [RunDir.open(path) for path in given.runs]
    entries = [entry(run, given.commit) for run in runs]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.with_suffix(".json").write_text(to_json(entries, indent=1) + "\n")
    panels: dict[str, list] = {}
    for run, row in zip(runs, entries, strict=True):
        label = "published setting" if row["preset"].endswith("-paper") else "default preset"
        steps = row["curve"]["steps"]
        values = row["curve"]["greedy_return"] if given.metric == "return" else row["info_curves"][given.metric]
        if given.training:
            steps, values = curve(read_metrics(run.metrics), "train", points=20, metric=given.metric)
        panels.setdefault(row["env"], []).append((label, steps, values))
    columns = min(len(panels), 2 if len(panels) < 5 else 3)
    ylabel = f"{given.metric} ({'training' if given.training else 'greedy evaluation'})"
    curve_grid(panels, given.out.with_suffix(".png"), columns=columns, ylabel=ylabel)
    for row in entries:
        found = row["greedy_return"]
        shown = {"preset": row["preset"], "mean": found["mean"], "iqm": found["iqm"], "iqm_95": found["iqm_95"]}
        memory = {name: row[name] and row[name] / 1e9 for name in ("peak_memory_bytes", "replay_buffer_bytes")}
        print(json.dumps(shown | {name.replace("bytes", "gb"): value for name, value in memory.items()}, default=float))


if __name__ == "__main__":
    main()
