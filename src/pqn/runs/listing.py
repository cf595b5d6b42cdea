"""The runs of a directory: what each was, how far it came, and how it ended.

Only files of the runs are read, and nothing of them is executed. A run that cannot be read is listed as "broken" with a
sentence that says why; it does not keep the others from being listed. This module never imports jax.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from pqn.errors import PqnError, RunError, reason
from pqn.runs import files
from pqn.runs.configs import is_text
from pqn.runs.directory import (
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    FAILURE,
    METRICS,
    SUMMARY,
    RunDir,
    is_locked,
    read_summary,
)
from pqn.runs.metrics import Row, read_metrics
from pqn.runs.opened import OpenedRun, open_run
from pqn.runs.tidy import Metrics

DEEPEST = 5  # directories in directories in which runs are looked for

Status = Literal["finished", "stopped", "running", "failed", "broken"]


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """A run at a glance. What is not known is None."""

    name: str
    """Its directory, without the one that was listed."""
    path: Path
    status: Status
    """`finished`: its plan is fulfilled. `stopped`: by the user, by a callback or by a kill; it can be resumed.
    `running`: a process trains it. `failed`: it ended by an error. `broken`: it cannot be read."""
    preset: str | None = None
    env: str | None = None
    algorithm: str | None = None
    seeds: int | None = None
    steps: int | None = None
    """Environment steps that were trained, per seed."""
    total_steps: int | None = None
    """As planned."""
    eval_return: float | None = None
    """Mean greedy return of the last evaluation, over all seeds."""
    date: str | None = None
    """When it began, in UTC."""
    reason: str | None = None
    """Why it was stopped, failed or cannot be read."""

    def __fspath__(self) -> str:
        """A run can be given wherever its directory can: `pqn.load(run)`."""
        return str(self.path)

    @property
    def metrics(self) -> Metrics:
        """Its metrics as a table; see `pqn.runs.tidy`."""
        return Metrics.of(RunDir.open(self.path))

    def to_dict(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "path": str(self.path)}


def list_runs(directory: str | os.PathLike[str] = "runs") -> list[RunInfo]:
    """Every run in a directory and in the directories below it, the oldest first.

    Raises:
      RunError: the directory cannot be read.
    """
    root = files.as_path("directory", directory)
    kind = files.kind_of(root)
    if kind is None or not root.is_dir():
        raise RunError(f"cannot list the runs in {root}: {'it is ' + kind if kind else 'it does not exist'}")
    found = [_info(path, root) for path in _run_directories(root, DEEPEST)]
    return sorted(found, key=lambda info: (info.date or "", info.name))


def _run_directories(root: Path, depth: int) -> Iterator[Path]:
    """Directories with a configuration, also where one lies in another; links are not followed."""
    try:
        is_run = files.kind_of(root / CONFIG) is not None
    except RunError:
        is_run = depth < DEEPEST  # closed to us: it is listed as broken
    if is_run:
        yield root
    try:
        below = sorted(entry.path for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if depth == DEEPEST and not is_run:
            raise RunError(f"cannot list the runs in {root}: {reason(error)}") from error
        return  # one that is closed to us does not hide the others
    for path in below if depth else ():
        if is_run and os.path.basename(path) == CHECKPOINTS:
            continue  # many, and none of them is a run
        yield from _run_directories(Path(path), depth - 1)


def _info(path: Path, root: Path) -> RunInfo:
    name = files.shown(str(path.relative_to(root)) if path != root else path.name or str(path))
    try:
        return _read(name, open_run(path, lambda text: None))
    except PqnError as error:
        return RunInfo(name, path, "broken", reason=files.shown(str(error)))
    except (TypeError, ValueError, KeyError, AttributeError):  # numbers that are none, in files that have no hash
        return RunInfo(name, path, "broken", reason=f"its {METRICS} or {SUMMARY} holds what is no number")


def _read(name: str, opened: OpenedRun) -> RunInfo:
    config, run = opened.config, opened.directory
    status, why, summary = _end(run)
    step, mean = _progress(run)
    steps = summary["steps"] if summary else max(step, run.saved_update() * config.steps_per_update)
    returns = summary.get("eval_return") if summary else None
    return RunInfo(
        name=name,
        path=run.path,
        status=status,
        preset=config.preset,
        env=config.env.name,
        algorithm=config.algorithm,
        seeds=config.seeds,
        steps=steps,
        total_steps=config.total_steps,
        eval_return=returns["mean"] if returns else mean,
        date=_date(run),
        reason=why,
    )


def _end(run: RunDir) -> tuple[Status, str | None, Row | None]:
    """How a run ended, why, and what its summary says."""
    if is_locked(run.path):
        return "running", None, None
    if files.is_file(run.path / SUMMARY):
        summary = read_summary(run)
        stopped = summary.get("stopped")
        if stopped is None:
            return "finished", None, summary
        why = stopped.get("reason") if isinstance(stopped, dict) else None
        return "stopped", why if is_text(why) else None, summary
    if files.is_file(run.path / FAILURE):
        failure = run.read_json(FAILURE)
        why = failure.get("reason") if isinstance(failure, dict) else None
        return "failed", files.shown(why) if isinstance(why, str) else None, None
    return "stopped", None, None


def _progress(run: RunDir) -> tuple[int, float | None]:
    """The steps of the last row, and the mean greedy return of the last evaluation."""
    if not files.is_file(run.metrics):
        return 0, None
    rows = read_metrics(run.metrics)
    steps = [row["step"] for row in rows if isinstance(row.get("step"), int)]
    evaluations = [line for line in Metrics(rows).lines("eval") if isinstance(line.get("return"), float)]
    last = [line["return"] for line in evaluations if line["update"] == evaluations[-1]["update"]]
    return max(steps, default=0), float(np.mean(np.array(last, float))) if last else None


def _date(run: RunDir) -> str | None:
    if not files.is_file(run.path / ENVIRONMENT):
        return None
    data = run.read_json(ENVIRONMENT)
    date = data.get("time") if isinstance(data, dict) else None
    return date if is_text(date) else None
