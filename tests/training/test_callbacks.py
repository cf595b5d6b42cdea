"""Callbacks: what they see, how they end a run, and that a resumed run decides as an uninterrupted one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny
from opening import Listening, would_train
from saved import read_tree

import pqn
from pqn import training
from pqn.callbacks import Moment, StopAtReturn, StopWithoutImprovement, TimeBudget, as_callbacks, ask
from pqn.errors import ConfigError
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs.listing import list_runs
from pqn.runs.metrics import read_metrics

QUIET = Progress(quiet=True)


def evaluation(*returns: float, seconds: float = 0.0, replayed: bool = False) -> Moment:
    """The moment of an evaluation of one seed."""
    row = {"kind": "eval", "update": 5, "step": 320, "returns": [list(returns)]}
    return Moment(row, 5, 320, seconds, Path("run"), replayed)


def decisions(callback: pqn.callbacks.Callback, *means: float) -> list[bool]:
    return [bool(callback.see(evaluation(mean))) for mean in means]


class Seen:
    """Remembers all moments, and ends the run at an update."""

    def __init__(self, stop: int = 10**9):
        self.moments: list[Moment] = []
        self.stop = stop

    def see(self, moment: Moment) -> str | None:
        self.moments.append(moment)
        return "seen enough" if moment.is_evaluation and moment.update >= self.stop else None


def same_learner(run: Path, other: Path) -> None:
    states = [read_tree(checkpoint.latest(path / "checkpoints"))["learner"] for path in (run, other)]
    for a, b in zip(*(sorted(_flat(state).items()) for state in states), strict=True):
        assert a[0] == b[0]
        np.testing.assert_array_equal(a[1], b[1])


def _flat(tree: dict, prefix: str = "") -> dict[str, np.ndarray]:
    found = {}
    for name, value in tree.items():
        found |= _flat(value, f"{prefix}{name}/") if isinstance(value, dict) else {prefix + name: value}
    return found


# ---------------------------------------------------------------------------------------------------- the ready ones


def test_a_threshold_is_reached_or_not():
    assert decisions(StopAtReturn(10), 9.9, 10.0, 11.0) == [False, True, True]
    assert StopAtReturn(10).see(evaluation(np.nan, np.nan)) is None
    assert StopAtReturn(10).see(evaluation(np.nan, 12.0)) == "the greedy return 12 has reached 10"
    assert StopAtReturn(-5).see(Moment({"kind": "train"}, 1, 64, 0.0, Path("run"))) is None


def test_patience_counts_evaluations_without_a_new_best():
    assert decisions(StopWithoutImprovement(2), 1, 2, 2, 3, 3, 2) == [False] * 5 + [True]
    assert decisions(StopWithoutImprovement(2, by=1.0), 1, 2, 2.5, 3.5, 4) == [
        False,  # the first is the best
        False,  # not more than 1 better: one
        False,  # 2.5 is: the best
        False,  # exactly 1 better is not more: one
        False,  # 4 is more than 1 better
    ]
    assert decisions(StopWithoutImprovement(1, by=1.0), 1, 2) == [False, True]
    nothing_ended = StopWithoutImprovement(2)
    assert nothing_ended.see(evaluation(np.nan)) is None
    assert nothing_ended.see(evaluation(np.nan)) == (
        "the greedy return has not improved in 2 evaluations; there was none"
    )


def test_a_time_budget_is_of_this_process():
    budget = TimeBudget(minutes=0.5)
    assert budget.see(Moment(None, 1, 64, 29.9, Path("run"))) is None
    assert budget.see(Moment(None, 1, 64, 30.0, Path("run"))) == "the time budget of 0.5 minutes is used up"
    assert budget.see(evaluation(1.0, seconds=100.0, replayed=True)) is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: StopAtReturn(float("nan")), "threshold is nan"),
        (lambda: StopWithoutImprovement(0), "evaluations is 0; it must be a whole number from 1"),
        (lambda: StopWithoutImprovement(1, by=-1), "by is -1"),
        (lambda: TimeBudget(0), "minutes is 0; it must be a number greater than 0"),
        (lambda: as_callbacks(3), "callbacks has 3; a callback is a function of a Moment"),
        (lambda: as_callbacks([StopAtReturn]), r"the class StopAtReturn; give an object of it"),
        (lambda: ask(as_callbacks(lambda moment: 1.5), evaluation(1.0)), "returned 1.5; it must return why"),
    ],
)
def test_mistakes_are_sentences(make, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_one_or_several_functions_and_objects():
    assert as_callbacks(None) == () and len(as_callbacks(StopAtReturn(1))) == 1
    assert ask(as_callbacks([lambda moment: None, lambda moment: np.bool_(False)]), evaluation(1.0)) is None

    def enough(moment: Moment) -> bool:
        return moment.mean == 1.0

    assert ask(as_callbacks([enough, lambda moment: "too late"]), evaluation(1.0)) == "enough asked for it"
    assert ask(as_callbacks(enough), evaluation(1.0, replayed=True)) is None  # functions are not called again
    assert ask(as_callbacks(enough), Moment({"kind": "train"}, 1, 64, 0.0, Path("run"))) is None


# --------------------------------------------------------------------------------------------------------- in a run


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> tuple[pqn.Result, Seen, list[Moment]]:
    """A run of ten updates that was ended after five, by the evaluation there."""
    seen, called = Seen(stop=5), []
    out = tmp_path_factory.mktemp("stopped") / "run"
    callbacks = [seen, called.append]
    return pqn.train(tiny(seeds=2), callbacks=callbacks, out=out, progress=QUIET), seen, called


def test_callbacks_see_every_row_as_it_is_in_the_file(stopped):
    result, seen, called = stopped
    assert [m.row for m in seen.moments if m.row is not None] == read_metrics(result.run / "metrics.jsonl")
    assert [m.update for m in called] == [0, 5] and all(m.is_evaluation for m in called)
    assert any(m.row is None and m.update == 1 for m in seen.moments)  # the clock, between rows
    assert called[1].returns.shape == (2, 4) and called[1].step == 320 and called[1].run == result.run


def test_the_run_is_saved_and_says_why_it_ended(stopped):
    result, _, _ = stopped
    assert result.stopped == "seen enough" and result.summary["steps"] == result.summary["eval_step"] == 320
    assert result.summary["stopped"] == {"reason": "seen enough", "update": 5, "planned_updates": 10}
    assert checkpoint.latest(result.run / "checkpoints").name == "step-000000000005"
    assert json.loads((result.run / "summary.json").read_text()) == result.summary
    [info] = list_runs(result.run)
    assert (info.status, info.reason, info.steps) == ("stopped", "seen enough", 320)


def test_the_same_callback_ends_a_resumed_run_where_it_stands(stopped, monkeypatch):
    """Its rows are shown again, and nothing is compiled or trained."""
    result, first, _ = stopped
    monkeypatch.setattr(training.loop.Loop, "compile", would_train)
    again, called = Seen(stop=5), []
    resumed = pqn.resume(result.run, callbacks=[again, called.append], progress=Listening())
    assert resumed.stopped == "seen enough" and resumed.summary["steps"] == 320
    assert resumed.summary["eval_return"] == result.summary["eval_return"]
    rows = [m.row for m in first.moments if m.row is not None]
    assert [m.row for m in again.moments] == rows and all(m.replayed for m in again.moments) and not called


def test_without_callbacks_it_goes_on_to_the_same_bits(stopped, finished_run):
    result, _, _ = stopped
    patient = StopWithoutImprovement(100)
    resumed = pqn.resume(result.run, callbacks=patient, progress=QUIET)
    assert resumed.stopped is None and resumed.summary["steps"] == 640
    same_learner(resumed.run, finished_run.run)
    # The evaluations before and after the interruption count alike.
    rows = [row for row in read_metrics(resumed.run / "metrics.jsonl") if row["kind"] == "eval"]
    uninterrupted = StopWithoutImprovement(100)
    for row in rows:
        uninterrupted.see(Moment(row, row["update"], row["step"], 0.0, resumed.run))
    assert (patient.best, patient.since) == (uninterrupted.best, uninterrupted.since) and len(rows) == 3


def test_a_callback_that_fails_loses_nothing(tmp_path):
    def broken(moment: Moment) -> None:
        if moment.update:
            raise KeyError("typo")

    with pytest.raises(KeyError, match="typo"):
        pqn.train(tiny(seeds=2), callbacks=broken, out=tmp_path / "run", progress=QUIET)
    assert checkpoint.latest(tmp_path / "run" / "checkpoints").name == "step-000000000005"
    [info] = list_runs(tmp_path)
    assert info.status == "failed" and "typo" in info.reason and info.steps == 320

    def broken_at_the_end(moment: Moment) -> None:
        raise KeyError("last")

    with pytest.raises(KeyError, match="last"):  # of the only evaluation that is left
        pqn.resume(tmp_path / "run", callbacks=broken_at_the_end, progress=QUIET)
    [info] = list_runs(tmp_path)
    assert info.status == "finished" and info.steps == 640


def test_a_clock_ends_a_run_between_its_rows(tmp_path):
    result = pqn.train(tiny(seeds=2), callbacks=TimeBudget(1e-9), out=tmp_path / "run", progress=QUIET)
    assert "time budget" in result.stopped and result.summary["steps"] == 0  # at the first evaluation
    assert checkpoint.latest(result.run / "checkpoints").name == "step-000000000000"
    resumed = pqn.resume(result.run, callbacks=TimeBudget(1e-9), progress=QUIET)
    assert resumed.summary["steps"] == 64  # it had its time, of one chunk
    assert [row["update"] for row in read_metrics(result.run / "metrics.jsonl")] == [0]


def test_one_object_for_one_run_after_the_other(tmp_path):
    """What it remembers of the first run must not end the second, nor count twice when a run is resumed."""
    patience = StopWithoutImprovement(3, by=1e9)  # no return is ever better than the first
    first = pqn.train(tiny(), callbacks=patience, out=tmp_path / "first", progress=QUIET)
    assert first.stopped is None and patience.since == 2
    second = pqn.train(tiny(), callbacks=patience, out=tmp_path / "second", progress=QUIET)
    assert second.stopped is None and patience.since == 2
    pqn.resume(first.run, callbacks=patience, progress=QUIET)
    assert patience.since == 2


def test_a_callback_that_would_never_be_called(tmp_path):
    told = io.StringIO()
    quiet = Progress(told, quiet=True)
    pqn.train(tiny({"eval.count": 0}), callbacks=StopAtReturn(1.0), out=tmp_path / "none", progress=quiet)
    assert (
        told.getvalue() == "the callback StopAtReturn waits for evaluations, and this run has none: eval.count is 0\n"
    )
    pqn.train(tiny({"eval.count": 0}), callbacks=TimeBudget(10), out=tmp_path / "clock", progress=quiet)
    pqn.train(tiny(), callbacks=StopAtReturn(1e9), out=tmp_path / "some", progress=quiet)
    assert told.getvalue().count("\n") == 1
