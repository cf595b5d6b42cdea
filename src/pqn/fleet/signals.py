"""Signals that ask a process with arms elsewhere to stop."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def stopping() -> Iterator[list[str]]:
    """The names of the signals that ask this process to stop, as they come: it looks at them between other things.

    A second one of the same kind acts at once, as usual.
    """
    caught: list[str] = []
    old = {}

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(signal.Signals(number).name)
        signal.signal(number, old[number])

    numbers = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    try:
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup`: the user wants it ignored
                with contextlib.suppress(ValueError):  # not in the main thread: the program around us handles signals
                    old[number] = signal.signal(number, catch)
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
