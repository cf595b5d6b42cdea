"""`python -m bench.kill --kills 100`: kill -9 at random moments, resume, and compare with a run that was left alone.

A run is trained in processes of its own, killed at a moment that may lie anywhere in the life of a process (while it
starts, compiles, trains, evaluates or writes a checkpoint) and resumed, several times over, until it is let go to its
end. Then its last checkpoint must equal that of the uninterrupted run in every bit, and its metrics in every row but
for the clocks.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pqn.runs import checkpoint
from pqn.runs.metrics import read_metrics

TINY = {
    "total-steps": 96_000, "env.num-envs": 8, "network.hidden": 16, "learner.rollout-steps": 8, "seeds": 2,
    "learner.minibatches": 4, "eval.count": 20, "eval.num-envs": 8, "save.checkpoints": 60, "log.rows": 100,
}  # fmt: skip
CLOCKS = ("wall", "steps_per_second", "peak_memory_bytes")


def command(run: Path) -> list[str]:
    """What to start: a run that has not begun is trained, any other resumed."""
    if (run / "config.json").exists():
        return [sys.executable, "-m", "pqn", "resume", str(run)]
    options = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "pqn", "train", "cartpole-paper", "--out", str(run), *options]


def start(run: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command(run), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(run: Path) -> None:
    """Lets a run go to its end."""
    process = start(run)
    _, error = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command(run))} ended with {process.returncode}: {error}")


@dataclasses.dataclass
class Reference:
    """An uninterrupted run, and how long its process lived and trained."""

    run: Path
    life: float
    training: float


def reference(run: Path) -> Reference:
    """Trains twice: the first time to fill the compilation cache, as it will be for every process to come."""
    finish(run.with_name("warm-up"))
    began = time.monotonic()
    finish(run)
    life = time.monotonic() - began
    rows = read_metrics(run / "metrics.jsonl")
    return Reference(run, life, rows[-1]["wall"] - rows[0]["wall"])


def kill_once(run: Path, known: Reference, chance: random.Random) -> str | None:
    """Starts or resumes a run and kills it. Returns what it was at, None if it was quicker and ended by itself.

    Half of the kills fall at any time of a process, half in its training, which takes less time than its start.
    """
    log = run / "metrics.jsonl"
    before = log.stat().st_mtime_ns if log.exists() else 0
    process, trains = start(run), lambda: log.exists() and log.stat().st_mtime_ns > before
    if chance.random() < 0.5:
        _wait(chance.uniform(0.0, known.life), process)
    else:
        deadline = time.monotonic() + 20 * known.life
        while not trains() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        _wait(chance.uniform(0.0, known.training), process)
    process.kill()
    process.communicate()
    if process.returncode == 0:
        return None
    if any((run / "checkpoints").glob(".tmp-*")):
        return "checkpoint"
    return "training" if trains() else "start"


def _wait(seconds: float, process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def difference(run: Path, whole: Path) -> str | None:
    """The first thing in which a run differs from the uninterrupted one."""
    mine, theirs = (checkpoint.latest(path / "checkpoints") for path in (run, whole))
    if mine is None or theirs is None or mine.name != theirs.name:
        return f"the last checkpoint is {mine}, not {theirs}"
    arrays, expected = checkpoint.read(mine).arrays, checkpoint.read(theirs).arrays
    if arrays.keys() != expected.keys():
        return "the checkpoint holds other arrays"
    for name, array in arrays.items():
        if array.tobytes() != expected[name].tobytes():
            return f"{name} differs by up to {np.abs(array.astype(float) - expected[name].astype(float)).max():g}"
    rows, wanted = ([_timeless(row) for row in read_metrics(path / "metrics.jsonl")] for path in (run, whole))
    for row, want in zip(rows, wanted, strict=False):
        if row != want:
            return f"a row is {row}, not {want}"
    return None if len(rows) == len(wanted) else f"there are {len(rows)} rows, not {len(wanted)}"


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in CLOCKS}


def trial(folder: Path, kills: int, seed: int = 0, most: int = 5) -> tuple[int, collections.Counter[str], list[str]]:
    """Kills runs `kills` times in all, at most `most` times each.

    Returns:
      How many kills ended in an equal run, what they hit, and what differed.
    """
    chance = random.Random(seed)
    known = reference(folder / "whole")
    done, good, number = 0, 0, 0
    hit: collections.Counter[str] = collections.Counter()
    problems: list[str] = []
    while done < kills:
        number += 1
        run, mine = folder / f"run-{number}", 0
        while mine < most and done + mine < kills:
            phase = kill_once(run, known, chance)
            if phase is None:  # it was quicker than the first one: the machine has less to do by now
                known.life, known.training = 0.7 * known.life, 0.7 * known.training
                break
            hit[phase] += 1
            mine += 1
        finish(run)
        problem = difference(run, known.run)
        done, good = done + mine, good + (0 if problem else mine)
        problems += [f"{run}: {problem}"] if problem else []
        print(f"run {number}: {mine} kills, {problem or 'equal'} ({done} of {kills})", file=sys.stderr, flush=True)
    return good, hit, problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--folder", type=Path, help="where the runs go, to look at them afterwards")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        good, hit, problems = trial(folder, given.kills, given.seed)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{good} of {given.kills} kills ended in the same bits and the same rows ({_count(hit)})")
    return 0 if good == given.kills else 1


def _count(hit: collections.Counter[str]) -> str:
    return ", ".join(f"{count} in {phase}" for phase, count in hit.most_common())


if __name__ == "__main__":
    sys.exit(main())
