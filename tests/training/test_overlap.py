"""What goes on while the next chunk trains: evaluations, and the writing of checkpoints. It must not show."""

import errno
import os
import signal
import threading

import numpy as np
import pytest
from conftest import tiny
from explosive import Explosive
from test_callbacks import same_learner

import pqn
from bench.kill import difference
from pqn.callbacks import Moment
from pqn.errors import CheckpointError, Diverged, EnvFailed, Interrupted
from pqn.programs.base import RunState
from pqn.programs.compiled import CompiledProgram
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs.metrics import read_metrics
from pqn.training.loop import Loop
from pqn.training.saving import Saver

QUIET = Progress(quiet=True)
TOGETHER = {"save.checkpoints": 5, "eval.count": 5, "save.keep": 10}


# --------------------------------------------------------------------------------------------------------- the thread


def test_what_is_given_is_written_in_its_order_while_others_work():
    going, done = threading.Event(), []

    def slow() -> None:
        assert going.wait(20)
        done.append("first")

    with Saver() as saver:
        saver.write(slow)
        saver.check()  # does not wait
        assert not done
        going.set()
        saver.write(lambda: done.append("second"))
        assert done[0] == "first"
    assert done == ["first", "second"]


@pytest.mark.parametrize("call", ["write", "wait", "leave"])
def test_a_failure_to_write_is_raised_by_the_next_call(call):
    def fails() -> None:
        raise CheckpointError("the disk is full")

    with pytest.raises(CheckpointError, match="the disk is full"), Saver() as saver:
        saver.write(fails)
        if call != "leave":
            getattr(saver, call)(*[lambda: None] * (call == "write"))
            pytest.fail("it was not raised")


def test_another_error_is_not_hidden_and_waits_for_what_is_being_written():
    done = []
    with pytest.raises(KeyError, match="mine"), Saver() as saver:
        saver.write(lambda: done.append(threading.Event().wait(0.05)))
        raise KeyError("mine")
    assert done == [False]


# -------------------------------------------------------------------------------------------------------- checkpoints


def test_a_checkpoint_in_flight_is_not_opened_and_is_a_copy(tmp_path, monkeypatch):
    state = {"x": np.arange(4.0)}
    checkpoint.save(tmp_path, state, 1)
    held = checkpoint.held(state)
    state["x"][:] = -1.0  # as a donated buffer is written over by the next chunk
    put, going, reached = checkpoint._put_in_place, threading.Event(), threading.Event()

    def late(temporary, final) -> None:
        reached.set()
        assert going.wait(20)
        put(temporary, final)

    monkeypatch.setattr(checkpoint, "_put_in_place", late)
    with Saver() as saver:
        saver.write(lambda: checkpoint.save(tmp_path, held, 2))
        assert reached.wait(20)  # all is written but the name: a process killed here leaves this
        assert checkpoint.latest(tmp_path).name == "step-000000000001"
        going.set()
        saver.wait()
    assert checkpoint.latest(tmp_path).name == "step-000000000002"
    assert checkpoint.read(checkpoint.latest(tmp_path)).arrays["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_run_whose_disk_fills_up_says_so_and_keeps_what_was_written(tmp_path, monkeypatch):
    write, names = checkpoint._write, []

    def full(path, data) -> None:
        names.append(path.parent.name)
        if "step-000000000004" in path.parent.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(checkpoint, "_write", full)
    with pytest.raises(CheckpointError, match=r"cannot write the checkpoint .*step-000000000004 .*the disk is full"):
        pqn.train(tiny(TOGETHER, seeds=2), out=tmp_path / "run", progress=QUIET)
    assert checkpoint.latest(tmp_path / "run" / "checkpoints").name == "step-000000000002"


# ------------------------------------------------------------------------------------------------------------ the run


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """With a callback nothing overlaps: it might end the run at any row."""
    out = tmp_path_factory.mktemp("serial") / "run"
    return pqn.train(tiny(TOGETHER, seeds=2), out=out, callbacks=lambda moment: None, progress=QUIET).run


def started(monkeypatch) -> list[int]:
    """At which updates evaluations were begun that went on during the next chunk."""
    begin, updates = Loop.start_evaluation, []

    def noting(loop: Loop, state: RunState, save: bool = True) -> bool:
        begun = begin(loop, state, save)
        updates.extend([loop.update] * begun)
        return begun

    monkeypatch.setattr(Loop, "start_evaluation", noting)
    return updates


def test_overlap_changes_no_bit_and_no_row(tmp_path, serial, monkeypatch):
    updates = started(monkeypatch)
    run = pqn.train(tiny(TOGETHER, seeds=2), out=tmp_path / "run", progress=QUIET).run
    assert updates == [0, 2, 4, 6, 8]  # not the last, which nothing follows
    assert difference(run, serial) is None
    each = [sorted(path.name for path in (one / "checkpoints").iterdir()) for one in (run, serial)]
    assert each[0] == each[1] and len(each[0]) == 5
    for name in each[0]:
        ours, theirs = (checkpoint.read(one / "checkpoints" / name) for one in (run, serial))
        assert all(ours.arrays[key].tobytes() == theirs.arrays[key].tobytes() for key in theirs.arrays)
        for entry in ("rows", "eval_returns", "eval_update", "pending", "update", "step"):
            assert ours.metadata[entry] == theirs.metadata[entry], entry


def test_a_callback_may_end_a_run_at_a_row_so_nothing_overlaps(tmp_path, monkeypatch):
    updates = started(monkeypatch)

    def stop(moment: Moment) -> str | None:
        return "enough" if moment.is_evaluation and moment.update == 4 else None

    result = pqn.train(tiny(TOGETHER, seeds=2), out=tmp_path / "run", callbacks=stop, progress=QUIET)
    assert not updates and result.summary["stopped"]["update"] == 4


def test_a_signal_during_an_evaluation_saves_with_its_row(tmp_path, serial, monkeypatch):
    begin = Loop.start_evaluation

    def interrupted(loop: Loop, state: RunState, save: bool = True) -> bool:
        begun = begin(loop, state, save)
        if loop.update == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return begun

    monkeypatch.setattr(Loop, "start_evaluation", interrupted)
    with pytest.raises(Interrupted, match="at update 4"):
        pqn.train(tiny(TOGETHER, seeds=2), out=tmp_path / "run", progress=QUIET)
    monkeypatch.undo()
    assert checkpoint.latest(tmp_path / "run" / "checkpoints").name == "step-000000000004"
    assert [row["update"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "eval"][-1] == 4
    resumed = pqn.resume(tmp_path / "run", progress=QUIET)
    assert difference(resumed.run, serial) is None
    same_learner(resumed.run, serial)


def test_divergence_in_the_chunk_after_an_evaluation_keeps_its_checkpoint(tmp_path, monkeypatch):
    updates, write = started(monkeypatch), checkpoint._write_whole

    def slow(final, content) -> None:
        threading.Event().wait(0.2)
        write(final, content)

    monkeypatch.setattr(checkpoint, "_write_whole", slow)
    config = tiny({"save.checkpoints": 10, "eval.count": 10})
    with pytest.raises(Diverged, match=r"at update 3; the last good checkpoint is .*step-000000000002"):
        pqn.train(config, env=Explosive(), out=tmp_path / "run", progress=QUIET)
    assert updates == [0, 1, 2]
    rows = [row["update"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "eval"]
    assert rows == [0, 1, 2]


def test_an_evaluation_that_fails_during_the_next_chunk_saves_its_own_update(tmp_path, monkeypatch):
    start = CompiledProgram.start_evaluation

    def failing(program: CompiledProgram, state):
        played, trained = start(program, state), int(state.learner.updates[0]) > 0

        def fails():
            result = played()
            if not trained:
                return result
            raise EnvFailed("a return is no number")

        return fails

    monkeypatch.setattr(CompiledProgram, "start_evaluation", failing)
    with pytest.raises(EnvFailed, match=r"a return is no number; update 2 is saved in .*step-000000000002"):
        pqn.train(tiny(TOGETHER, seeds=2), out=tmp_path / "run", progress=QUIET)
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert max(row["update"] for row in rows) == 2  # nothing of the chunk that was thrown away
