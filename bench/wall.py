"""Time to result: from the start of the process to its last greedy evaluation, and where the seconds go.

    python -m bench.wall                                    # every row that an H200 ends within minutes
    python -m bench.wall hanabi craftax-rnn                 # the two that take an hour
    python -m bench.wall cartpole-paper --total-steps 5e4   # a short run, also on a CPU
    python -m bench.wall --tree old=../before --tree new=.  # two versions, one after the other, on the same machine

Runs `pqn train` in a fresh process, first with an empty compilation cache and then with the cache that this has filled.
The run itself says how its seconds were spent (`process_seconds` of summary.json). One JSON row is printed for each
process, and a table at the end. Beside it stand the seconds of the paper's own code on an H200, from its tracing time,
its compile time and its speed (results/public/public-pqn-h200.jsonl; imports are not in them), and our goals there.
`cpu` is user and system time of the process: on a machine with other work it says more than the clock.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT / "results" / "public" / "public-pqn-h200.jsonl"
SPLIT = ("before", "build", "trace", "compile", "train", "evaluate", "write", "rest")


@dataclasses.dataclass(frozen=True)
class Row:
    """A run whose time to result is compared."""

    preset: str
    steps: int
    seeds: int
    public: str
    """What the paper's code calls the task."""
    goal: tuple[float, float | None]
    """Seconds on an H200 with a cold and with a warm cache."""
    minutes: bool = True
    """Whether it ends within minutes there."""


ROWS = {
    row.preset: row
    for row in (
        Row("cartpole-paper", 500_000, 10, "cartpole", (7.0, 4.0)),
        Row("minatar-breakout-paper", 10_000_000, 10, "minatar:Breakout", (22.0, 14.0)),
        Row("overcooked-cramped_room", 5_000_000, 1, "overcooked:cramped_room", (30.0, 22.0)),
        Row("smax-2s3z", 10_000_000, 1, "smax:2s3z", (75.0, 50.0)),
        Row("hanabi", 10_000_000_000, 1, "hanabi", (45 * 60.0, None), minutes=False),
        Row("craftax-rnn", 1_000_000_000, 1, "craftax_rnn", (30 * 60.0, None), minutes=False),
    )
}


def public_seconds(row: Row, steps: int, text: str) -> float | None:
    """What the paper's code takes on an H200 for so many steps; None where it was not timed with as many seeds."""
    timed = [json.loads(line) for line in text.splitlines()]
    same = [entry for entry in timed if entry["name"] == row.public and entry["seeds"] == row.seeds]
    if not same:
        return None
    best = max(same, key=lambda entry: entry["steps"])
    return round(best["trace_s"] + best["compile_s"] + steps * row.seeds / best["steps_per_s"], 1)


def measure(preset: str, options: dict[str, Any], tree: Path, cache: Path) -> dict[str, Any]:
    """One process: how its seconds were spent, and what it used of the processor."""
    paths = os.pathsep.join([str(tree / "src"), str(tree)])
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": paths}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "pqn", "train", preset, *words, "--out", str(run), "--quiet"]
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        whole = time.perf_counter() - began
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        summary = json.loads((run / "summary.json").read_text())
    times = {"whole_process": round(whole, 3), "cpu": round(used.ru_utime + used.ru_stime, 2)}
    said = {name: summary[name] for name in ("device", "steps", "seeds", "steps_per_second", "compile_seconds")}
    return said | times | {"seconds": summary.get("process_seconds"), "eval_return": summary["eval_return"]}


def between_chunks(seconds: dict[str, float]) -> float:
    """The share of a run after compilation in which it does not train."""
    other = seconds["evaluate"] + seconds["write"] + seconds["rest"]
    return other / max(seconds["train"] + other, 1e-9)


def table(rows: list[dict[str, Any]]) -> str:
    """What was measured, as Markdown."""
    head = ("run", "tree", "cache", "to the last evaluation", *SPLIT, "cpu", "paper's code, H200", "goal, H200")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        split = row["seconds"] or {}
        cells = [row["run"], row["tree"], row["cache"], split.get("until_last_evaluation"), *map(split.get, SPLIT)]
        cells += [row["cpu"], row["public_h200"], row["goal_h200"]]
        shown = ["–" if cell is None else f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _tree(text: str) -> tuple[str, Path]:
    name, found, path = text.partition("=")
    tree = Path(path).resolve()
    if not found or not (tree / "src" / "pqn").is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=CHECKOUT, with a checkout of this repository")
    return name, tree


def _whole(text: str) -> int:
    return int(float(text))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.wall", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    short = [name for name, row in ROWS.items() if row.minutes]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}, or any preset")
    parser.add_argument("--total-steps", type=_whole, help="instead of those of the row")
    parser.add_argument("--seeds", type=int, help="instead of those of the row")
    parser.add_argument("--set", dest="options", action="append", default=[], metavar="NAME=VALUE", help="an option")
    parser.add_argument("--repeats", type=int, default=1, help="all trees in turn, so often")
    parser.add_argument("--cold-only", action="store_true", help="without the second process")
    parser.add_argument("--tree", dest="trees", type=_tree, action="append", metavar="NAME=CHECKOUT", help="a version")
    given = parser.parse_args(argv)
    given.trees = given.trees or [("here", ROOT)]
    given.rows = given.rows or short
    return given


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    given = _arguments(argv)
    further, rows = dict(text.split("=", 1) for text in given.options), []
    for preset in given.rows:
        row = ROWS.get(preset)
        options: dict[str, Any] = {}
        if steps := given.total_steps or (row and row.steps):
            options["total_steps"] = steps
        if seeds := given.seeds or (row and row.seeds):
            options["seeds"] = seeds
        for _ in range(given.repeats):
            for name, tree in given.trees:
                with tempfile.TemporaryDirectory() as cache:
                    for index, temperature in enumerate(("cold", "warm")[: 1 if given.cold_only else 2]):
                        found = measure(preset, options | further, tree, Path(cache))
                        public = goal = None
                        if row and options["seeds"] == row.seeds and options["total_steps"] == row.steps:
                            public, goal = public_seconds(row, row.steps, PUBLIC.read_text()), row.goal[index]
                        labels = {"run": preset, "tree": name, "cache": temperature}
                        rows.append(labels | found | {"public_h200": public, "goal_h200": goal})
                        print(json.dumps(rows[-1]), flush=True)
    print(table(rows), file=sys.stderr)
    return rows


if __name__ == "__main__":
    main()
