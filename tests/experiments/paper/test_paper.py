"""The experiments of the paper as data: whole, consistent, and trainable."""

from __future__ import annotations

import re

import pytest

from pqn.errors import ConfigError
from pqn.experiments.paper import EXPERIMENTS, experiment, find_arms
from pqn.experiments.paper.base import Arm, Experiment, estimate
from pqn.presets import PRESETS

ARMS = [arm for entry in EXPERIMENTS.values() for arm in entry.arms]

# Opponents whose algorithms are not here yet. Becomes empty when they are: an arm without a preset is a mistake then.


def test_every_experiment_of_the_paper_is_there() -> None:
    assert set(EXPERIMENTS) >= {
        "baird", "lemma", "deepsea", "classic", "minatar", "num-envs", "pong", "atari-10", "atari-57", "atari-lambda",
        "atari-norm", "atari-offpolicy", "atari-dopamine", "craftax", "craftax-rnn", "craftax-norm", "craftax-replay",
        "smax", "overcooked", "hanabi", "speed",
    }  # fmt: skip
    assert len(EXPERIMENTS["atari-57"].tasks) == 57 and len(EXPERIMENTS["smax"].tasks) == 9


@pytest.mark.parametrize("entry", EXPERIMENTS.values(), ids=lambda entry: entry.name)
def test_an_experiment_is_consistent(entry: Experiment) -> None:
    names = [arm.name for arm in entry.arms]
    assert len(set(names)) == len(names)
    assert len({(arm.method, arm.task) for arm in entry.arms}) == len(names), "a table has one cell for each"
    assert all(re.fullmatch(r"[a-z0-9_.-]+", name) for name in [entry.name, *names])
    assert all(arm.experiment == entry.name and arm.minutes > 0 and arm.gigabytes > 0 for arm in entry.arms)
    assert entry.where and (entry.claim or not entry.in_paper)


def test_every_arm_has_its_preset() -> None:
    assert not sorted({arm.preset for arm in ARMS if not arm.known})


def test_every_arm_can_be_trained_whole_and_in_part() -> None:
    for arm in ARMS:
        if arm.known and arm.program == "training":
            whole = arm.config(seeds=3).validate()
            assert whole.seeds == 3 and whole.algorithm == arm.algorithm, arm.name
            part = arm.config(share=0.1).validate()
            assert part.schedule_updates == whole.schedule_updates, (
                f"{arm.name}: a share has the schedules of the whole"
            )
            assert abs(part.total_steps - 0.1 * whole.total_steps) <= whole.steps_per_update


def test_the_number_of_environments_changes_neither_batch_nor_gradient_steps() -> None:
    """As the paper's caption says of its figure."""
    for arm in EXPERIMENTS["num-envs"].arms:
        config = arm.config()
        assert config.steps_per_update // config.learner.minibatches == 128
        assert config.learner.epochs * config.learner.minibatches / config.steps_per_update == 1 / 64


def test_the_papers_values_stand_with_their_arms() -> None:
    """Of the text and the tables of the paper."""
    paper = {f"{arm.experiment}/{arm.name}": arm.paper for arm in ARMS if arm.paper is not None}
    assert paper["craftax-rnn/pqn"] == 16.0 and paper["craftax-rnn/ppo"] == 15.3 and paper["hanabi/pqn"] == 24.0
    assert paper["atari-57/pqn-pong"] == 20.92 and paper["atari-10/pqn-qbert"] == 31716.67


def test_a_smaller_share_and_fewer_seeds_take_less_time() -> None:
    entry = experiment("minatar")
    arm = entry.arms[0]
    assert estimate(arm, entry, 0.1, 10) < estimate(arm, entry, 1.0, 10) == pytest.approx(arm.minutes)
    assert estimate(arm, entry, 1.0, 1) < estimate(arm, entry, 1.0, 10)


def test_names_that_do_not_exist_are_told() -> None:
    with pytest.raises(ConfigError, match="there is no experiment 'minatr'; did you mean 'minatar'"):
        experiment("minatr")
    with pytest.raises(ConfigError, match="minatar has no arm 'pqn-brekout'; did you mean 'pqn-breakout'"):
        find_arms(experiment("minatar"), ["pqn-brekout"])


def test_an_arm_of_an_unknown_preset_is_known_to_be_so() -> None:
    assert not Arm("a", "A", "task", "no-such-preset").known
    assert Arm("a", "A", "task", next(iter(PRESETS))).known
