"""Metrics for tools that people already watch: TensorBoard and Weights & Biases, beside metrics.jsonl, never instead.

A logger is given every row that goes into metrics.jsonl; it logs the mean over seeds under the row's kind. One that
fails (a full disk, a server that is gone) is left out from then on: a run never ends for its sake.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np

from pqn.errors import ConfigError, how_to_install
from pqn.runs.metrics import Row
from pqn.terminal import safe


class Logger(Protocol):
    def write(self, step: int, scalars: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run directory: `tensorboard --logdir runs`.

    Written without tensorboardX's `SummaryWriter`, whose thread dies of a full disk and leaves the next call waiting.
    """

    def __init__(self, run: Path, config: Mapping[str, object]):
        package = _require("tensorboardX", "tensorboard")
        events = importlib.import_module(f"{package.__name__}.event_file_writer")
        self.summary = importlib.import_module(f"{package.__name__}.summary")
        self.event = importlib.import_module(f"{package.__name__}.proto.event_pb2").Event
        (run / "tensorboard").mkdir(exist_ok=True)
        self.writer = events.EventsWriter(str(run / "tensorboard" / "events"))
        self._add(self.summary.text("config", str(dict(config))), 0)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._add(self.summary.scalar(name, value), step)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()

    def _add(self, summary: object, step: int) -> None:
        self.writer.write_event(self.event(wall_time=time.time(), step=step, summary=summary))


class Wandb:
    """A run of the project "pqn"; `WANDB_MODE=offline` and wandb's other variables work as usual."""

    def __init__(self, run: Path, config: Mapping[str, object]):
        module = _require("wandb", "wandb")
        self.run = module.init(
            project="pqn", name=run.name, dir=str(run), config=dict(config), resume="allow", id=run.name
        )

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        self.run.log(dict(scalars), step=step)

    def close(self) -> None:
        self.run.finish()


LOGGERS = {"tensorboard": TensorBoard, "wandb": Wandb}


class Guarded:
    """A logger that warns once when it fails, and is silent from then on.

    Args:
      name: what the warning calls it.
      make: makes the logger; it may fail, too.
      warn: is told why, in one sentence.
    """

    def __init__(self, name: str, make: Callable[[], Logger], warn: Callable[[str], None]):
        self.name, self.warn = name, warn
        self.logger: Logger | None = None
        self._attempt(lambda: setattr(self, "logger", make()))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        if self.logger is not None:
            self._attempt(lambda logger=self.logger: logger.write(step, scalars))

    def close(self) -> None:
        if self.logger is not None:
            self._attempt(self.logger.close)

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (Exception, SystemExit) as error:  # it is foreign code, and anything may come out of it
            self.logger = None
            why = " ".join(str(error).split())[:200] or type(error).__name__
            self.warn(f"{self.name} gets no more metrics: {why}; the run goes on, and metrics.jsonl has them all")


def open_loggers(
    names: tuple[str, ...], run: Path, config: Mapping[str, object], warn: Callable[[str], None] | None = None
) -> list[Logger]:
    """The loggers of a run; `warn` is told of one that fails, by default on standard error."""
    warn = warn or (lambda text: print(text, file=safe(sys.stderr), flush=True))
    return [Guarded(name, lambda name=name: LOGGERS[name](run, config), warn) for name in names]


def check_loggers(names: tuple[str, ...]) -> None:
    """Raises `ConfigError` for a logger whose package is missing, before anything has been created."""
    for name in names:
        _require({"tensorboard": "tensorboardX"}.get(name, name), name)


def scalars(row: Row) -> dict[str, float]:
    """The numbers of a metrics row, averaged over episodes and then over seeds; what has no number is left out."""
    found = {}
    for name, value in row.items():
        if name in ("kind", "update", "step") or name.endswith("_sum") or value is None:
            continue
        numbers = np.asarray(value, float)
        average = float(_mean(_mean(numbers) if numbers.ndim > 1 else np.atleast_1d(numbers)))
        if not math.isnan(average):
            found[f"{row['kind']}/{name}"] = average
    if row["kind"] == "train" and np.sum(row["episodes"]) > 0:
        found["train/return"] = float(np.sum(row["return_sum"]) / np.sum(row["episodes"]))
    return found


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis, without NaN; NaN where there is nothing else."""
    known = ~np.isnan(values)
    count = known.sum(axis=-1)
    return np.divide(
        np.where(known, values, 0.0).sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0
    )


def _require(package: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{package} is not installed: {how_to_install(extra)}") from error
    except Exception as error:  # installed, but broken: its own import may raise anything
        raise ConfigError(f"{package} cannot be imported: {' '.join(str(error).split())[:200]}") from error
