"""TensorBoard and W&B: what reaches them, and what a missing package says."""

from __future__ import annotations

import sys
import types

import pytest
from conftest import tiny

import pqn
from pqn.cli.main import main
from pqn.errors import ConfigError
from pqn.loggers import scalars
from pqn.progress import Progress


def test_scalars_average_over_seeds_and_weigh_episodes_equally():
    row = {
        "kind": "train",
        "update": 1,
        "step": 64,
        "episodes": [3, 1],
        "return_sum": [30.0, 50.0],
        "loss": [1.0, 3.0],
        "lr": 0.1,
    }
    assert scalars(row) == {"train/episodes": 2.0, "train/loss": 2.0, "train/lr": 0.1, "train/return": 20.0}
    assert scalars({"kind": "eval", "step": 64, "returns": [[1.0, 3.0], [5.0, 7.0]]}) == {"eval/returns": 4.0}


def test_tensorboard_gets_every_row(tmp_path):
    pqn.train(tiny({"save.loggers": ("tensorboard",)}), out=tmp_path / "run", progress=Progress(quiet=True))
    events = list((tmp_path / "run" / "tensorboard").glob("events*"))
    assert events and b"eval/returns" in events[0].read_bytes()


def test_wandb_gets_every_row(tmp_path, monkeypatch):
    """Against a stand-in with wandb's three calls: the real one wants an account or a server process."""
    logged, opened = [], {}

    class Run:
        def log(self, values, step):
            logged.append((step, values))

        def finish(self):
            opened["finished"] = True

    monkeypatch.setitem(
        sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: opened.update(options) or Run())
    )
    pqn.train(tiny({"save.loggers": ("wandb",)}), out=tmp_path / "run", progress=Progress(quiet=True))
    assert opened["project"] == "pqn" and opened["finished"]
    assert [step for step, values in logged if "eval/returns" in values] == [0, 320, 640]


def test_a_missing_extra_is_one_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "--save.loggers", "wandb"]) == 2
    assert capsys.readouterr().err == "pqn: wandb is not installed: pip install 'pqn-jax[wandb]'\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_logger():
    with pytest.raises(ConfigError, match="did you mean 'tensorboard'"):
        tiny({"save.loggers": ("tensorbord",)})
