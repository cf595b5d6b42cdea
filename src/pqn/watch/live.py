"""A run that is under way, read from its files: how far it is, its last rows and its curve.

Nothing is locked and nothing is written, so a run never notices that it is watched. This module imports no jax.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from pqn.config import Config
from pqn.errors import RunError
from pqn.progress import Status, clock, format_line, human
from pqn.report.terminal_chart import terminal_curve
from pqn.runs import directory as runs
from pqn.runs import files
from pqn.runs.configs import read_config
from pqn.runs.metrics import Row, curve, read_metrics
from pqn.terminal import cut

Phase = Literal["starting", "running", "stopped", "finished"]
TABLE_ROWS = 6
BAR = 30  # columns


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A run as its files describe it at one moment."""

    path: Path
    config: Config
    phase: Phase
    rows: list[Row]
    saved: int = 0
    """Steps of its newest checkpoint."""

    @property
    def ended(self) -> bool:
        return self.phase in ("stopped", "finished")

    @property
    def last(self) -> Row | None:
        """The newest training row."""
        return next((row for row in reversed(self.rows) if row.get("kind") == "train"), None)

    @property
    def step(self) -> int:
        return max([self.saved, *(row["step"] for row in self.rows if isinstance(row.get("step"), int))])

    @property
    def total(self) -> int:
        """The steps at which the run ends: whole updates."""
        return self.config.steps


def look(path: str | os.PathLike[str]) -> Snapshot:
    """Reads a run. A row that is just being written is left out.

    Raises:
      RunError: it is no run, or its files are damaged.
    """
    run = runs.RunDir.open(path)
    config = read_config(run.read_json(runs.CONFIG), str(run.path / runs.CONFIG))
    rows = read_metrics(run.metrics) if files.is_file(run.metrics) else []
    found = Snapshot(run.path, config, "running", rows, run.saved_update() * config.steps_per_update)
    if not is_alive(run.path):
        done = files.is_file(run.path / runs.SUMMARY) and found.step >= found.total
        return dataclasses.replace(found, phase="finished" if done else "stopped")
    return found if rows else dataclasses.replace(found, phase="starting")


def is_alive(run: Path) -> bool:
    """Whether a process trains in a run directory; of another machine's process nothing is known: yes."""
    try:
        words = files.read_bytes(run / runs.LOCK, 4096).decode(errors="replace").split()
    except (OSError, RunError):
        return False
    if not words or not words[0].isdigit():
        return False
    if len(words) > 1 and words[1] != socket.gethostname():
        return not files.is_file(run / runs.SUMMARY)
    try:
        os.kill(int(words[0]), 0)
    except PermissionError:
        pass  # a process of another user
    except (OSError, OverflowError):
        return False
    return _is_locked(run / runs.LOCK)


def _is_locked(lock: Path) -> bool:
    """Whether the lock is held. A number of a process that is gone may be that of another one by now."""
    try:
        import fcntl
    except ImportError:  # not a Unix
        return True
    with contextlib.suppress(OSError), open(lock, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False  # closing the file lets go of it at once
    return True


def follow(
    path: str | os.PathLike[str],
    show: Callable[[Snapshot], None],
    every: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """Shows a run whenever its files have changed, until it ends; returns how it ended."""
    shown = None
    while True:
        snapshot = look(path)
        state = (snapshot.phase, len(snapshot.rows), snapshot.step)
        if state != shown:
            show(snapshot)
            shown = state
        if snapshot.ended:
            return snapshot
        sleep(every)


# --------------------------------------------------------------------------------------------------------- as text


def screen(snapshot: Snapshot, width: int, unicode: bool = True) -> str:
    """The whole view: what it is, how far, the last rows, the last evaluation and the curve."""
    config = snapshot.config
    seeds = f"{config.seeds} seed{'s' if config.seeds > 1 else ''}"
    lines = [
        f"{config.preset} on {config.env.name}, {seeds}, {snapshot.phase}   {snapshot.path}",
        _bar(snapshot, unicode),
    ]
    lines += _evaluation(snapshot)
    table = _table(snapshot)
    lines += ["", *table] if table else []
    lines = [cut(line, width) for line in lines]
    steps, values = curve(snapshot.rows, "eval")
    if len(steps) > 1 and not np.isnan(values).all():
        lines += ["", "greedy return", terminal_curve(steps, values, width=min(76, width), unicode=unicode)]
    if snapshot.phase == "stopped":
        lines += ["", f"no process trains here; continue it: pqn resume {snapshot.path}"]
    return "\n".join(lines)


def line(snapshot: Snapshot) -> str:
    """The same in one line, as `pqn train` shows it."""
    last = snapshot.last
    if last is None:
        return f"{snapshot.phase}, no rows yet"
    evals = curve(snapshot.rows, "eval")[1]
    known = evals[~np.isnan(evals).all(axis=1)] if evals.size else evals
    status: Status = {
        "step": snapshot.step,
        "total": max(1, snapshot.total),
        "return": _of_episodes(last, "return_sum"),
        "eval": float(np.nanmean(known[-1])) if len(known) else None,
        "epsilon": _mean(last.get("epsilon")) or 0.0,
        "loss": _mean(last.get("loss")),
        "rate": _mean(last.get("steps_per_second")),
        "eta": _eta(snapshot),
    }
    return format_line(status)


def _bar(snapshot: Snapshot, unicode: bool) -> str:
    share = min(1.0, snapshot.step / max(1, snapshot.total))
    full, empty = ("█", "░") if unicode else ("#", "-")
    done = round(BAR * share)
    parts = [f"{100 * share:3.0f} %", f"{human(snapshot.step)} of {human(snapshot.total)} steps"]
    rate, eta = _mean((snapshot.last or {}).get("steps_per_second")), _eta(snapshot)
    parts += [f"{human(rate)} steps/s"] if rate else []
    parts += [f"ETA {clock(eta)}"] if eta is not None and not snapshot.ended else []
    return f"[{full * done}{empty * (BAR - done)}] " + "  ".join(parts)


def _evaluation(snapshot: Snapshot) -> list[str]:
    steps, values = curve(snapshot.rows, "eval")
    if not len(steps) or np.isnan(values[-1]).all():
        return []
    each = ", ".join("none" if np.isnan(value) else f"{value:.1f}" for value in values[-1])
    seeds = f" (seeds: {each})" if len(values[-1]) > 1 else ""
    return [f"greedy return {np.nanmean(values[-1]):.1f} after {human(steps[-1])} steps{seeds}"]


def _table(snapshot: Snapshot) -> list[str]:
    """The last training rows, means over seeds."""
    rows = [row for row in snapshot.rows if row.get("kind") == "train"][-TABLE_ROWS:]
    if not rows:
        return []
    names = ("steps", "return", "length", "loss", "epsilon", "steps/s")
    lines = ["  ".join(f"{name:>9}" for name in names)]
    for row in rows:
        rate, step = _mean(row.get("steps_per_second")), row.get("step")
        numbers = [_of_episodes(row, "return_sum"), _of_episodes(row, "length_sum"), _mean(row.get("loss"))]
        cells = [
            human(step) if isinstance(step, int) else "",
            *("" if number is None else f"{number:.4g}" for number in [*numbers, _mean(row.get("epsilon"))]),
            "" if rate is None else human(rate),
        ]
        lines.append("  ".join(f"{cell:>9}" for cell in cells))
    return lines


def _eta(snapshot: Snapshot) -> float | None:
    rate = _mean((snapshot.last or {}).get("steps_per_second"))
    return (snapshot.total - snapshot.step) * snapshot.config.seeds / rate if rate else None


def _of_episodes(row: Row, column: str) -> float | None:
    """The mean over the episodes of all seeds that ended in a row."""
    total, episodes = _numbers(row.get(column)), _numbers(row.get("episodes"))
    return sum(total) / sum(episodes) if total and sum(episodes) > 0 else None


def _mean(value: object) -> float | None:
    numbers = _numbers(value)
    return sum(numbers) / len(numbers) if numbers else None


def _numbers(value: object) -> list[float]:
    """The numbers in a cell of a row, which holds one, or one for each seed."""
    values: Sequence[object] = value if isinstance(value, list) else [value]
    return [float(x) for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
