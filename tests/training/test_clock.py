"""Where the seconds of a run go."""

import os
import time

import pytest

from pqn.runs import provenance
from pqn.training import clock as clocks


@pytest.fixture
def now(monkeypatch):
    """A clock that is set by hand; the process was 3 seconds old when the run began."""
    time_now = [100.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: time_now[0])
    monkeypatch.setattr(provenance, "process_age", lambda: 3.0)
    return time_now


def test_a_phase_within_a_phase_stops_the_outer_one(now):
    clock = clocks.Clock()
    now[0] += 1.0
    clock.note_built()
    with clock.phase("compile"):
        now[0] += 5.0
    clock.move(2.0, "compile", "trace")
    with clock.phase("train"):
        now[0] += 7.0
        with pytest.raises(ValueError), clock.phase("evaluate"):
            now[0] += 0.5
            clock.note_evaluation()
            raise ValueError
        now[0] += 1.0
    now[0] += 0.25
    phases = {"before": 3.0, "build": 1.0, "trace": 2.0, "compile": 3.0, "train": 8.0, "evaluate": 0.5, "write": 0.0}
    assert clock.report() == phases | {"rest": 0.25, "until_last_evaluation": 16.5}


def test_more_seconds_than_there_are_cannot_be_moved(now):
    clock = clocks.Clock()
    with clock.phase("compile"):
        now[0] += 1.0
    clock.move(5.0, "compile", "trace")
    assert (clock.seconds["compile"], clock.seconds["trace"]) == (0.0, 1.0)


def test_a_run_without_an_evaluation_says_so(now):
    assert clocks.Clock().report()["until_last_evaluation"] is None


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux says when a process was started")
def test_the_age_of_this_process():
    age = provenance.process_age()
    assert age is not None and age > 0.0
    time.sleep(0.05)
    assert (provenance.process_age() or 0.0) > age + 0.03
    assert age >= time.process_time() / (os.cpu_count() or 1) - 0.05
