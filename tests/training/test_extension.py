"""Training on beyond the plan: what happens to the schedules, and that the run says what was done to it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny
from opening import Listening, copy_of
from test_callbacks import same_learner

import pqn
from pqn.algorithms.base import schedules
from pqn.cli.main import main
from pqn.errors import CheckpointError, ConfigError, RunError
from pqn.programs.compiled import CompiledProgram
from pqn.progress import Progress
from pqn.runs.metrics import read_metrics
from pqn.runs.opened import open_run
from pqn.training.extension import describe, extended

QUIET = Progress(quiet=True)


def plan(run: Path) -> dict:
    return json.loads((run / "config.json").read_text())


# ------------------------------------------------------------------------------------------------------- the schedules


def test_what_was_trained_stays_true_for_epsilon():
    """It falls to its end within the same number of updates, whatever becomes of the learning rate."""
    before = tiny({"learner.eps_decay": 0.5}, total_steps=640)
    for options in ({}, {"learner.lr_decay": False}, {"learner.lr_finish": 1e-5}):
        after = extended(before.replace(options), 2560)
        assert after.updates == 40
        for update in range(0, 40, 3):
            wanted = schedules(before, min(update, 10))["epsilon"]
            assert schedules(after, update)["epsilon"] == pytest.approx(wanted, rel=1e-9), (options, update)


def test_a_learning_rate_that_fell_to_0_falls_over_the_longer_run():
    before = tiny({"learner.lr": 0.1}, total_steps=640)
    after = extended(before, 2560)
    assert [schedules(after, update)["lr"] for update in (10, 20, 40)] == pytest.approx([0.075, 0.05, 0.0])
    assert describe(before, after, 10) == (
        "training on to 2,560 steps (planned were 640), with ε 0.2; the learning rate, which had fallen to 0, is 0.075 "
        "now and falls to 0 at the new end"
    )
    assert describe(before, after, 10, explores=False) == (
        "training on to 2,560 steps (planned were 640); the learning rate, which had fallen to 0, is 0.075 now and "
        "falls to 0 at the new end"
    )


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ({"learner.lr_decay": False}, 0.1),
        ({"learner.lr_schedule": "constant"}, 0.1),
        ({"learner.lr_schedule": "cosine", "learner.lr_finish": 0.02}, 0.02),
        ({"learner.lr_schedule": "piecewise", "learner.lr_points": [0.0, 0.1, 1.0, 0.03]}, 0.03),
    ],
)
def test_any_other_learning_rate_stays_where_it_ended(options, end):
    before = tiny({"learner.lr": 0.1} | options, total_steps=640)
    after = extended(before, 1280)
    for update in range(11):
        assert schedules(after, update) == pytest.approx(schedules(before, update))
    assert schedules(after, 20)["lr"] == pytest.approx(end)
    assert f"and the learning rate {end:g}" in describe(before, after, 10)


def test_points_of_epsilon_keep_their_steps():
    before = tiny({"learner.eps_schedule": "piecewise", "learner.eps_points": [0.5, 1.0, 1.0, 0.1]}, total_steps=640)
    after = extended(before, 1280)
    assert after.learner.eps_points == (0.25, 1.0, 0.5, 0.1)
    assert schedules(after, 15)["epsilon"] == pytest.approx(0.1)


@pytest.mark.parametrize(("steps", "said"), [(639, "planned for 640; give more"), (0, "total_steps is 0")])
def test_a_plan_is_never_shortened(steps, said):
    with pytest.raises(ConfigError, match=said):
        extended(tiny(total_steps=640), steps)
    assert extended(tiny(total_steps=640), 640) == tiny(total_steps=640)


# ---------------------------------------------------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def longer(tmp_path_factory) -> tuple[Path, list[str]]:
    """A run of five updates whose learning rate is constant, and then of ten."""
    config = tiny({"learner.lr_decay": False, "save.keep": 10, "save.checkpoints": 5}, total_steps=320)
    out = tmp_path_factory.mktemp("longer") / "run"
    pqn.train(config, out=out, progress=QUIET)
    listening = Listening()
    pqn.resume(out, total_steps=640, progress=listening)
    return out, listening.said


def test_it_trains_as_if_it_had_been_planned_with_these_schedules(longer, tmp_path):
    run, said = longer
    assert "training on to 640 steps (planned were 320), with ε 0.2 and the learning rate 0.0001" in said
    options = {"learner.lr_decay": False, "learner.schedule_steps": 320}
    planned = pqn.train(tiny(options, total_steps=640), out=tmp_path / "planned", progress=QUIET)
    same_learner(run, planned.run)
    rows = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
    assert rows[-1]["update"] == 10 and all(row["lr"] == 1e-4 for row in rows)


def test_an_algorithm_without_exploration_is_told_nothing_about_it(tmp_path):
    config = tiny({"eval.count": 0, "network.norm": "none", "learner.lr_decay": False}, algorithm="ppo", total_steps=64)
    pqn.train(config, out=tmp_path / "run", progress=QUIET)
    listening = Listening()
    pqn.resume(tmp_path / "run", total_steps=128, progress=listening)
    assert "training on to 128 steps (planned were 64), with the learning rate 0.0001" in listening.said


def test_the_run_records_its_history(longer):
    run, _ = longer
    changed = {"total_steps": [320, 640], "learner.schedule_steps": [0, 320]}
    assert plan(run)["history"] == [{"update": 5, "step": 320, "options": changed}]
    assert plan(run)["total_steps"] == 640
    before, after = pqn.load(run, checkpoint=320), pqn.load(run)
    assert (before.step, before.config.total_steps) == (320, 320)
    assert (after.step, after.config.total_steps) == (640, 640)
    assert pqn.resume(run, total_steps=640, progress=QUIET).summary["steps"] == 640  # the same command again
    with pytest.raises(ConfigError, match="planned for 640; give more"):
        pqn.resume(run, total_steps=320, progress=QUIET)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p.pop("history"), "total_steps is 640 in config.json and 320 in the checkpoint"),
        (lambda p: p["history"][0].update(update=3), "total_steps is 640 in config.json and 320 in the checkpoint"),
        (lambda p: p["history"][0]["options"].update(total_steps=[128, 640]), "total_steps is 128 .* and 320"),
        (lambda p: p["history"][0]["options"].update({"learner.lr": [0.1, 0.2]}), "changed which is none of total"),
        (lambda p: p["history"][0]["options"].update(total_steps=[-1, 640]), "an old value that cannot be"),
        (lambda p: p.update(history="long ago"), "is not a list of changes"),
        (lambda p: p.update(history=[3]), "an entry that is no change"),
        (lambda p: p["history"].append({"update": 2, "step": 128, "options": {}}), "is not in order"),
    ],
)
def test_a_history_that_was_edited_is_refused(longer, tmp_path, change, sentence):
    run = copy_of(longer[0], tmp_path)
    content = plan(run)
    change(content)
    (run / "config.json").write_text(json.dumps(content))
    with pytest.raises((RunError, CheckpointError), match=sentence):
        pqn.load(run, checkpoint=320)


def test_a_longer_run_that_falls_back_before_the_change(longer, tmp_path, monkeypatch):
    """The changed plan holds from the older checkpoint on, and is recorded so."""
    run = copy_of(longer[0], tmp_path)
    for path in sorted((run / "checkpoints").iterdir()):
        if path.name > "step-000000000003":
            (path / "state.safetensors").write_bytes(b"spoiled")
    resumed = pqn.resume(run, progress=Listening())
    assert resumed.summary["steps"] == 640
    assert [(entry["update"], entry["step"]) for entry in plan(run)["history"]] == [(3, 192)]
    assert open_run(run).trained(256).config.total_steps == 640
    assert open_run(run).trained(192).config.total_steps == 320


def test_a_part_of_a_long_run_goes_on_to_the_same_bits(tmp_path, finished_run, capsys):
    config = tiny({"learner.schedule_steps": 640}, seeds=2, total_steps=320)
    run = pqn.train(config, out=tmp_path / "part", progress=QUIET).run
    assert main(["resume", str(run), "--total-steps", "6.4e2", "--quiet"]) == 0
    assert "greedy return" in capsys.readouterr().out
    same_learner(run, finished_run.run)
    np.testing.assert_equal(plan(run)["history"][0]["options"], {"total_steps": [320, 640]})


def test_a_run_trained_on_keeps_the_layout_of_its_first_plan(longer, tmp_path, monkeypatch):
    """On an accelerator more may be unrolled for a longer run, and another program may round otherwise."""
    run, planned = copy_of(longer[0], tmp_path), []

    def stop(program: CompiledProgram) -> None:
        planned.append(program.planned_updates)
        raise RunError("far enough")

    monkeypatch.setattr(CompiledProgram, "compile", stop)
    with pytest.raises(RunError, match="far enough"):
        pqn.resume(run, total_steps=6400, progress=QUIET)
    with pytest.raises(RunError, match="far enough"):
        pqn.train(tiny(total_steps=6400), out=tmp_path / "new", progress=QUIET)
    assert planned == [320 // 64, 6400 // 64]
