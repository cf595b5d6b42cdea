"""When the host loop looks at a run: points evenly spaced, chunks of about a second, and signals."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

SECONDS_PER_CHUNK = 1.0  # how long the program may run before the host looks at signals and the clock


class Every:
    """Evenly spaced points of a run: `count` of them, the last at its end; none when `count` is 0."""

    def __init__(self, updates: int, count: int):
        self.updates, self.count = updates, count

    def at(self, update: int) -> bool:
        return self.count > 0 and update > 0 and self._point(update * self.count // self.updates) == update

    def next(self, update: int) -> int:
        return self._point(update * self.count // self.updates + 1)

    def _point(self, number: int) -> int:
        """The update of a point, counted from 1; computed and not kept, since a run may ask for a billion."""
        return min(-(-self.updates * number // self.count), self.updates) if self.count else self.updates


def pace(limit: int, count: int, seconds: float) -> int:
    """Chunk length that keeps the host's look at the world about once a second, growing at most eightfold a time."""
    return max(1, min(8 * max(limit, count), int(SECONDS_PER_CHUNK * count / max(seconds, 1e-6))))


class Signals:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a note for the loop; a second one acts at once, as usual."""

    def __init__(self) -> None:
        self.caught: str | None = None
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        hangup = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
        if hangup and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # `nohup`: the user wants it ignored
            hangup = []
        for number in (signal.SIGINT, signal.SIGTERM, *hangup):
            try:
                self._old[number] = signal.signal(number, self._catch)
            except ValueError:  # not in the main thread: the program around us handles signals
                break
        return self

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = signal.Signals(number).name
        signal.signal(number, self._old[number])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
