"""The smoke run: every experiment, every program once, with options that fit together."""

from __future__ import annotations

import pytest

from pqn.experiments import smoke
from pqn.experiments.paper import EXPERIMENTS, Arm

PLAN = smoke.plan()


def test_every_arm_is_run_or_represented() -> None:
    arms = [arm for entry in EXPERIMENTS.values() for arm in entry.arms]
    assert set(PLAN.run) | set(PLAN.represented) == set(arms)
    assert not set(PLAN.run) & set(PLAN.represented)
    assert all(stands in PLAN.run for stands in PLAN.represented.values())


def test_every_experiment_is_run() -> None:
    assert {arm.experiment for arm in PLAN.run if arm.known} == set(EXPERIMENTS)


def test_nothing_but_the_same_method_stands_for_an_opponent() -> None:
    for arm, stands in PLAN.represented.items():
        assert stands.algorithm == arm.algorithm
        assert arm.algorithm in ("pqn", "td", "boot-dqn") or stands.method == arm.method


@pytest.mark.parametrize("arm", [arm for arm in PLAN.run if arm.known], ids=lambda arm: f"{arm.experiment}-{arm.name}")
def test_options_make_an_arm_small(arm: Arm) -> None:
    options = smoke.overrides(arm)
    if arm.program == "training":
        config = arm.config().replace(options).validate()
        assert config.updates == (4 if config.replays else 1) * smoke.UPDATES and config.steps_per_update <= 32
        assert config.network.hidden == (8,) and config.eval.max_steps == 8
        assert not config.env.name.startswith("Craftax-Symbolic")
