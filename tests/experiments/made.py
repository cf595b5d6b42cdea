"""Results for tests, made without training."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pqn.experiments import envelope
from pqn.experiments.envelope import Curves, Envelope
from pqn.experiments.paper import Arm, experiment, find_arms
from pqn.experiments.record import Call

CALL = Call(
    "2026-11-18T05:12:00+00:00", "pqn reproduce", "abcdef0123", False, "git", {"jax": "0.10"},
    {"device": "gpu: NVIDIA H200"},
)  # fmt: skip


def arm_of(name: str, arm: str) -> Arm:
    return find_arms(experiment(name), [arm])[0]


def result(arm: Arm, final: list[float | None], **changes: object) -> Envelope:
    """A complete result of an arm with these final values of its metric."""
    metric, curve = experiment(arm.experiment).metric, experiment(arm.experiment).curve
    rows = [[0.0] * len(final), final]
    made = Envelope(
        arm.experiment, arm.name, arm.task, arm.method, arm.algorithm, arm.preset, "pqn reproduce", [CALL],
        seeds=list(range(len(final))), share=1.0, steps=100, budget=100, complete=True, metric=metric,
        final={metric: final}, evaluation={}, curves={"greedy": Curves([0, 100], [0.0, 1.0], {curve or metric: rows})},
        seconds={"wall": 10.0, "compile": 4.0, "train": 5.0}, steps_per_second=1000.0, peak_bytes=10**9,
        replay_bytes=None, config={}, runs=[],
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def later(date: str) -> list[Call]:
    return [dataclasses.replace(CALL, date=date)]


def write(out: Path, arm: Arm, final: list[float | None], **changes: object) -> Path:
    return envelope.write(out, result(arm, final, **changes))
