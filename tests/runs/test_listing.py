"""Runs at a glance, their metrics as tables, and runs that are replaced."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny
from opening import copy_of

import pqn
from pqn.cli.main import main
from pqn.errors import ConfigError, PqnError, RunError
from pqn.progress import Progress
from pqn.runs.directory import RunDir
from pqn.runs.metrics import curve, read_metrics
from pqn.runs.tidy import Metrics

QUIET = Progress(quiet=True)


@pytest.fixture
def runs(tmp_path, finished_run) -> Path:
    """A directory with a run of each kind, and with what is none."""
    root = tmp_path / "runs"
    for name in ("a/finished", "killed", "failed", "torn", "foreign", "summary", "training"):
        copy_of(finished_run.run, root / name).rename(root / name / "x")
        for file in (root / name / "x").iterdir():
            file.rename(root / name / file.name)
        (root / name / "x").rmdir()
    for name in ("killed", "failed", "training"):
        (root / name / "summary.json").unlink()
    (root / "failed" / "failure.json").write_text('{"kind": "Diverged", "reason": "seed 3 became \\u001b[31mNaN"}')
    config = root / "torn" / "config.json"
    config.write_text(config.read_text()[:100])
    (root / "foreign" / "config.json").write_text('{"model_type": "bert"}')
    (root / "summary" / "summary.json").write_text("{}")
    (root / "empty").mkdir()
    (root / "notes.txt").write_text("nothing")
    os.symlink(finished_run.run, root / "link")
    return root


def test_every_run_and_how_it_ended(runs, finished_run):
    with RunDir.open(runs / "training") as training:
        training.lock()
        found = {info.name: info for info in pqn.runs(runs)}
    status = {name: info.status for name, info in found.items()}
    assert status == {
        "a/finished": "finished",
        "killed": "stopped",
        "failed": "failed",
        "training": "running",
        "torn": "broken",
        "foreign": "broken",
        "summary": "broken",
    }
    whole = found["a/finished"]
    assert (whole.preset, whole.env, whole.algorithm, whole.seeds) == ("custom", "CartPole-v1", "pqn", 2)
    assert whole.steps == whole.total_steps == 640 and whole.path == runs / "a" / "finished"
    mean = finished_run.summary["eval_return"]["mean"]
    assert whole.eval_return == mean and found["killed"].eval_return == pytest.approx(mean)
    assert found["killed"].steps == 640 and whole.date.startswith("20")
    assert found["failed"].reason == r"seed 3 became \x1b[31mNaN"  # and not in red
    assert "is not the configuration of a run" in found["foreign"].reason
    assert "damaged" in found["torn"].reason and "summary.json is damaged" in found["summary"].reason
    assert len(whole.metrics) == len(read_metrics(runs / "a" / "finished" / "metrics.jsonl"))


def test_runs_in_a_run_are_listed(runs):
    """`--out runs` makes a run of the directory in which all others are; they must not vanish from the list."""
    before = {info.path for info in pqn.runs(runs)}
    shutil.copytree(runs / "killed", runs, dirs_exist_ok=True)
    assert {info.path for info in pqn.runs(runs)} == before | {runs}


def test_listing_leaves_a_lock_free(runs):
    pqn.runs(runs)
    with RunDir.open(runs / "killed") as run:
        run.lock()
    assert pqn.runs(runs / "killed")[0].status == "stopped"


def test_the_command(runs, capsys):
    assert main(["runs", str(runs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()) == "name preset env algorithm steps status greedy return date path"
    [whole] = [line for line in lines if line.startswith("a/finished")]
    assert "640 of 640" in whole and "finished" in whole and "CartPole-v1" in whole and whole.endswith("a/finished")
    assert all(line.isprintable() for line in lines)
    assert main(["runs", str(runs), "--csv"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["name"]: row["status"] for row in table}["torn"] == "broken" and len(table) == 7
    assert main(["runs", str(runs / "a"), str(runs / "killed"), "--json"]) == 0
    assert [entry["status"] for entry in json.loads(capsys.readouterr().out)] == ["finished", "stopped"]
    assert main(["runs", str(runs / "empty")]) == 0 and "there are no runs" in capsys.readouterr().out
    assert main(["runs", str(runs / "nowhere")]) == 2
    assert "cannot list the runs in" in capsys.readouterr().err


def test_damaged_metrics_are_named(runs):
    file = runs / "killed" / "metrics.jsonl"
    file.write_text('{"kind": "eval", "update": 1, "step": 1, "returns": [["high"]]}\n')
    [info] = pqn.runs(runs / "killed")
    assert info.status == "broken" and "holds what is no number" in info.reason


def test_listing_needs_no_jax(runs):
    code = f"import sys, pqn\nassert len(pqn.runs({str(runs)!r})) == 7\nassert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------------------- tables


def test_a_table_has_a_line_for_each_row_and_seed(finished_run):
    metrics, rows = finished_run.metrics, read_metrics(finished_run.run / "metrics.jsonl")
    lines = metrics.lines()
    assert len(lines) == 2 * len(rows)
    for which in ("eval", "train"):
        steps, values = curve(rows, which)
        table = metrics.lines(which)
        assert [line["step"] for line in table[::2]] == list(steps)
        for seed in (0, 1):
            ours = [math.nan if line["return"] is None else line["return"] for line in table if line["seed"] == seed]
            np.testing.assert_allclose(ours, values[:, seed])
    first = next(row for row in rows if row["kind"] == "train")
    line = metrics.lines("train")[1]
    assert line["loss"] == first["loss"][1] and line["epsilon"] == first["epsilon"] and line["lr"] == first["lr"]
    assert line["length"] == first["length_sum"][1] / first["episodes"][1] and line["episodes"] == first["episodes"][1]
    for ask in (metrics.lines, metrics.columns, metrics.csv, metrics.frame):
        with pytest.raises(ConfigError, match="kind is 'evl'; it must be one of train, eval, stability"):
            ask("evl")
    assert "return_sum" not in line and "returns" not in metrics.columns()
    assert len(metrics.episodes()) == 3 * 2 * 4 and metrics.episodes()[-1]["episode"] == 3


def test_seeds_have_their_own_numbers_and_nothing_is_none():
    rows = [
        {"kind": "train", "update": 1, "step": 8, "episodes": [2, 0], "return_sum": [6.0, 0.0], "info/win_sum": [1, 0]},
        {"kind": "eval", "update": 1, "step": 8, "returns": [[1.0, None], [None, None]], "info/win": [0.5, None]},
    ]
    lines = Metrics(rows, first_seed=7).lines()
    assert [line["seed"] for line in lines] == [7, 8, 7, 8]
    assert [line["return"] for line in lines] == [3.0, None, 1.0, None]
    assert [line["info/win"] for line in lines] == [0.5, None, 0.5, None]
    assert [line["episodes"] for line in lines] == [2, 0, 1, 0]


def test_csv_and_frame_are_the_same_table(finished_run, tmp_path, capsys):
    metrics = finished_run.metrics
    path = metrics.to_csv(tmp_path / "metrics.csv")
    table = list(csv.DictReader(path.open()))
    assert list(table[0])[:5] == ["kind", "update", "step", "seed", "return"]
    frame = metrics.frame()
    assert list(frame.columns) == list(table[0]) and len(frame) == len(table)
    assert frame["return"].dtype == float and frame["step"].dtype == int
    last = frame[frame.kind == "eval"].groupby("seed")["return"].last()
    np.testing.assert_allclose(last, finished_run.summary["eval_return"]["per_seed"])
    wanted = [math.nan if row["return"] == "" else float(row["return"]) for row in table]
    np.testing.assert_array_equal(frame["return"], wanted)
    assert main(["metrics", str(finished_run.run), "--kind", "eval"]) == 0
    assert capsys.readouterr().out == metrics.csv("eval")
    assert main(["metrics", str(finished_run.run), "-o", str(tmp_path / "nowhere" / "x.csv")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_without_pandas_a_sentence_says_how_to_get_it(finished_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PqnError, match=r"pandas is not installed: pip install -e '\.\[pandas\]'"):
        finished_run.metrics.frame()


# ---------------------------------------------------------------------------------------------------------- overwriting


def test_a_run_is_replaced_only_when_asked(tmp_path, finished_run):
    out = copy_of(finished_run.run, tmp_path)
    (out / "notes.txt").write_text("mine")
    (out / "checkpoints" / "notes").mkdir()
    (out / "failure.json").write_text("{}")
    before = json.loads((out / "environment.json").read_text())["run"]
    config = tiny({"save.checkpoints": 1, "eval.count": 1}, seeds=2, total_steps=64)
    with pytest.raises(RunError, match=r"already holds a run: .* or replace it with --overwrite"):
        pqn.train(config, out=out, progress=QUIET)
    assert json.loads((out / "environment.json").read_text())["run"] == before
    result = pqn.train(config, out=out, overwrite=True, progress=QUIET)
    assert result.summary["steps"] == 64 and json.loads((out / "environment.json").read_text())["run"] != before
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["notes", "step-000000000001"]
    assert (out / "notes.txt").read_text() == "mine" and not (out / "failure.json").exists()
    assert {row["update"] for row in read_metrics(out / "metrics.jsonl")} == {0, 1}


def test_what_is_no_run_is_never_removed(tmp_path, finished_run):
    foreign = tmp_path / "model"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"model_type": "bert"}')
    (foreign / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(RunError, match="is not overwritten, since it is no intact run of pqn"):
        RunDir.create(foreign, overwrite=True)
    assert (foreign / "metrics.jsonl").exists() and (foreign / "config.json").exists()
    linked = copy_of(finished_run.run, tmp_path)
    (linked / "metrics.jsonl").unlink()
    (linked / "metrics.jsonl").symlink_to(foreign / "metrics.jsonl")
    with pytest.raises(RunError, match="is a symbolic link where a file of the run itself should be"):
        RunDir.create(linked, overwrite=True)
    assert (foreign / "metrics.jsonl").read_text() == "{}\n"


def test_a_run_that_is_being_trained_is_not_replaced(tmp_path, finished_run):
    out = copy_of(finished_run.run, tmp_path)
    with RunDir.open(out) as run:
        run.lock()
        with pytest.raises(RunError, match="is in use by"):
            RunDir.create(out, overwrite=True)
    assert (out / "summary.json").exists()


def test_a_mistake_leaves_the_old_run(tmp_path, finished_run, capsys):
    out = copy_of(finished_run.run, tmp_path)
    assert main(["train", "--env", "CartPole-v9", "--out", str(out), "--overwrite"]) == 2
    assert (out / "summary.json").exists()
    assert main(["train", "cartpole", "--overwrite"]) == 2
    assert "overwrite is for a run directory that you name" in capsys.readouterr().err
