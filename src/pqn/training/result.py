"""What a run hands back: its directory, its outcome, its metrics, its agents."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from pqn.agent import Agent
from pqn.play import Which, load
from pqn.runs.directory import RunDir
from pqn.runs.tidy import Metrics


@dataclasses.dataclass(frozen=True)
class Result:
    """A run that has ended.

    Attributes:
      run: its directory.
      summary: what its summary.json says.
    """

    run: Path
    summary: dict[str, Any]

    def __fspath__(self) -> str:
        """A result can be given wherever its run directory can: `pqn.evaluate(result)`."""
        return str(self.run)

    @property
    def metrics(self) -> Metrics:
        """Its metrics as a table: `result.metrics.to_csv(path)`, `result.metrics.frame()`."""
        return Metrics.of(RunDir.open(self.run))

    @property
    def stopped(self) -> str | None:
        """Why a callback ended it before its plan was fulfilled; None where the plan was."""
        return (self.summary.get("stopped") or {}).get("reason")

    def agent(self, seed: int | None = None, *, checkpoint: Which = "last", network: object = None) -> Agent:
        """The trained agent; see `pqn.load`."""
        return load(self.run, seed, checkpoint=checkpoint, network=network)
