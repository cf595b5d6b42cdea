"""Other checkpoints than the newest: the best one, which is kept, and any by its steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny
from opening import Listening, copy_of

import pqn
from pqn.cli.main import main
from pqn.errors import CheckpointError, ConfigError
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs.best import Best, evaluated

QUIET = Progress(quiet=True)


def kept(run: Path) -> list[int]:
    return [int(path.name[5:]) for path in sorted((run / "checkpoints").iterdir())]


def evaluations(run: Path) -> dict[int, float]:
    """The mean greedy return of each evaluation, from the metrics."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["update"]: float(np.mean(row["returns"])) for row in rows if row["kind"] == "eval"}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run that is evaluated and saved at all of its ten updates, and keeps two checkpoints."""
    options = {"eval.count": 10, "save.checkpoints": 10, "save.keep": 2, "learner.lr": 0.01}
    return pqn.train(tiny(options), out=tmp_path_factory.mktemp("best") / "run", progress=QUIET).run


def test_the_best_checkpoint_is_kept_beyond_the_newest(run):
    means = {update: mean for update, mean in evaluations(run).items() if update}
    best = max(means, key=lambda update: (means[update], update))
    assert best < 9, "of this seed the best is an old one; otherwise this test shows nothing"
    assert kept(run) == [best, 9, 10]
    agent = pqn.load(run, checkpoint="best")
    assert agent.step == 64 * best and agent.origin["checkpoint"] == f"step-{best:012d}"
    assert pqn.load(run).step == 640


def test_without_the_option_it_is_not(run, tmp_path):
    options = {"eval.count": 10, "save.checkpoints": 10, "save.keep": 2, "learner.lr": 0.01, "save.best": False}
    other = pqn.train(tiny(options), out=tmp_path / "run", progress=QUIET).run
    assert kept(other) == [9, 10] and evaluations(other) == evaluations(run)
    means = evaluations(other)
    assert pqn.load(other, checkpoint="best").step == 64 * max((9, 10), key=lambda update: (means[update], update))


def test_a_resumed_run_knows_its_best(run, tmp_path):
    """Which is an old one: it must not be removed by what comes after the resume."""
    other = copy_of(run, tmp_path)
    best = kept(other)[0]
    pqn.resume(other, total_steps=640 + 64, progress=Listening())
    means = evaluations(other)
    assert kept(other) == ([best, 10, 11] if means[11] < means[best] else [10, 11])
    assert Best.of(other / "checkpoints").update == (best if means[11] < means[best] else 11)


def test_by_its_steps(run, capsys):
    assert pqn.load(run, checkpoint=576).step == pqn.load(run, checkpoint=np.int64(576)).step == 576
    for wrong in (500, 64 * 3 + 64 * 5 + 1, 10**9):
        with pytest.raises(CheckpointError, match=rf"no checkpoint of {wrong} steps; kept are \d+, 576, 640"):
            pqn.load(run, checkpoint=wrong)
    for wrong in ("newest", -1, None, 1.5):
        with pytest.raises(ConfigError, match="it must be 'last', 'best' or the steps"):
            pqn.load(run, checkpoint=wrong)
    assert main(["eval", str(run), "--checkpoint", "576", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 576
    assert main(["eval", str(run), "--checkpoint", "first"]) == 2
    assert "'first' is neither last, best nor a number of steps" in capsys.readouterr().err
    assert main(["eval", str(run), "--checkpoint", "best", "--episodes", "2"]) == 0
    assert f"{64 * kept(run)[0]} training steps" in capsys.readouterr().out


def test_a_damaged_best_is_said_and_the_next_best_used(run, tmp_path):
    other = copy_of(run, tmp_path)
    best = kept(other)[0]
    (other / "checkpoints" / f"step-{best:012d}" / "state.safetensors").write_bytes(b"spoiled")
    means = evaluations(other)
    second = max((9, 10), key=lambda update: (means[update], update))
    with pytest.warns(UserWarning, match=f"step-{best:012d} is damaged: .*; using the previous one"):
        assert pqn.load(other, checkpoint="best").step == 64 * second


def test_a_checkpoint_that_was_not_evaluated_is_never_the_best(finished_run, tmp_path):
    """Of the checkpoints at 6, 8 and 10 only the last was written at an evaluation."""
    assert pqn.load(finished_run.run, checkpoint="best").step == 640
    config = tiny({"eval.count": 0}, seeds=2)
    run = pqn.train(config, out=tmp_path / "run", progress=QUIET).run
    with pytest.raises(CheckpointError, match=r"was written at an evaluation, so none is the best .*: 384, 512, 640"):
        pqn.load(run, checkpoint="best")


@pytest.mark.parametrize(
    ("metadata", "mean"),
    [
        ({"update": 3, "eval_update": 3, "eval_returns": [[1.0, None], [4.0, 6.0]]}, 3.0),  # of the seeds' means
        ({"update": 3, "eval_update": 2, "eval_returns": [[1.0]]}, None),
        ({"update": 3, "eval_returns": [[1.0]]}, None),
        ({"update": 3, "eval_update": 3, "eval_returns": [[None]]}, None),
        ({"update": 3, "eval_update": 3, "eval_returns": "high"}, None),
        ({"update": 3, "eval_update": 3, "eval_returns": None}, None),
        ({"update": 3, "eval_update": 3, "eval_returns": [1.0]}, None),
    ],
)
def test_what_counts_as_evaluated(metadata, mean):
    assert evaluated(metadata) == (3, mean)


def test_of_two_equals_the_later_is_the_best():
    best = Best()
    for update, mean in ((1, 5.0), (2, None), (3, 5.0), (4, 4.0)):
        best.consider(update, mean)
    assert (best.update, best.mean) == (3, 5.0)


def test_pruning_keeps_what_it_is_told(tmp_path):
    for step in range(1, 6):
        checkpoint.save(tmp_path, {"x": np.ones(1)}, step, keep=2, also=[2])
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "4", "5"]
    checkpoint.save(tmp_path, {"x": np.ones(1)}, 3, keep=2, also=[2, 5])  # a future that was abandoned is removed
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "3"]
