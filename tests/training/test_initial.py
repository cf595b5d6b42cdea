"""Starting from the weights of another run."""

from __future__ import annotations

import json
import shutil

import jax
import numpy as np
import pytest
from conftest import tiny
from opening import Listening
from saved import read_tree

import pqn
from pqn.cli.main import main
from pqn.errors import PqnError
from pqn.progress import Progress
from pqn.runs import checkpoint

QUIET = Progress(quiet=True)
SHORT = {"save.checkpoints": 1, "eval.count": 1, "log.rows": 1, "total_steps": 64}


def learner(run, step):
    return read_tree(run / "checkpoints" / f"step-{step:012d}")["learner"]


@pytest.fixture(scope="module")
def continued(tmp_path_factory, finished_run):
    """One update on from a finished run of two seeds, by the command line."""
    out = tmp_path_factory.mktemp("continued") / "run"
    words = [f"--{name.replace('_', '-')}={value}" for name, value in SHORT.items()]
    sizes = ["--env.num-envs=8", "--network.hidden=16", "--learner.rollout-steps=8", "--learner.minibatches=4"]
    words += [*sizes, "--learner.epochs=2", "--eval.num-envs=4", "--env=CartPole-v1", "--seeds=2"]
    assert main(["train", *words, "--init-from", str(finished_run.run), "--out", str(out), "--quiet"]) == 0
    return out


def test_weights_are_taken_over_and_the_optimiser_is_fresh(continued, finished_run):
    before, start, after = learner(finished_run.run, 10), learner(continued, 0), learner(continued, 1)
    jax.tree.map(np.testing.assert_array_equal, start["params"], before["params"])
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(start["opt"]))
    assert any(np.any(leaf) for leaf in jax.tree.leaves(before["opt"]))
    assert start["updates"].tolist() == [0, 0]
    changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), start["params"], after["params"])
    assert all(jax.tree.leaves(changed))  # and it learned from there


def test_the_run_records_where_it_started(continued, finished_run):
    about = json.loads((continued / "environment.json").read_text())
    theirs = json.loads((finished_run.run / "environment.json").read_text())
    assert about["init_from"] == {
        "path": str(finished_run.run), "run": theirs["run"], "checkpoint": "step-000000000010", "step": 640,
    }  # fmt: skip
    assert theirs["init_from"] is None and about["run"] != theirs["run"]
    assert checkpoint.describe(continued / "checkpoints" / "step-000000000001")["init_from"] == about["init_from"]


def test_it_is_never_resumed_from_other_weights(continued, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(continued, run)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(PqnError, match=r"had started from other weights \(.*finished\): train it again with init_from"):
        pqn.resume(run, progress=Listening())


def test_one_agent_for_every_seed(tmp_path, finished_run):
    agent = pqn.load(finished_run.run, seed=1, checkpoint=512)
    run = pqn.train(tiny(SHORT, seeds=3), init_from=agent, out=tmp_path / "run", progress=QUIET).run
    wanted = jax.tree.map(lambda leaf: leaf[1], learner(finished_run.run, 8)["params"])
    for seed in range(3):
        one = jax.tree.map(lambda leaf, seed=seed: leaf[seed], learner(run, 0)["params"])
        jax.tree.map(np.testing.assert_array_equal, one, wanted)
    about = json.loads((run / "environment.json").read_text())["init_from"]
    assert (about["seed"], about["step"], about["checkpoint"]) == (1, 512, "step-000000000008")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"network.hidden": (17,)}, r"head\.q\.kernel is of shape \(16, 2\) there and of shape \(17, 2\) here"),
        ({"network.norm": "none"}, "is of shape .* there and missing here"),
        ({"network.norm": "batch"}, "is missing there and of shape"),
        ({"seeds": 3}, "has 2 seeds and this run 3; they must be as many, or give one agent"),
    ],
)
def test_weights_that_do_not_fit_are_named(options, sentence, tmp_path, finished_run):
    config = tiny(SHORT | {"seeds": 2} | options)
    with pytest.raises(PqnError, match=sentence) as error:
        pqn.train(config, init_from=finished_run.run, out=tmp_path / "run", progress=QUIET)
    assert str(error.value).startswith("init_from: ") and "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_what_is_no_run(tmp_path):
    for wrong, sentence in ((3, "init_from is 3; give a run directory or an agent"), (tmp_path, "is not a run")):
        with pytest.raises(PqnError, match=sentence):
            pqn.train(tiny(SHORT), init_from=wrong, out=tmp_path / "run", progress=QUIET)
