"""From typing `pqn train cartpole` to a greedy return of 475, with a warm compilation cache.

    python -m bench.cartpole_time

Runs the command twice, each in a fresh process, on a compilation cache that is empty at first; the second finds it warm
and is the one that counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

GOAL = 475.0


def time_to_goal(cache: str) -> dict[str, float]:
    """Seconds from process start to the first evaluation at or above the goal, and to the end of the process."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        began = time.perf_counter()
        command = [sys.executable, "-m", "pqn", "train", "cartpole", "--eval.count", "20", "--out", str(run), "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"XDG_CACHE_HOME": cache})
        total = time.perf_counter() - began
        summary = json.loads((run / "summary.json").read_text())
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    reached = [
        row["wall"] for row in rows if row["kind"] == "eval" and np.mean(np.array(row["returns"], float)) >= GOAL
    ]
    startup = total - summary["wall_seconds"]  # importing, and tearing down
    return {
        "seconds_to_475": startup + reached[0] if reached else float("inf"),
        "seconds_in_all": total,
        "compile_seconds": summary["compile_seconds"],
        "steps_per_second": summary["steps_per_second"],
        "final_return": summary["eval_return"]["mean"],
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = time_to_goal(cache), time_to_goal(cache)
    print(json.dumps({"bench": "cartpole_time", "cold": cold, "warm": warm, "goal_seconds": 15.0}))


if __name__ == "__main__":
    main()
