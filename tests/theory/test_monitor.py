"""The stability meter on real runs, and the commands of the theory."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

import pqn
from pqn.cli.main import main
from pqn.progress import Progress
from pqn.theory.monitor import Monitor


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_batch_is_the_rollout_the_run_learns_from_next(memory):
    """The update direction the meter sees is minus the gradient of the learner's own loss with λ = 0."""
    program = build(tiny({"network.memory": memory, "learner.lam": 0.0, "learner.reward_scale": 0.5}))
    state = run_updates(program, 2)
    monitor = Monitor(program, transitions=64)
    one = jax.tree.map(lambda x: x[0], state)
    batch = monitor.next_batch(one)
    q = monitor.q_values(one.learner.params, batch.obs)
    assert q.shape == (9, 8, 2) and batch.action.shape == (64,)
    # Values along the sequence are those the rollout acted on: one-step targets follow from them.
    taken = jnp.take_along_axis(q[:-1].reshape(64, 2), batch.action[:, None], axis=1)[:, 0]
    target = batch.reward + batch.discount * q[1:].max(-1).reshape(64)
    report = monitor.measure(state)
    np.testing.assert_allclose(report.td_rms, float(jnp.sqrt(jnp.mean((target - taken) ** 2))), rtol=1e-4)
    np.testing.assert_allclose(
        report.largest.value, report.largest.off_policy + report.largest.nonlinear, rtol=1e-2, atol=1e-4
    )
    assert report.smallest < 0 and report.transitions == 64


def test_stability_command(finished_run, capsys):
    assert main(["stability", str(finished_run.run), "--transitions", "64", "--iterations", "10", "--index", "1"]) == 0
    said = capsys.readouterr().out
    assert said.split(":")[0] in ("STABLE", "UNSTABLE", "NEUTRAL") and "after 640 steps" in said
    written = json.loads((finished_run.run / "stability.json").read_text())
    assert written["step"] == 640 and {"largest", "regularised", "final", "inner"} <= written.keys()


def test_stability_during_training(tmp_path):
    quiet = Progress(quiet=True)
    with_meter = pqn.train(tiny({"save.stability": 2}), out=tmp_path / "with", progress=quiet)
    rows = [json.loads(line) for line in (with_meter.run / "metrics.jsonl").read_text().splitlines()]
    found = [row for row in rows if row["kind"] == "stability"]
    assert [row["update"] for row in found] == [5, 10] and all(row["smallest"] < 0 for row in found)
    without = pqn.train(tiny(), out=tmp_path / "without", progress=quiet)
    assert with_meter.summary["eval_return"] == without.summary["eval_return"]  # measuring changes nothing


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["theory", "bairds"], "there is no experiment 'bairds'; did you mean 'baird'?"),
        (["theory", "baird", "--arms", "layr"], "invalid choice: 'layr'"),
        (["theory", "baird", "--width", "1"], "width is 1: LayerNorm needs at least 2 hidden units"),
        (["theory", "deepsea", "--depth", "1"], "depth is 1: DeepSea needs at least 2 rows"),
        (["stability", "nowhere"], "nowhere is not a run directory"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_stability_of_a_run_without_parameters(tmp_path, capsys):
    from pqn.runs import RunDir

    with RunDir.create(tmp_path / "run") as run:
        run.write_json("config.json", tiny().to_dict())
    assert main(["stability", str(tmp_path / "run")]) == 2
    assert "there is no checkpoint" in capsys.readouterr().err
    assert main(["stability", str(tmp_path / "run"), "--index", "3"]) == 2
    assert "has 1 seeds, numbered from 0" in capsys.readouterr().err


def test_theory_command_writes_json_and_figure(tmp_path, capsys):
    options = {"--arms": "none layer+l2", "--kinds": "expected", "--updates": "200", "--records": "10", "--seeds": "2"}
    words = ["theory", "baird", *(w for name, value in options.items() for w in (name, *value.split())), "--out"]
    assert main([*words, str(tmp_path)]) == 0
    content = json.loads((tmp_path / "baird.json").read_text())
    assert content["provenance"]["command"].startswith("pqn theory baird --arms none layer+l2")
    assert (tmp_path / "baird.png").exists()
