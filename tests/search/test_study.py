"""The record that workers share: budgets, deaths, pruning. Nothing is trained here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import tiny

from pqn.errors import RunError
from pqn.search.space import Choice, Range, Space
from pqn.search.study import Search

pytest.importorskip("optuna", reason="the extra `tune` is not installed")

BASE = tiny({"eval.count": 5})
SPACE = Space({"learner.lr": Range(1e-4, 1e-1, log=True), "network.norm": Choice(("layer", "none"))})


def states(search):
    return [trial.state.name for trial in search.trials()]


def test_two_workers_share_one_journal_and_one_budget(tmp_path):
    first, second = Search(tmp_path, BASE, SPACE), Search(tmp_path, BASE, SPACE)
    ours, theirs = first.ask(3, budget=5), second.ask(3, budget=5)
    assert [asked.number for asked in ours + theirs] == [0, 1, 2, 3, 4]
    assert not first.ask(3, budget=5) and not second.ask(1, budget=5)
    assert len({asked.config.learner.lr for asked in ours + theirs}) == 5  # they do not propose the same
    for asked in ours + theirs:
        (first if asked in ours else second).complete(asked, 10.0 * asked.number)
    assert states(second) == ["COMPLETE"] * 5
    trial, config = first.best()
    assert trial.number == 4 and config == theirs[1].config


def test_a_worker_that_was_killed_leaves_its_trials_to_others(tmp_path):
    """Really killed, with trials asked for and the journal open."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "sys.path.insert(0, 'tests'); from search.test_study import BASE, SPACE, Search\n"
        f"search = Search(Path({str(tmp_path)!r}), BASE, SPACE)\n"
        "done, *_ = search.ask(3, budget=4); search.complete(done, 1.0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    search = Search(tmp_path, BASE, SPACE)
    assert states(search) == ["COMPLETE", "RUNNING", "RUNNING"]
    lost = [search.base.replace(search.space.options(trial.params)) for trial in search.trials()[1:]]
    asked = search.ask(10, budget=4)
    assert states(search) == ["COMPLETE", "FAIL", "FAIL", "RUNNING", "RUNNING", "RUNNING"]
    assert [entry.config for entry in asked[:2]] == lost  # the same options, before new ones
    assert not search.ask(10, budget=4)  # its own trials are alive
    other = Search(tmp_path, BASE, SPACE)
    assert not other.ask(10, budget=4)  # and are seen to be


def test_trials_that_the_user_stopped_are_tried_again(tmp_path):
    search = Search(tmp_path, BASE, SPACE)
    asked = search.ask(2, budget=2)
    search.give_back(asked[1:])
    search.close()
    again = Search(tmp_path, BASE, SPACE).ask(2, budget=2)
    assert [entry.config for entry in again] == [asked[1].config, asked[0].config]  # also of the worker that is gone


def test_pruning_follows_the_learning_curve(tmp_path):
    search = Search(tmp_path, BASE, SPACE, startup=3)
    points = [BASE.steps * share // 5 for share in range(1, 6)]
    for asked, slope in zip(search.ask(3, budget=9), (1.0, 2.0, 3.0), strict=True):
        assert all(search.report(asked, step, slope * place) for place, step in enumerate(points, start=1))
        search.complete(asked, 5 * slope)
    low, high, blind = search.ask(3, budget=9)
    assert search.report(high, points[1], 4.1) and not search.report(low, points[1], 3.9)  # the median there is 4
    assert search.report(blind, points[1], None)  # no episode has ended: nothing is known
    never = Search(tmp_path, BASE, SPACE, startup=3, prune=False)
    assert never.report(never.ask(1, budget=9)[0], points[1], 0.0)
    search.prune(low, "below the median at update 4")
    assert states(search)[3] == "PRUNED" and "below the median" in search.write().read_text()


def test_a_record_never_goes_back(tmp_path, monkeypatch):
    """A worker that has read the trials must not write them over what another has written since."""
    slow, fast = Search(tmp_path, BASE, SPACE), Search(tmp_path, BASE, SPACE)
    (asked,) = fast.ask(1, budget=1)
    read, writer = slow.trials, threading.Thread(target=fast.write)

    def trials():
        found = read()
        fast.complete(asked, 7.0)
        writer.start()  # it wants to write before the slow one does
        writer.join(0.5)
        return found

    monkeypatch.setattr(slow, "trials", trials)
    slow.write()
    writer.join()
    (row,) = json.loads((tmp_path / "trials.json").read_text())
    assert (row["state"], row["value"]) == ("complete", 7.0)


def test_another_search_in_the_same_place_is_refused(tmp_path):
    Search(tmp_path, BASE, SPACE).close()
    with pytest.raises(RunError, match="total_steps is 1280 in this search and 640 in that one; choose another --out"):
        Search(tmp_path, BASE.replace(total_steps=1280), SPACE)
    with pytest.raises(RunError, match="holds a search in another space"):
        Search(tmp_path, BASE, Space({"learner.lr": Range(1e-4, 1.0)}))


def tear(journal: Path, bytes_lost: int) -> None:
    """As a worker that is killed in the middle of a line leaves it."""
    journal.write_bytes(journal.read_bytes()[:-bytes_lost])


@pytest.mark.parametrize("alive", [True, False], ids=["while another works", "and all are gone"])
def test_a_line_torn_by_a_kill_does_not_end_the_search(alive, tmp_path):
    search = Search(tmp_path, BASE, SPACE)
    first, second = search.ask(2, budget=3)
    search.complete(first, 7.0)
    other = Search(tmp_path, BASE, SPACE) if alive else None
    search.complete(second, 8.0)
    tear(tmp_path / "journal.log", 9)
    search.close()
    other = other or Search(tmp_path, BASE, SPACE)
    asked = other.ask(3, budget=3)
    assert asked[0].config == second.config, "its end is not known, so it is tried again"
    for entry in asked:
        other.complete(entry, 9.0)
    assert states(Search(tmp_path, BASE, SPACE)) == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"op_code": 99}', '{"op_code": 1}', '{"op_code": 0}', "\xff"])
def test_a_journal_that_is_none_is_told(line, tmp_path):
    Search(tmp_path, BASE, SPACE).close()
    with (tmp_path / "journal.log").open("a", encoding="latin-1") as file:
        file.write(f"{line}\n" * 2)
    with pytest.raises(RunError, match=r"journal.log is damaged: Optuna cannot read it; choose another --out"):
        Search(tmp_path, BASE, SPACE)
    (tmp_path / "journal.log").unlink()
    os.mkfifo(tmp_path / "journal.log")
    with pytest.raises(RunError, match="is a pipe"):
        Search(tmp_path, BASE, SPACE)


def test_options_that_do_not_fit_together_are_no_error(tmp_path):
    space = Space({"learner.minibatches": Choice((7,))})
    (asked,) = Search(tmp_path, BASE, space).ask(1, budget=1)
    assert asked.config is None and "learner.minibatches 7 does not divide" in asked.reason


def test_locks_leave_no_descriptors_open(tmp_path):
    search = Search(tmp_path, BASE, SPACE)
    before = len(os.listdir("/proc/self/fd"))
    search.complete(search.ask(1, budget=1)[0], 1.0)
    assert len(os.listdir("/proc/self/fd")) == before
