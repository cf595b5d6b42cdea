"""Ctrl-C in a command, heard wherever the program is.

Python turns Ctrl-C into an exception at the place where the program happens to be. While JAX is imported, libraries
swallow it or call it an error of their own: the command would go on, or blame itself. Training has a way of its own,
which saves the run first (`pqn.training.pace`).
"""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SOON = 0.05  # seconds; a callback of the garbage collector has returned by then
INTERRUPTED = 130  # the exit status


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Within it, Ctrl-C raises KeyboardInterrupt where that reaches the command, and else ends the process."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # or somebody wants it otherwise, as nohup
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _importing(frame):  # nothing is under way yet
        with contextlib.suppress(OSError):
            os.write(2, b"pqn: interrupted\n")
        os._exit(INTERRUPTED)
    if frame is not None and any(frame.f_code is getattr(each, "__code__", None) for each in gc.callbacks):
        again = threading.Timer(SOON, _thread.interrupt_main)  # the collector prints what its callbacks raise
        again.daemon = True
        again.start()
        return
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    """Whether the program is within an import statement."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
