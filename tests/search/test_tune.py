"""`pqn tune`, from its words to the command that trains the best trial."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TINY

from pqn.cli import options, tune
from pqn.cli.main import main
from pqn.cli.tune import command
from pqn.presets import preset
from pqn.search.together import train_together

pytest.importorskip("optuna", reason="the extra `tune` is not installed")

SPACE = "learner.lr = {low = 1e-4, high = 1e-1, log = true}\nlearner.lam = {low = 0.0, high = 1.0}\n"


@pytest.fixture
def words(tmp_path):
    (tmp_path / "space.toml").write_text(SPACE)
    small = [
        word
        for name, value in TINY.items()
        for word in (f"--{name}", *map(str, value if isinstance(value, tuple) else [value]))
    ]
    out, space = str(tmp_path / "search"), str(tmp_path / "space.toml")
    return ["tune", "cartpole", *small, "--seeds", "2", "--space", space, "--out", out, "--startup", "3"]


def test_an_interrupted_search_goes_on_and_its_best_trial_is_reproduced(words, tmp_path, capsys):
    """The first worker is killed in the middle of its first trials."""
    search = tmp_path / "search"
    patient = [*words, "--total-steps", "6400", "--trials", "6", "--together", "3"]
    first = subprocess.Popen([sys.executable, "-m", "pqn", *patient, "--quiet"])
    deadline = time.monotonic() + 120
    while not _asked(search) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert main([*patient, "--quiet"]) == 0
    said = capsys.readouterr().out.splitlines()
    trials = json.loads((search / "trials.json").read_text())
    ended = [trial for trial in trials if trial["state"] in ("complete", "pruned")]
    lost = [trial for trial in trials if trial["state"] == "fail"]
    assert len(ended) == 6 and lost
    assert all(any(again["options"] == trial["options"] for again in ended) for trial in lost)
    best = max((trial for trial in ended if trial["state"] == "complete"), key=lambda trial: trial["value"])
    assert said[-2].startswith(f"best: trial {best['number']}, return {best['value']:.2f}")
    assert main([*shlex.split(said[-1])[1:], "--out", str(tmp_path / "best"), "--quiet"]) == 0
    assert json.loads((tmp_path / "best" / "summary.json").read_text())["eval_return"]["mean"] == best["value"]
    capsys.readouterr()
    assert main([*patient, "--quiet"]) == 0  # nothing is left to do
    assert json.loads((search / "trials.json").read_text()) == trials
    assert main([*patient, "--seeds", "1"]) == 2 and "seeds is 1 in this search" in capsys.readouterr().err


@pytest.mark.slow  # two processes that compile; the quick suite has two workers in one process
def test_two_workers_at_once_make_one_search(words, tmp_path):
    """Together exactly as many trials as asked for, none twice and none lost; their values are those of runs alone."""
    command = [sys.executable, "-m", "pqn", *words, "--trials", "6", "--together", "1", "--no-pruning", "--quiet"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [worker.communicate(timeout=400) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    search = tmp_path / "search"
    trials = json.loads((search / "trials.json").read_text())
    assert [(trial["number"], trial["state"]) for trial in trials] == [(number, "complete") for number in range(6)]
    assert len({json.dumps(trial["options"]) for trial in trials}) == 6
    journal = [json.loads(line) for line in (search / "journal.log").read_text().splitlines()]
    signed = [entry["user_attr"]["worker"] for entry in journal if "worker" in entry.get("user_attr", {})]
    assert len(signed) == 6 and len(set(signed)) == 2  # both had work
    ours = options.apply(preset("cartpole"), tune._parser(preset("cartpole")).parse([*words[2:], "--trials", "1"]))
    alone = train_together([ours.replace(trial["options"]) for trial in trials], lambda *_: True, lambda: None)
    assert [ending.value for ending in alone] == [trial["value"] for trial in trials]


def _asked(search: Path) -> bool:
    """Whether the worker has asked for its trials, and signed for them in the journal."""
    file = search / "journal.log"
    return file.exists() and file.read_text().count('"worker"') == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trials", "0"], "'0' is not a whole number from 1"),
        (["--trials", "1", "--eval.count", "0"], "eval.count is 0"),
        (["--trials", "1", "--space", "none.toml"], "--space none.toml: there is no such file"),
    ],
)
def test_mistakes_are_sentences(words, options, sentence, capsys, tmp_path):
    assert main([*words, *options]) == 2
    assert sentence in capsys.readouterr().err and not (tmp_path / "search").exists()


def test_without_optuna_there_is_one_sentence(words, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main([*words, "--trials", "1"]) == 2
    assert "pqn tune needs the package optuna: pip install -e '.[tune]'" in capsys.readouterr().err


def test_a_command_has_every_option_that_differs():
    config = preset("cartpole").replace(
        {"learner.lr": 0.1 + 0.2, "learner.lr_decay": False, "network.hidden": (), "env.kwargs": {"a": [1, "x y"]}}
    )
    from pqn.cli import train

    words = shlex.split(command(config))
    assert words[:3] == ["pqn", "train", "cartpole"]
    base = preset("cartpole")
    assert options.apply(base, train._parser(base).parse(words[3:])) == config
