"""A time after which a call of `pqn reproduce` saves what it has and ends."""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
import time
from collections.abc import Iterator


class Deadline:
    """So many minutes from now; None: never."""

    def __init__(self, minutes: float | None):
        self._ends = None if minutes is None else time.monotonic() + 60.0 * minutes

    @property
    def minutes_left(self) -> float:
        return float("inf") if self._ends is None else (self._ends - time.monotonic()) / 60.0

    @property
    def passed(self) -> bool:
        return self.minutes_left <= 0.0

    @contextlib.contextmanager
    def enforced(self) -> Iterator[None]:
        """Presses Ctrl-C, as it were, at the deadline: a training then writes a checkpoint and stops.

        Whoever catches the `Interrupted` or `KeyboardInterrupt` asks `passed` whether it was this or the user.
        """
        if self._ends is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        timer = threading.Timer(max(self._ends - time.monotonic(), 0.0), _thread.interrupt_main, (signal.SIGINT,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
