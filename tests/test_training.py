"""A run as a whole: equalities that must never break, and everything that can go wrong while it runs."""

from __future__ import annotations

import io
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny
from explosive import Explosive
from saved import read_tree, restore_latest

import bench.kill
import pqn
from pqn.errors import ConfigError, Diverged, RunError
from pqn.progress import Progress, clock, format_line, human
from pqn.runs import checkpoint
from pqn.runs.metrics import read_metrics

QUIET = Progress(quiet=True)


def final_state(run: Path) -> dict:
    path = checkpoint.latest(run / "checkpoints")
    assert path is not None
    return read_tree(path)


def assert_same(a, b) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("batched", [False, True])
def test_a_seed_among_others_equals_the_seed_alone(batched, monkeypatch):
    """Seed 1 of a two-seed program is the program of seed 1 alone: to the bit on a CPU, which takes seeds in turn; up
    to the order of a dot product's additions where seeds are one batch, as on an accelerator."""
    alone = run_updates(build(tiny(seed=1, seeds=1)), 3)
    if batched:
        monkeypatch.setattr("pqn.programs.compiled.over_seeds", lambda function, seeds: jax.vmap(function))
    both = run_updates(build(tiny(seed=0, seeds=2)), 3)
    np.testing.assert_array_equal(jax.random.key_data(both.key)[1], jax.random.key_data(alone.key)[0])
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if batched else {"rtol": 0, "atol": 0}

    def compare(a, b):
        np.testing.assert_allclose(a[1], b[0], **tolerance)

    jax.tree.map(compare, both.learner, alone.learner)
    jax.tree.map(compare, both.stream.inputs, alone.stream.inputs)


def test_cutting_a_run_into_chunks_changes_nothing():
    program = build(tiny())
    whole, parts = run_updates(program, 5), run_updates(program, 3, run_updates(program, 2))
    for a, b in zip(jax.tree.leaves(whole.learner), jax.tree.leaves(parts.learner), strict=True):
        np.testing.assert_array_equal(a, b)


def test_evaluation_does_not_change_training(tmp_path):
    often = pqn.train(tiny({"eval.count": 10}), out=tmp_path / "often", progress=QUIET)
    never = pqn.train(tiny({"eval.count": 0}), out=tmp_path / "never", progress=QUIET)
    assert never.summary["eval_return"] is None
    assert_same(final_state(often.run), final_state(never.run))


def test_a_run_explains_itself(finished_run):
    run, summary = finished_run.run, finished_run.summary
    assert summary["steps"] == 640 and summary["seeds"] == 2 and len(summary["eval_return"]["per_seed"]) == 2
    wanted = {"preset", "env", "steps", "seeds", "wall_seconds", "compile_seconds", "steps_per_second", "device"}
    wanted |= {"peak_memory_bytes", "process_seconds"}
    assert wanted <= summary.keys()
    config = json.loads((run / "config.json").read_text())
    assert pqn.Config.from_dict(config) == tiny(seeds=2)
    environment = json.loads((run / "environment.json").read_text())
    assert environment["versions"]["jax"] == jax.__version__
    rows = read_metrics(run / "metrics.jsonl")
    evals = [row for row in rows if row["kind"] == "eval"]
    assert [row["update"] for row in evals] == [0, 5, 10]  # before training, and on the final weights
    assert np.shape(evals[-1]["returns"]) == (2, 4)
    np.testing.assert_allclose(np.mean(evals[-1]["returns"], axis=1), summary["eval_return"]["per_seed"], rtol=1e-6)
    train = [row for row in rows if row["kind"] == "train"]
    assert train[-1]["update"] == 10
    # CartPole pays 1 a step: over the run, finished episodes account for no more steps than were taken.
    assert np.allclose(
        sum(np.array(row["return_sum"]) for row in train), sum(np.array(row["length_sum"]) for row in train)
    )
    assert all(total <= 640 for total in sum(np.array(row["length_sum"]) for row in train))


def test_rows_say_how_much_memory_a_device_has_held(tmp_path, monkeypatch):
    """A run that is stopped has no summary, but it has rows."""
    held = iter(range(100, 10_000, 100))
    monkeypatch.setattr("pqn.runs.provenance.peak_memory", lambda: next(held))
    run = pqn.train(tiny(), out=tmp_path / "run", progress=QUIET)
    rows = [row for row in read_metrics(run.run / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["peak_memory_bytes"] for row in rows] == [100 * (i + 1) for i in range(len(rows))]
    assert run.summary["peak_memory_bytes"] == 100 * (len(rows) + 1)


def test_checkpoints_are_kept_and_pruned(finished_run):
    names = sorted(path.name for path in (finished_run.run / "checkpoints").iterdir())
    assert names == ["step-000000000006", "step-000000000008", "step-000000000010"]


def test_a_default_cartpole_run_writes_at_least_five_checkpoints():
    assert pqn.preset("cartpole").save.checkpoints >= 5


def test_resume_after_an_interruption_equals_an_uninterrupted_run(tmp_path, finished_run):
    """SIGTERM in the middle: the run saves, says how to resume, and ends with the same bits."""
    out = tmp_path / "run"
    process = start_run(out)
    wait_for(lambda: list((out / "checkpoints").glob("step-*")))
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=120)
    if process.returncode == 130:
        assert f"pqn resume {out}" in stderr
    else:
        assert process.returncode == 0  # it was quicker than the signal
    resumed = pqn.resume(out, progress=QUIET)
    whole = uninterrupted(tmp_path)
    assert_same(final_state(resumed.run), final_state(whole))
    assert logged(out) == logged(whole)


def test_resume_after_kill_9_equals_an_uninterrupted_run(tmp_path):
    """Killed at random moments: `python -m bench.kill --kills 100` does it more often."""
    good, hit, problems = bench.kill.trial(tmp_path, kills=3, seed=random.randrange(1000))
    assert good == 3 and sum(hit.values()) == 3, problems


def logged(run: Path) -> list:
    """The rows of a run's metrics, without their clocks."""
    clocks = ("wall", "steps_per_second")
    return [{k: v for k, v in row.items() if k not in clocks} for row in read_metrics(run / "metrics.jsonl")]


LONGER = ["--total-steps", "64000", "--save.checkpoints", "50", "--log.rows", "100", "--eval.count", "4"]
SMALL = ["--env.num-envs", "8", "--network.hidden", "16", "--learner.rollout-steps", "8", "--learner.minibatches", "4"]


def pqn_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pqn", *words]


def start_run(out: Path) -> subprocess.Popen:
    command = pqn_command("train", "cartpole-paper", "--out", str(out), *SMALL, *LONGER)
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def uninterrupted(tmp_path: Path) -> Path:
    out = tmp_path / "whole"
    assert start_run(out).communicate() is not None
    return out


def wait_for(condition, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_resume_uses_the_previous_checkpoint_when_the_newest_is_torn(tmp_path, finished_run):
    import shutil

    out = tmp_path / "run"
    shutil.copytree(finished_run.run, out)
    (out / "summary.json").unlink()
    newest = checkpoint.latest(out / "checkpoints")
    data = newest / "state.safetensors"
    data.write_bytes(data.read_bytes()[:-100])
    said = []
    progress = Progress(quiet=True)
    progress.warn = said.append
    resumed = pqn.resume(out, progress=progress)
    assert any("step-000000000010" in line and "previous" in line for line in said)
    assert_same(final_state(resumed.run), final_state(finished_run.run))


def test_resuming_a_complete_run_changes_nothing(finished_run):
    again = pqn.resume(finished_run.run, progress=QUIET)
    assert again.summary == finished_run.summary


def test_a_second_process_is_refused(tmp_path):
    from pqn.runs.directory import RunDir

    with RunDir.create(tmp_path / "run") as run:
        run.write_json("config.json", tiny().to_dict())
        with pytest.raises(RunError, match="in use by"):
            pqn.resume(tmp_path / "run", progress=QUIET)


def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Diverged, match="seed 0 became NaN or infinite at update 3; the last good checkpoint is"):
        pqn.train(tiny({"save.checkpoints": 10}), env=Explosive(), out=out, progress=QUIET)
    assert_finite = [np.isfinite(x).all() for x in jax.tree.leaves(final_state(out)["learner"])]
    assert all(assert_finite)


@pytest.mark.parametrize("config", ["cartpole", {"preset": "cartpole"}, None, pqn.Config])
def test_what_is_no_configuration_is_answered_with_how_to_get_one(config, tmp_path):
    with pytest.raises(ConfigError, match=r"^config is .*; it must be a Config, such as pqn\.preset\('cartpole'\)$"):
        pqn.train(config, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_failed_start_leaves_no_directory(tmp_path):
    with pytest.raises(pqn.PqnError):
        pqn.train(tiny({"env.name": "CartPole-v9"}), out=tmp_path / "run", progress=QUIET)
    assert not (tmp_path / "run").exists()


def test_progress_line():
    fields = {"step": 230_000, "total": 500_000, "return": 187.31, "eval": None, "epsilon": 0.2}
    line = format_line(fields | {"loss": 0.0132, "rate": 61_234.0, "eta": 64.0})
    assert line == " 46 %  230 k steps  return 187.3  ε 0.20  loss 0.0132  61.2 k steps/s  ETA 1:04"
    assert [human(x) for x in (12, 1234, 5.6e6, 1e10)] == ["12", "1.23 k", "5.6 M", "10 G"]
    assert clock(3725) == "1:02:05"


def test_lines_of_a_log_file_grow_rare(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("pqn.progress.time.monotonic", lambda: now)
    stream = io.StringIO()
    progress = Progress(stream)
    fields = {"total": 86_400, "return": None, "eval": None, "epsilon": 0.0, "loss": None, "rate": 1.0, "eta": None}
    counts = {}
    for step in range(86_401):  # a day
        now = 1000.0 + step
        progress.update(fields | {"step": step})
        counts[step] = stream.getvalue().count("\n") if step in (60, 86_400) else 0
    assert 10 <= counts[60] <= 12 and 200 < counts[86_400] < 500


def test_agent_acts_like_the_trained_network(finished_run):
    agent = pqn.load(finished_run.run, seed=1)
    assert agent.step == 640
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    q = agent.q_values(obs)
    assert q.shape == (5, 2)
    np.testing.assert_array_equal(agent.act(obs), q.argmax(axis=1))
    assert agent.act(obs[0]) == int(q[0].argmax())
    assert agent.act(obs, avail=np.array([[True, False]] * 5)).tolist() == [0] * 5
    assert not np.array_equal(q, pqn.load(finished_run.run, seed=0).q_values(obs))
    with pytest.raises(RunError, match="trained seeds 0 to 1, not 7"):
        pqn.load(finished_run.run, seed=7)
    with pytest.raises(ValueError, match=r"has shape \(4,\)"):
        agent.act(np.zeros(3))


def test_batch_statistics_survive_a_checkpoint(tmp_path):
    config = tiny({"network.norm": "batch", "network.norm_input": "batch"})
    result = pqn.train(config, out=tmp_path / "run", progress=QUIET)
    program = build(config)
    state, _ = restore_latest(result.run / "checkpoints", program.saved_shape())
    learner = jax.tree.map(lambda x: x[0], state.learner)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    from pqn.types import Inputs

    _, q = program.algorithm.actor.scores(learner, (), Inputs(jnp.asarray(obs)[:, None], jnp.zeros((5, 1), bool)))
    np.testing.assert_allclose(pqn.load(result.run).q_values(obs), q[:, 0], rtol=1e-5)
    assert any(np.any(x != 0) for x in jax.tree.leaves(learner.stats))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"overwrite": "no"}, "overwrite is 'no'; it must be true or false"),
        ({"progress": "quiet"}, "progress is 'quiet'; it must be True, False"),
        ({"out": ""}, "is ''; it must be a path, not empty"),
    ],
    ids=str,
)
def test_what_train_is_told(options, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pqn.PqnError, match=sentence):
        pqn.train(tiny(), **{"out": "run"} | options)
    assert not list(tmp_path.glob("**/config.json"))


def test_without_progress(tmp_path, capsys):
    pqn.train(tiny(), out=tmp_path / "run", progress=False)
    assert capsys.readouterr() == ("", "")
