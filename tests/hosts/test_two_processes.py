"""Two real processes, over gloo: what they train, how they end, and what is left."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from pair import LIMIT, Pair, arrays_of, assert_close, one_process, words_of

from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs.directory import RunDir, read_summary
from pqn.runs.metrics import read_metrics
from pqn.training import resume

pytestmark = pytest.mark.timeout(2 * LIMIT)


def test_two_processes_train_what_one_does(tmp_path):
    with Pair(tmp_path, [*words_of(10), "--out", "run"]) as pair:
        assert [pair.wait(0), pair.wait(1)] == [0, 0], pair.said(0)
    run, alone = tmp_path / "run", one_process(tmp_path, 10)
    newest = run / "checkpoints" / "step-000000000010"
    assert sorted(file.name for file in newest.iterdir()) == [
        "manifest.json", "part-000000-000000.safetensors", "part-000000-000001.safetensors"
    ]  # fmt: skip
    assert_close(arrays_of(run), arrays_of(alone), 1e-6)
    rows, wanted = read_metrics(run / "metrics.jsonl"), read_metrics(alone / "metrics.jsonl")
    assert [(row["kind"], row["update"]) for row in rows] == [(row["kind"], row["update"]) for row in wanted]
    for row, like in zip(rows, wanted, strict=True):
        same = [name for name in ("loss", "episodes", "return_sum", "grad_norm", "returns") if name in like]
        for name in same:
            np.testing.assert_allclose(row[name], like[name], rtol=1e-5)
    assert read_summary(RunDir.open(run))["eval_return"] == read_summary(RunDir.open(alone))["eval_return"]
    assert "greedy return" in pair.logs[0].read_text() and "greedy return" not in pair.logs[1].read_text()
    # One process goes on where two stopped.
    config = (run / "config.json").read_text()
    assert '"total_steps": 640' in config
    damaged = newest / "part-000000-000001.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")  # each part is sealed
    (run / "summary.json").unlink()
    resume(run, progress=Progress(quiet=True))
    assert_close(arrays_of(run), arrays_of(alone), 1e-6)


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_killed_process_ends_the_other_and_nothing_is_lost(tmp_path, victim):
    more = {"save.checkpoints": 100, "save.keep": 100, "eval.count": 0}
    with Pair(tmp_path, [*words_of(400, **more), "--out", "run"]) as pair:
        deadline = time.monotonic() + LIMIT
        while not list((tmp_path / "run").glob("checkpoints/step-*")):
            assert time.monotonic() < deadline and pair.processes[0].poll() is None, pair.said(0)
            time.sleep(0.05)
        listening = {address for process in pair.processes for address in listens(process.pid)}
        pair.kill(victim)
    assert listening and all(address.is_loopback for address in listening)
    trained = checkpoint.read(checkpoint.latest(tmp_path / "run" / "checkpoints"))
    updates = int(trained.metadata["update"])
    assert 4 <= updates < 400
    more = {"learner.schedule_steps": 64 * 400, "save.checkpoints": 1, "eval.count": 0}
    alone = one_process(tmp_path, updates, **more)
    assert_close(trained.arrays, arrays_of(alone), 1e-4)
    resume(tmp_path / "run", progress=Progress(quiet=True))
    assert read_summary(RunDir.open(tmp_path / "run"))["steps"] == 64 * 400


def listens(pid: int) -> set:
    """The addresses at which a process listens."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(file))
    found = set()
    for family, size in (("tcp", 8), ("tcp6", 32)):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                words = bytes.fromhex(fields[1].split(":")[0])
                address = b"".join(words[i : i + 4][::-1] for i in range(0, size // 2, 4))
                there = ipaddress.ip_address(address)
                found.add(getattr(there, "ipv4_mapped", None) or there)
    return found


def wait_for_a_row(run: Path) -> None:
    """Until both processes train: the first row is of an evaluation that both take part in."""
    deadline = time.monotonic() + LIMIT
    while not ((run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_at_the_same_update(tmp_path):
    with Pair(tmp_path, [*words_of(4000), "--out", "run"]) as pair:
        wait_for_a_row(tmp_path / "run")
        pair.processes[1].send_signal(signal.SIGTERM)
        assert [pair.wait(0), pair.wait(1)] == [130, 130]
    first, second = (pair.said(number).partition(";")[0] for number in (0, 1))
    assert first == second and first.startswith("pqn: stopped by SIGTERM at update ")


@pytest.mark.slow
def test_a_stopped_process_ends_the_other(tmp_path):
    with Pair(tmp_path, [*words_of(4000), "--out", "run"], patience=8) as pair:
        wait_for_a_row(tmp_path / "run")
        pair.processes[1].send_signal(signal.SIGSTOP)
        assert pair.wait(0) == 2
    assert pair.said(0).startswith("pqn: process 1 ") and "has not been heard of" in pair.said(0)


def test_processes_with_different_options_say_so_and_end(tmp_path):
    with Pair(tmp_path, [*words_of(10), "--out", "run"], other=("--learner.lr", "0.5")) as pair:
        assert [pair.wait(0), pair.wait(1)] == [2, 2]
    assert pair.said(0) == pair.said(1)
    assert "was started with something else: learner.lr is 0.5 there and 0.0001 in process 0" in pair.said(0)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--coordinator", "127.0.0.1:4000"], "several processes need all of --coordinator HOST:PORT, --processes P"),
        (["--distributed", "--process", "0"], "--distributed finds out --coordinator"),
        (["--coordinator", "here", "--processes", "2", "--process", "0"], "the coordinator is HOST:PORT"),
    ],
)
def test_half_of_the_options_is_one_sentence(capsys, words, sentence):
    from pqn.cli.main import main

    assert main(["train", "cartpole", *words]) == 2
    assert sentence in capsys.readouterr().err
