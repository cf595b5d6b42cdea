"""Terminals that are narrow, gone, full or without Greek: what a run says never ends it."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, build, tiny

import pqn
from pqn import device, training
from pqn.cli import main as cli
from pqn.cli.main import main
from pqn.errors import RUN_DIRECTORY, DeviceError, PqnError, explained
from pqn.progress import Progress, fitted_line, format_line, human
from pqn.runs.metrics import read_metrics
from pqn.terminal import SafeStream, cells, cut, safe, showable

FIELDS = {
    "step": 230_000, "total": 500_000, "return": 187.3, "eval": 203.1, "epsilon": 0.2, "loss": 0.0132,
    "rate": 61_234.0, "eta": 4000.0,
}  # fmt: skip


class Terminal(io.StringIO):
    """A terminal of some width that remembers what was drawn on it."""

    width = 80

    def isatty(self) -> bool:
        return True

    def drawn(self) -> list[str]:
        return [line for part in self.getvalue().split("\n") for line in part.split("\r")]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_live_line_fits_the_terminal_now(monkeypatch, encoding):
    terminal, now = Terminal(), 0.0
    monkeypatch.setattr(Terminal, "encoding", encoding)
    monkeypatch.setattr("pqn.progress.columns", lambda _: terminal.width)
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress(terminal)
    for width in (200, 80, 40, 120, 12, 5):
        now, terminal.width = now + 1.0, width
        terminal.seek(0), terminal.truncate()
        progress.status("compiling the program of a very long name indeed, which takes quite some time to tell …")
        progress.update(FIELDS)
        assert max(map(cells, terminal.drawn())) < width, terminal.drawn()
    progress.note("a note")
    assert terminal.drawn()[-2] == "a note"
    now, terminal.width = now + 1.0, 80
    progress.update(FIELDS)
    terminal.seek(0), terminal.truncate()
    terminal.width = 20
    progress.note("another")
    assert max(map(cells, terminal.drawn())) < 20


def test_what_matters_least_is_left_out_first():
    assert fitted_line(FIELDS, 200) == format_line(FIELDS)
    shown = [fitted_line(FIELDS, width) for width in (85, 79, 60, 40)]
    assert "loss" not in shown[0] and "ε" in shown[0]
    assert "ε" not in shown[1] and "steps/s" in shown[1] and "ETA" in shown[2]
    assert all("return 187.3" in line and "46 %" in line for line in shown)


def test_cells_are_counted_and_not_letters():
    assert cells("日本") == 4 and cells("é") == 1 and cells("e\u0301") == 1
    assert cut("日本語", 5) == "日本…" and cut("abc", 3) == "abc" and cut("abcd", 1) == "…" and cut("abc", 0) == ""


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "ε ± 日"), ("ascii", "eps +- ?"), ("latin-1", "eps +- ?"), ("nonsense", "ε ± 日"), (None, "ε ± 日")],
)
def test_letters_that_an_encoding_lacks(encoding, shown):
    assert showable("ε ± 日", type("Stream", (), {"encoding": encoding})) == shown


def test_a_name_that_is_no_text():
    assert showable("\udcff", sys.__stdout__) == "?"


def test_a_stream_that_fails_is_silent(tmp_path):
    with open(tmp_path / "closed", "w") as closed:
        pass
    full = io.TextIOWrapper(io.FileIO("/dev/full", "w"), line_buffering=True)  # no `with`: closing it fails, too
    for stream in (None, closed, full):
        guarded = SafeStream(stream)
        progress = Progress(safe(guarded))
        for _ in range(3):
            progress.note("ε")
            progress.update(FIELDS)
        progress.end()
        guarded.flush()
        assert (guarded.failure is None) == (stream is None) and not guarded.isatty()


def test_long_work_shows_how_long_it_takes(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("pqn.progress.columns", lambda _: 80)
    with Progress(terminal).working("playing …", every=0.001):
        while "playing" not in terminal.getvalue():
            time.sleep(0.001)
    assert terminal.drawn()[1] == "playing … 0:00" and terminal.drawn()[-2:] == [" " * 14, ""]
    quiet = io.StringIO()
    with Progress(quiet).working("playing …", every=0.001):
        time.sleep(0.01)
    assert quiet.getvalue() == ""  # a log file has no use for it


def test_warnings_are_shown_when_quiet():
    stream = io.StringIO()
    progress = Progress(stream, quiet=True)
    progress.note("not this")
    progress.warn("but this")
    assert stream.getvalue() == "but this\n"


# ------------------------------------------------------------------------------------------ a training, in a shell

WORDS = " ".join(
    f"--{name} {' '.join(map(str, value if isinstance(value, tuple) else [value]))}" for name, value in TINY.items()
)
TRAIN = f"{sys.executable} -m pqn train cartpole {WORDS} --total-steps 640 --out run"


def shell(command: str, directory: Path, **variables: str) -> subprocess.CompletedProcess:
    # With a buffer, as users have it: what could not be written is tried again when Python ends.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | variables
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, check=False, cwd=directory, timeout=200, env=environment
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (f"{TRAIN} <&- >&- 2>&-", 0),
        (f"{TRAIN} >/dev/full 2>/dev/full", 2),
        (f"set -o pipefail; {TRAIN} 2>&1 | head -c 5", 0),
        (f"{TRAIN}", 0),
    ],
    ids=["closed", "full", "head", "ascii"],
)
def test_a_training_outlives_its_terminal(command, status, tmp_path):
    done = shell(command, tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr and done.stdout.isascii() and done.stderr.isascii()
    assert (tmp_path / "run" / "summary.json").exists()
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")  # nothing but rows: a closed descriptor's number is reused
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [0, 320, 640]


def test_closed_descriptors_are_not_given_to_files(tmp_path):
    code = "import os; from pqn.cli.main import main; main(['envs']); os._exit(os.open('file', os.O_CREAT) <= 2)"
    assert shell(f'{sys.executable} -c "{code}" <&- >&- 2>&-', tmp_path).returncode == 0
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("presets | head -1", 0, b""),
        ("--version >/dev/full", 2, b"pqn: cannot write to standard output: the disk is full\n"),
        ("envs >&-", 0, b""),
        ("trian 2>&-", 2, b""),
    ],
)
def test_output_that_nobody_reads(command, status, said, tmp_path):
    done = shell(f"set -o pipefail; {sys.executable} -m pqn {command}", tmp_path)
    assert (done.returncode, done.stderr) == (status, said)


def test_a_hangup_saves_like_ctrl_c():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the suite itself may run under nohup
    try:
        with training._Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.caught == "SIGHUP"
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_under_nohup_a_hangup_is_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with training._Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.caught is None
    finally:
        signal.signal(signal.SIGHUP, before)


# ------------------------------------------------------------------------------------------ devices and their memory


def test_out_of_memory_names_the_options():
    # More than any address space: a system that promises memory which it does not have would really try a terabyte.
    for huge in (lambda: jnp.zeros((2**30, 2**30)), lambda: np.empty(2**50)):
        with (
            pytest.raises(DeviceError, match=r"not enough memory .* lower env\.num_envs, .*network\.hidden, seeds"),
            explained(),
        ):
            huge()


def test_a_run_that_cannot_fit_is_refused_before_it_starts(monkeypatch, tmp_path):
    monkeypatch.setattr(device, "machine_memory", lambda: 2.0**10)
    with pytest.raises(DeviceError, match=r"it needs 0\.0 GB, and this machine has 0\.0; lower env\.num_envs"):
        training.train(tiny(), out=tmp_path / "run", progress=Progress(quiet=True))
    assert not list(tmp_path.iterdir())


def test_a_program_that_cannot_fit_is_refused_before_it_runs(monkeypatch):
    program = build(tiny())
    assert 0 < device.size(program.state_shape) < 2**20 < device.machine_memory()
    program.compile()
    plan = device.planned(program._compiled.values())
    assert plan > device.size(program.state_shape)
    monkeypatch.setattr(device, "machine_memory", lambda: plan - 1.0)
    with pytest.raises(DeviceError):
        program.compile()


def test_other_errors_are_left_alone():
    for error in (RuntimeError("out of memory"), ValueError("x"), KeyError("x"), PqnError("x")):
        with pytest.raises(type(error), match=str(error)), explained():
            raise error


@pytest.mark.parametrize(("platforms", "remedy"), [("cuda", "JAX_PLATFORMS is 'cuda': unset it"), ("", "no device of")])
def test_no_device_is_one_sentence(platforms, remedy, monkeypatch, capsys, tmp_path):
    def devices():
        raise AssertionError  # what JAX really says when CUDA is asked for and not installed

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.setattr("jax.devices", devices)
    assert main(["train", "cartpole"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pqn: JAX cannot start: ") and remedy in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(DeviceError, match="JAX cannot start"):
        pqn.load(tmp_path)  # before it looks at anything


# ------------------------------------------------------------------------------------------ errors that nobody expected


def outcome(error: BaseException, monkeypatch, capsys) -> tuple[int, str]:
    def dispatch(_):
        raise error

    monkeypatch.setattr(cli, "_dispatch", dispatch)
    return main(["presets"]), capsys.readouterr().err


def test_a_bug_shows_its_traceback_and_names_the_run(monkeypatch, capsys):
    error = KeyError("lr")
    error.add_note("something of JAX")
    error.add_note(f"{RUN_DIRECTORY} runs/x")
    status, said = outcome(error, monkeypatch, capsys)
    last = said.splitlines()[-1]
    assert status == 1 and "Traceback" in said and "KeyError: 'lr'" in said
    assert last.startswith("pqn: KeyError was not expected") and last.endswith("above (run directory: runs/x)")


def test_a_run_that_ends_in_an_error_is_in_its_notes(monkeypatch, tmp_path):
    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr(training._Loop, "compile", broken)
    with pytest.raises(KeyError) as error:
        training.train(tiny(), out=tmp_path / "run", progress=Progress(quiet=True))
    assert error.value.__notes__ == [f"{RUN_DIRECTORY} {tmp_path / 'run'}"]


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (OSError(errno.EACCES, "Permission denied", "/x/y"), 2, "cannot go on: '/x/y': permission denied"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 2, "cannot go on: broken pipe"),  # not of our output
        (SystemExit(0), 1, "ended from within: 0"),  # of an environment's code: training was cut short
        (KeyboardInterrupt(), 130, "interrupted"),
        (PqnError("two\nlines"), 2, "two lines"),
        (MemoryError(), 2, "there is not enough memory for this run"),
    ],
)
def test_errors_from_outside_are_one_sentence(error, status, sentence, monkeypatch, capsys):
    found, said = outcome(error, monkeypatch, capsys)
    assert found == status and said.startswith(f"pqn: {sentence}") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0, 3, "0"), (-0.0, 3, "0"), (0.25, 3, "0.25"), (999, 3, "999"), (1000, 3, "1 k"), (250_000, 3, "250 k"),
     (1.5e6, 3, "1.5 M"), (2e9, 3, "2 G"), (-2500, 3, "-2.5 k"), (999_999.9, 3, "1 M"), (999_999.9, 4, "1 M"),
     (1_125_000, 3, "1.12 M"), (1_125_000, 4, "1.125 M")],
)  # fmt: skip
def test_human_numbers(value: float, digits: int, text: str) -> None:
    assert human(value, digits) == text
