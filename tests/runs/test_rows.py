"""The rows of a run: what they add up to, and that a run which was stopped has the same ones."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest
from conftest import tiny

import pqn
from pqn.errors import Interrupted
from pqn.progress import Progress
from pqn.runs.metrics import read_metrics

QUIET = Progress(quiet=True)


def test_rows_hold_means_of_losses_and_sums_of_episodes(finished_run, tmp_path):
    """One row over several updates says what rows of single updates say together."""
    fine = pqn.train(tiny({"log.rows": 10}, seeds=2), out=tmp_path / "run", progress=QUIET)
    rows, single = (
        [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
        for run in (finished_run.run, fine.run)
    )
    assert len(single) == 10 > len(rows) and rows[-1]["update"] == 10
    begin = 0
    for row in rows:
        within = single[begin : row["update"]]
        for name in ("loss", "q", "target", "grad_norm"):
            np.testing.assert_allclose(row[name], np.mean([each[name] for each in within], axis=0), rtol=1e-5)
        for name in ("episodes", "return_sum", "length_sum"):
            np.testing.assert_allclose(row[name], np.sum([each[name] for each in within], axis=0), rtol=1e-5)
        begin = row["update"]
    assert np.sum([row["episodes"] for row in rows]) > 0


def test_a_resumed_run_remembers_its_last_evaluation(finished_run, tmp_path):
    """Killed after its last checkpoint and before its summary, a run still knows what it reached."""
    run = tmp_path / "run"
    shutil.copytree(finished_run.run, run)
    (run / "summary.json").unlink()
    assert finished_run.summary["eval_return"] is not None
    assert pqn.resume(run, progress=QUIET).summary["eval_return"] == finished_run.summary["eval_return"]


def rows(run) -> list:
    """All rows of a run without their clocks."""
    clocks = ("wall", "steps_per_second")
    found = read_metrics(run / "metrics.jsonl")
    return [{name: value for name, value in row.items() if name not in clocks} for row in found]


def test_a_resumed_run_writes_every_row_once(finished_run, tmp_path):
    """Rows that were written after the checkpoint are replaced."""
    run = tmp_path / "run"
    shutil.copytree(finished_run.run, run)
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints" / "step-000000000010")
    pqn.resume(run, progress=QUIET)
    assert rows(run) == rows(finished_run.run)


class Impatient(Progress):
    """Sends a Ctrl-C as soon as there is something to report."""

    sent = False

    def update(self, fields):
        if fields["step"] and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_run_loses_nothing_that_it_had_counted(finished_run, tmp_path):
    """Stopped after the first update, while the first row is of two."""
    assert next(row["update"] for row in rows(finished_run.run) if row["kind"] == "train") == 2
    with pytest.raises(Interrupted, match="at update 1 of 10"):
        pqn.train(tiny(seeds=2), out=tmp_path / "run", progress=Impatient(quiet=True))
    pqn.resume(tmp_path / "run", progress=QUIET)
    assert rows(tmp_path / "run") == rows(finished_run.run)
