"""Where a run stands, and how that is told: on the progress line, in a checkpoint, and in summary.json at the end."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pqn.programs import evaluation
from pqn.programs.base import Program
from pqn.progress import Status
from pqn.runs import provenance
from pqn.runs.identity import spec_to_dict
from pqn.runs.pending import Pending


@dataclasses.dataclass(frozen=True)
class Standing:
    """What a run has done so far, in all its processes."""

    program: Program
    update: int  # updates done
    steps: int  # environment steps done, per seed
    pending: Pending
    wall_seconds: float
    train_seconds: float
    returns: np.ndarray | None  # greedy ones of the last evaluation [S, E]; NaN where an episode did not end
    evaluated_at: int | None  # update of that evaluation

    def status(self) -> Status:
        """What the progress line shows."""
        config = self.program.config
        means = self.pending.shown | self.pending.means(config)
        rate = means.get("rate")
        left = (config.updates - self.update) * config.steps_per_update * config.seeds
        return {
            "step": self.steps,
            "total": config.steps,
            "return": means.get("return"),
            "eval": None if self.returns is None else evaluation.mean(self.returns),
            "unfinished": self.unfinished(),
            "epsilon": self.program.algorithm.schedules(self.update).get("epsilon"),
            "loss": means.get("loss"),
            "rate": rate,
            "eta": left / rate if rate else None,
        }

    def metadata(self) -> dict[str, object]:
        """What a checkpoint says about itself."""
        return {
            "update": self.update,
            "step": self.steps,
            "config": self.program.config.to_dict(),
            "spec": spec_to_dict(self.program.algorithm.spec),
            "seconds": {"wall": self.wall_seconds, "train": self.train_seconds},
            "eval_returns": self.returns,
            "eval_update": self.evaluated_at,
            "pending": self.pending.to_dict(),
        }

    def summary(self, process_seconds: dict[str, float | None], reason: str | None) -> dict[str, object]:
        """What summary.json says of a run that ends here.

        Args:
          process_seconds: of this process, by phase; see `Clock.report`.
          reason: why a callback ends it, if one does.
        """
        config, returns = self.program.config, self.returns
        return {
            "preset": config.preset,
            "algorithm": config.algorithm,
            "env": config.env.name,
            "steps": self.steps,
            "requested_steps": config.total_steps,
            "seeds": config.seeds,
            "wall_seconds": round(self.wall_seconds, 3),
            "compile_seconds": round(self.program.compile_seconds, 3),
            "train_seconds": round(self.train_seconds, 3),
            "process_seconds": process_seconds,
            "steps_per_second": round(self.steps * config.seeds / max(self.train_seconds, 1e-9), 1),
            "eval_return": None
            if returns is None
            else {"mean": evaluation.mean(returns), "per_seed": evaluation.means(returns)},
            "eval_step": None if self.evaluated_at is None else self.evaluated_at * config.steps_per_update,
            "eval_unfinished": self.unfinished(),
            "stopped": self.stopped(reason),
            "device": provenance.describe_device(),
            "peak_memory_bytes": provenance.peak_memory(),
            "peak_process_bytes": provenance.peak_process_memory(),
            "memory_bytes": None if self.program.memory is None else self.program.memory._asdict(),
        }

    def stopped(self, reason: str | None) -> dict[str, Any] | None:
        """Why the run ended before its plan was fulfilled; None where it was."""
        planned = self.program.config.updates
        if self.update >= planned:
            return None
        return {"reason": reason, "update": self.update, "planned_updates": planned}

    def unfinished(self) -> dict[str, Any] | None:
        """How many episodes of the last evaluation did not end, and are in none of its means."""
        if self.returns is None:
            return None
        per_seed = np.isnan(self.returns).sum(axis=1)
        limit = evaluation.step_limit(self.program.config, self.program.algorithm.spec)
        counts = {"episodes": self.returns.size, "total": int(per_seed.sum()), "per_seed": per_seed}
        return counts | {"max_steps": limit}
