"""Two real processes, over gloo, whose environments are outside of JAX: each steps its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from pair import LIMIT, Pair, arrays_of, assert_close, one_process, wait_for, words_of

from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs.directory import RunDir, read_summary
from pqn.runs.metrics import read_metrics
from pqn.training import resume

pytestmark = pytest.mark.timeout(2 * LIMIT)

NAME = "counters:make"
COUNTERS = """
import time
from hostenvs import Savable
from pqn.envs.probe import Counter

class Slow(Savable):
    seconds = {seconds}

    def recv(self):
        time.sleep(self.seconds)
        return super().recv()

def make(num_envs):
    return Slow(Counter(), num_envs)
"""
GREEDY = {"simulators.greedy_envs": 2, "eval.num_envs": 4, "eval.count": 5}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has the environments of these tests, for this process and for others that are started in it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "counters", raising=False)
    (tmp_path / "counters.py").write_text(COUNTERS.format(seconds=0.0))
    return tmp_path


def simulated(updates: int, **more: object) -> list[str]:
    """The words of a run on simulators, as users name an environment of their own."""
    return words_of(updates, **{"env.name": NAME} | more)


def rows_of(run: Path) -> list[dict]:
    return list(read_metrics(run / "metrics.jsonl"))


def test_two_processes_train_on_simulators_what_one_does(folder):
    """Parameters, simulators, greedy episodes, the last evaluation, rows; and one process goes on where two stopped."""
    more = GREEDY | {"save.keep": 5}
    with Pair(folder, [*simulated(10, **more), "--out", "run"]) as pair:
        assert [pair.wait(0), pair.wait(1)] == [0, 0], pair.said(0) + pair.said(1)
    run, alone = folder / "run", one_process(folder, 10, **{"env.name": NAME} | more)
    newest = run / "checkpoints" / "step-000000000010"
    assert sorted(file.name for file in newest.iterdir()) == [
        "manifest.json", "part-000000-000000.safetensors", "part-000000-000001.safetensors"
    ]  # fmt: skip
    wanted = arrays_of(alone)
    assert any(name.startswith("envs/1/") for name in wanted) and wanted["whole"]
    assert_close(arrays_of(run), wanted, 1e-6)
    for row, like in zip(rows_of(run), rows_of(alone), strict=True):
        assert (row["kind"], row["update"]) == (like["kind"], like["update"])
        for name in ("loss", "episodes", "return_sum", "grad_norm", "returns"):
            if name in like:
                np.testing.assert_allclose(row[name], like[name], rtol=1e-5)
    assert read_summary(RunDir.open(run))["eval_return"] == read_summary(RunDir.open(alone))["eval_return"]
    assert "one in each process" in pair.logs[0].read_text()
    for path in ("step-000000000010", "step-000000000008", "step-000000000006"):
        shutil.rmtree(run / "checkpoints" / path)
    (run / "summary.json").unlink()
    resume(run, env=NAME, progress=Progress(quiet=True))
    assert_close(arrays_of(run), wanted, 1e-6)
    assert [row["returns"] for row in rows_of(run) if row["kind"] == "eval"] == [
        row["returns"] for row in rows_of(alone) if row["kind"] == "eval"
    ]


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_killed_process_with_simulators_ends_the_other_and_two_go_on(folder, victim):
    more = GREEDY | {"save.checkpoints": 30, "save.keep": 30, "eval.count": 3}
    (folder / "counters.py").write_text(COUNTERS.format(seconds=0.02))
    with Pair(folder, [*simulated(30, **more), "--out", "run"]) as pair:
        wait_for(lambda: list((folder / "run").glob("checkpoints/step-*")) or pair.processes[0].poll() is not None)
        pair.kill(victim)
    at = int(str(checkpoint.read(checkpoint.latest(folder / "run" / "checkpoints")).metadata["update"]))
    assert 1 <= at < 30
    (folder / "counters.py").write_text(COUNTERS.format(seconds=0.0))
    with Pair(folder, ["resume", "run", "--env", NAME]) as pair:
        assert [pair.wait(0), pair.wait(1)] == [0, 0], pair.said(0) + pair.said(1)
    alone = one_process(folder, 30, **{"env.name": NAME} | more)
    assert_close(arrays_of(folder / "run"), arrays_of(alone), 1e-4)
    final = [[row["returns"] for row in rows_of(run) if row["kind"] == "eval"] for run in (folder / "run", alone)]
    assert final[0] == final[1]


@pytest.mark.slow
def test_a_simulator_that_fails_in_one_process_ends_both(folder):
    fail = "\n    def reset(self, seeds):\n        self.left = 60\n        return super().reset(seeds)\n"
    fail += "\n    def send(self, action):\n        import jax\n        self.left -= jax.process_index()\n"
    fail += "        if self.left < 0:\n            raise ValueError('out of steps')\n        super().send(action)\n"
    text = COUNTERS.format(seconds=0.0)
    (folder / "counters.py").write_text(text.replace("\ndef make", f"{fail}\ndef make"))
    with Pair(folder, [*simulated(30, **GREEDY), "--out", "run"]) as pair:
        assert [pair.wait(0), pair.wait(1)] == [2, 2]
    sentence = "could not step: it raised ValueError: out of steps; the last checkpoint is intact"
    assert sentence in pair.said(1) and sentence in pair.said(0) and "process 1" in pair.said(0)
    assert checkpoint.latest(folder / "run" / "checkpoints") is not None


@pytest.mark.slow
def test_two_processes_train_on_gymnasium_what_one_does(tmp_path):
    more = {"env.name": "gymnasium:CartPole-v1", "simulators.greedy_envs": 4, "network.memory": "gru"}
    more |= {"network.memory_size": 8, "learner.segment_length": 4, "learner.minibatches": 2}
    with Pair(tmp_path, [*words_of(10, **more), "--out", "run"]) as pair:
        assert [pair.wait(0), pair.wait(1)] == [0, 0], pair.said(0) + pair.said(1)
    alone = one_process(tmp_path, 10, **more)
    assert_close(arrays_of(tmp_path / "run"), arrays_of(alone), 1e-6)
    evals = [[row["returns"] for row in rows_of(run) if row["kind"] == "eval"] for run in (tmp_path / "run", alone)]
    assert evals[0] == evals[1]


def test_processes_that_cannot_share_the_shards_say_so(folder):
    with Pair(folder, [*simulated(10, shards=1), "--out", "run"]) as pair:
        assert [pair.wait(0), pair.wait(1)] == [2, 2]
    assert "shards is 1 and there are 2 processes" in pair.said(0) and "try shards 2" in pair.said(1)
    assert not (folder / "run").exists()
