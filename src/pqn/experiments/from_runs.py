"""From finished run directories to a result: the seeds of an arm may have been trained in several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pqn.config import Config
from pqn.envs import registry
from pqn.errors import RunError
from pqn.experiments.envelope import Curves, Envelope, PerSeed
from pqn.experiments.paper import Arm, experiment
from pqn.experiments.record import Call
from pqn.runs.directory import ENVIRONMENT, RunDir, read_summary
from pqn.runs.metrics import Row, curve, read_metrics
from pqn.runs.opened import open_run

POINTS = 20  # of a curve of training returns
FROM_THE_SUMMARY = ("steps_per_second",)  # metrics that are no result of episodes


class FinishedRun:
    """One finished run."""

    def __init__(self, path: Path):
        self.directory = RunDir.open(path)
        self.opened = open_run(self.directory)
        self.config: Config = self.opened.config
        self.summary = read_summary(self.directory)
        self.id = self.opened.id or str(path)
        if self.summary["steps"] != self.config.steps:
            raise RunError(f"{path} has not reached its end: {self.summary['steps']} of {self.config.steps} steps")
        rows = read_metrics(self.directory.metrics)
        self.train = [row for row in rows if row.get("kind") == "train"]
        self.eval = [row for row in rows if row.get("kind") == "eval"]

    @property
    def seeds(self) -> list[int]:
        return [self.config.seed + index for index in range(self.config.seeds)]

    def metrics(self) -> list[str]:
        """Return, and what the environment reports of its own."""
        names = self.eval[-1] if self.eval else {}
        return ["return", *(name.removeprefix("info/") for name in names if name.startswith("info/"))]

    def curves(self, which: str) -> Curves:
        """Greedy evaluations with all their metrics, or training returns in a few points."""
        if which == "greedy":
            steps, _ = curve(self.eval, "eval")
            values = {name: curve(self.eval, "eval", metric=name)[1] for name in self.metrics()}
            seconds = _seconds(self.eval)
        else:
            steps, returns = curve(self.train, "train", points=POINTS)
            values, seconds = {"return": returns}, _seconds(self.train, steps)
        rows = {name: [[_number(x) for x in row] for row in array] for name, array in values.items()}
        return Curves([int(step) for step in steps], seconds, rows)

    def final(self) -> dict[str, PerSeed]:
        """Each metric of the last evaluation, and the training return of the last tenth of the run."""
        found: dict[str, PerSeed] = {}
        if self.eval:
            found = {name: rows[-1] for name, rows in self.curves("greedy").values.items()}
        _, returns = curve(self.train, "train", points=POINTS)
        if len(returns):
            last = returns[-max(1, len(returns) // 10) :]
            found["training_return"] = [_number(x) for x in _mean(last)]
        for name in FROM_THE_SUMMARY:
            found[name] = [float(self.summary[name])] * self.config.seeds  # all seeds that were trained together
        return found


def envelope_of(
    arm: Arm, runs: Sequence[Path], share: float, calls: list[Call], command: str, budget: int | None = None
) -> Envelope:
    """The result of an arm from the runs that have its seeds.

    Args:
      arm: what was trained.
      runs: finished run directories of the same configuration, with different seeds.
      share: of the budget.
      calls: the processes that worked on it.
      command: what makes it again.
      budget: steps of the whole experiment; by default the arm's.

    Raises:
      RunError: a run is not finished, or damaged.
    """
    trained = [FinishedRun(path) for path in runs]
    first = trained[0]
    entry = experiment(arm.experiment)
    names = ["greedy", "training"] if all(run.eval for run in trained) else ["training"]
    total = sum(run.summary["steps"] * run.config.seeds for run in trained)
    seconds = {
        name: _total([run.summary.get(f"{name}_seconds") for run in trained]) for name in ("wall", "compile", "train")
    }
    return Envelope(
        arm.experiment, arm.name, arm.task, arm.method, arm.algorithm, arm.preset, command, calls,
        seeds=[seed for run in trained for seed in run.seeds],
        share=share,
        steps=first.summary["steps"],
        budget=arm.config().total_steps if budget is None else budget,
        complete=True,
        metric=entry.metric,
        final=_joined([run.final() for run in trained]),
        evaluation=_evaluation(trained),
        curves={name: _join_curves([run.curves(name) for run in trained]) for name in names},
        seconds=seconds,
        steps_per_second=round(total / seconds["train"], 1) if seconds["train"] else None,
        peak_bytes=max((run.summary.get("peak_memory_bytes") or 0 for run in trained), default=0) or None,
        replay_bytes=replay_buffer_bytes(first.config),
        config=first.config.to_dict(),
        runs=[run.id for run in trained],
    )  # fmt: skip


def began(path: Path, command: str) -> Call:
    """What a run says of the process that began it."""
    told = RunDir.open(path).read_json(ENVIRONMENT)
    source = told.get("git") or {}
    machine = {"device": told.get("device"), "platform": told.get("platform"), "cpus": told.get("cpus")}
    return Call(
        told["time"],
        command,
        source.get("commit"),
        source.get("dirty"),
        source.get("source"),
        told["versions"],
        machine,
    )


def replay_buffer_bytes(config: Config, transitions: int = 1_000_000) -> int:
    """What a buffer of a million transitions of this task would hold: each observation and mask once, and no memory."""
    spec = registry.make(config.env.name, 1, **config.env.kwargs).spec
    seen = math.prod(spec.obs_shape) * np.dtype(spec.obs_dtype).itemsize + (spec.num_actions if spec.masked else 0)
    return transitions * (spec.num_agents * (seen + 4) + 4 + 1)  # an action per agent; a reward and a flag for all


def _evaluation(trained: list[FinishedRun]) -> dict[str, float | int | None]:
    config = trained[0].config
    counts = [run.summary.get("eval_unfinished") or {} for run in trained]
    return {
        "episodes_per_seed": config.eval.num_envs,
        "unfinished": sum(count.get("total") or 0 for count in counts),
        "epsilon": config.eval.epsilon,
        "max_steps": counts[0].get("max_steps"),
    }


def _joined(parts: list[dict[str, PerSeed]]) -> dict[str, PerSeed]:
    """Values of several runs side by side; a metric that one of them lacks is left out."""
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: [value for part in parts for value in part[name]] for name in names}


def _join_curves(parts: list[Curves]) -> Curves:
    """Curves of several runs of one configuration; cut to the points that all have."""
    count = min(len(part.steps) for part in parts)
    names = [name for name in parts[0].values if all(name in part.values for part in parts)]
    values = {
        name: [[value for part in parts for value in part.values[name][point]] for point in range(count)]
        for name in names
    }
    return Curves(parts[0].steps[:count], parts[0].seconds[:count], values)


def _seconds(rows: list[Row], steps: np.ndarray | None = None) -> list[float | None]:
    """When each row was written, since the start; of pooled rows, the last of each point."""
    wall = {row["step"]: row.get("wall") for row in rows}
    asked = [row["step"] for row in rows] if steps is None else [int(step) for step in steps]
    return [round(found, 1) if (found := wall.get(step)) is not None else None for step in asked]


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over points [S] of those that are known."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(0)
    return np.divide(total, known.sum(0), out=np.full(values.shape[1], np.nan), where=known.any(0))


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if len(known) == len(values) else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
