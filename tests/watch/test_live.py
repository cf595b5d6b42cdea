"""A run that is watched: its phase, what is shown, torn lines, and that watching changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pqn
from pqn.cli.main import main
from pqn.report.html.gather import read_runs
from pqn.runs.directory import RunDir
from pqn.watch import live


@pytest.fixture
def run(finished_run, tmp_path) -> Path:
    shutil.copytree(finished_run.run, tmp_path / "run")
    return tmp_path / "run"


def rewind(run: Path, rows: int) -> list[str]:
    """The run as it was after so many rows; returns the others."""
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:rows]))
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints")
    return lines[rows:]


def test_a_finished_run(run, capsys):
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["watch", str(run), "--once"]) == 0
    said = capsys.readouterr().out
    assert "CartPole-v1, 2 seeds, finished" in said and "100 %  640 of 640 steps" in said
    assert "greedy return" in said and "ETA" not in said and "resume" not in said
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-2])
    assert f"{sum(last['return_sum']) / sum(last['episodes']):.4g}" in said
    assert main(["watch", str(run)]) == 0  # one that has ended is not followed
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_a_run_that_nobody_trains_is_stopped(run, capsys):
    rewind(run, 4)
    assert main(["watch", str(run)]) == 0
    said = capsys.readouterr().out
    assert "stopped" in said and f"continue it: pqn resume {run}" in said


def test_a_checkpoint_may_be_newer_than_the_last_row(run, capsys):
    """As after Ctrl-C: rows are a hundredth of the run apart."""
    rewind(run, 1)
    for update in (3, 7):
        (run / "checkpoints" / f"step-{update:012d}").mkdir(parents=True)
    (run / "checkpoints" / ".tmp-9").mkdir()
    assert main(["watch", str(run), "--once"]) == 0
    assert "70 %  448 of 640 steps" in capsys.readouterr().out
    [listed] = pqn.runs(run)
    assert (listed.steps, listed.status) == (448, "stopped")
    assert read_runs([run], print)[0].steps == 448


def test_a_line_that_is_being_written_is_left_out(run):
    rows = live.look(run).rows
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "update": 11, "st')
    assert live.look(run).rows == rows


def test_a_run_is_followed_to_its_end(run):
    left = rewind(run, 0)
    (run / "metrics.jsonl").unlink()
    trainer = RunDir.open(run)
    trainer.lock()
    shown: list[live.Snapshot] = []

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        if left:
            with open(run / "metrics.jsonl", "a") as file:
                file.write(left.pop(0))
        else:
            (run / "summary.json").write_text("{}")
            trainer.unlock()

    end = live.follow(run, shown.append, 0.5, sleep)
    assert [each.phase for each in shown[:2]] == ["starting", "running"]
    assert end.phase == "finished" and shown[-1] is end
    assert [len(each.rows) for each in shown[:-1]] == list(range(len(end.rows) + 1))
    middle = next(each for each in shown if each.step == 320)
    text = live.screen(middle, 78)
    assert "running" in text and " 50 %  320 of 640 steps" in text and "ETA" in text
    assert all(len(line) <= 78 for line in text.splitlines())
    assert live.line(middle).startswith(" 50 %  320 steps  return ") and live.line(shown[0]) == "starting, no rows yet"
    assert live.screen(middle, 78, unicode=False).replace("…", "").isascii()  # a stream without … writes dots


def test_ctrl_c_ends_watching_and_not_the_run(run, capsys, monkeypatch):
    rewind(run, 4)
    trainer = RunDir.open(run)
    trainer.lock()

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live.follow, "__defaults__", (interrupt,))
    assert main(["watch", str(run), "--every", "0.2"]) == 0
    assert "%" in capsys.readouterr().out and live.is_alive(run)
    trainer.unlock()


def test_the_lock_tells_who_is_alive(run):
    trainer = RunDir.open(run)
    trainer.lock()
    assert live.is_alive(run)
    trainer.unlock()
    assert not live.is_alive(run)  # the number of this process is in the file, but nobody holds the lock
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (run / ".lock").write_text(f"{gone.pid} {live.socket.gethostname()}\n")
    assert not live.is_alive(run)
    (run / ".lock").write_text("1 another-machine\n")
    assert not live.is_alive(run)  # it has a summary
    (run / "summary.json").unlink()
    assert live.is_alive(run)
    (run / ".lock").write_text("nonsense")
    assert not live.is_alive(run)


def test_watching_imports_no_jax(run):
    code = "import sys; from pqn.cli.main import main; assert main(sys.argv[1:]) == 0; assert 'jax' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code, "watch", str(run), "--once"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
