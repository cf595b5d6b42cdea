"""Ctrl-C is heard also where a library would swallow the exception that Python makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SWALLOWS = """\
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(10**6): pass
except BaseException: pass
"""
COLLECTS = """\
import gc, os, time
def callback(*_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
    gc.callbacks.clear()
try:
    with heard():
        gc.callbacks.append(callback)
        gc.collect()
        time.sleep(10)
except KeyboardInterrupt:
    print("heard")
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "swallows.py").write_text(SWALLOWS)
    start = f"""\
import signal, sys
from pqn.cli.interrupts import heard
sys.path.insert(0, {str(folder)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the shell of the tests does with its jobs
"""
    return subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, check=False, timeout=30)


def test_while_something_is_imported_it_ends_the_process(tmp_path: Path) -> None:
    done = run("with heard():\n    import swallows\nprint('went on')", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "pqn: interrupted\n")


def test_in_a_callback_of_the_garbage_collector_it_comes_a_moment_later(tmp_path: Path) -> None:
    done = run(COLLECTS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")


@pytest.mark.parametrize("before", ["SIG_IGN", "default_int_handler"])
def test_what_was_there_before_is_there_again(before: str, tmp_path: Path) -> None:
    code = (
        f"signal.signal(signal.SIGINT, signal.{before})\n"
        "with heard(): print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)\n"
        f"assert signal.getsignal(signal.SIGINT) == signal.{before}"
    )
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{before == 'SIG_IGN'}\n"), done.stderr
