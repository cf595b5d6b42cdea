"""Metrics for tools that people already watch: TensorBoard and Weights & Biases, beside metrics.jsonl, never instead.

A logger is given every row that goes into metrics.jsonl; it logs the mean over seeds under the row's kind.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pqn.errors import ConfigError
from pqn.report.statistics import mean


class Logger(Protocol):
    def write(self, step: int, scalars: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run directory: `tensorboard --logdir runs`."""

    def __init__(self, run: Path, config: Mapping[str, Any]):
        module = _require("tensorboardX", "tensorboard")
        self.writer = module.SummaryWriter(str(run / "tensorboard"))
        self.writer.add_text("config", str(dict(config)))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class Wandb:
    """A run of the project "pqn"; `WANDB_MODE=offline` and wandb's other variables work as usual."""

    def __init__(self, run: Path, config: Mapping[str, Any]):
        module = _require("wandb", "wandb")
        self.run = module.init(
            project="pqn", name=run.name, dir=str(run), config=dict(config), resume="allow", id=run.name
        )

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        self.run.log(dict(scalars), step=step)

    def close(self) -> None:
        self.run.finish()


LOGGERS = {"tensorboard": TensorBoard, "wandb": Wandb}


def open_loggers(names: tuple[str, ...], run: Path, config: Mapping[str, Any]) -> list[Logger]:
    return [LOGGERS[name](run, config) for name in names]


def check_loggers(names: tuple[str, ...]) -> None:
    """Raises `ConfigError` for a logger whose package is missing, before anything has been created."""
    for name in names:
        _require({"tensorboard": "tensorboardX"}.get(name, name), name)


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a metrics row, averaged over episodes and then over seeds; what has no number is left out."""
    found = {}
    for name, value in row.items():
        if name in ("kind", "update", "step") or name.endswith("_sum") or value is None:
            continue
        numbers = np.asarray(value, float)
        average = float(mean(mean(numbers, axis=-1) if numbers.ndim > 1 else numbers))
        if not math.isnan(average):
            found[f"{row['kind']}/{name}"] = average
    if row["kind"] == "train" and np.sum(row["episodes"]) > 0:
        found["train/return"] = float(np.sum(row["return_sum"]) / np.sum(row["episodes"]))
    return found


def _require(package: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(f"{package} is not installed: pip install 'pqn-jax[{extra}]'") from error
