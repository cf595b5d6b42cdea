"""Ends a process when one of the others is gone: it would wait for ever for what the other was to compute.

Every process says once a second that it is alive, and how far it has come. A thread in each looks at the others:

- One that has said that it failed ends all at once.
- One that has not been heard of for `patience` seconds was killed or stopped, or its machine is gone.
- One that is alive but has stayed behind for `TIMES_STUCK` times that long hangs.

If process 0 is gone, so is the store that this goes through; then JAX aborts the process, and `Watch` only adds the
sentence.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from types import TracebackType
from typing import Protocol, Self

from pqn.hosts.meeting import HostsError, Place

TIMES_STUCK = 10
SECONDS_BETWEEN_SIGNS = 1.0
SECONDS_TO_NAME = 5.0  # after a collective operation has failed: two or three signs of life are missing by then
SECONDS_TO_FAIL_ALIKE = 4.0
STATUS = 2
HINT = "the last checkpoint is intact; start all processes again with `pqn resume RUN` to go on"

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


class Store(Protocol):
    """What is used of JAX's coordinator."""

    def key_value_set_bytes(self, key: str, value: bytes, allow_overwrite: bool = False) -> None: ...

    def key_value_dir_get_bytes(self, key: str) -> list[tuple[str, bytes]]: ...

    def key_value_delete(self, key: str) -> None: ...

    def wait_at_barrier(self, barrier_id: str, timeout_in_ms: int) -> None: ...


class Watch:
    """A thread that gives signs of life and looks for those of others, from `with` to the end of its block."""

    def __init__(self, place: Place, store: Store, patience: float):
        self.place, self.store, self.patience = place, store, patience
        self.progress = 0  # messages exchanged so far
        self._signs: dict[int, tuple[bytes, float]] = {}  # of each other process: the last sign, and when it came
        self._hosts: dict[int, str] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._told: str | None = None  # what another process said when it failed
        self._behind: tuple[object, int] | None = None  # who was behind at which message, and since when
        self._since = 0.0
        self._on_abort = _HANDLER(self._aborted)  # kept: C has a pointer to it

    def __enter__(self) -> Self:
        now = time.monotonic()
        self._signs = {other: (b"", now) for other in range(self.place.processes) if other != self.place.process}
        ctypes.CDLL(None).signal(int(signal.SIGABRT), self._on_abort)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        signal.signal(signal.SIGABRT, signal.SIG_DFL)

    def tell(self, failure: BaseException) -> None:
        """Tells the others why this process ends."""
        sentence = " ".join(str(failure).split())[:500] or type(failure).__name__
        with contextlib.suppress(Exception):
            self.store.key_value_set_bytes(f"pqn/failed/{self.place.process}", sentence.encode())
            if self.place.process == 0:  # it takes the store with it
                time.sleep(SECONDS_TO_FAIL_ALIKE)

    def find_gone(self) -> HostsError | None:
        """Who is gone, after an operation has failed; it takes some seconds to know. None: nobody."""
        deadline = time.monotonic() + SECONDS_TO_NAME + 2 * SECONDS_BETWEEN_SIGNS
        while time.monotonic() < deadline:
            sentence = self.trouble(SECONDS_TO_NAME)
            if sentence:
                return HostsError(sentence)
            time.sleep(0.2)
        return None

    def trouble(self, patience: float) -> str | None:
        """Who is gone, in a sentence; None if all are there."""
        try:
            failed = sorted(self.store.key_value_dir_get_bytes("pqn/failed"))
            signs = self.store.key_value_dir_get_bytes("pqn/alive")
        except Exception:
            return f"process 0 at {self.place.coordinator} cannot be reached any more; {HINT}"
        for key, sentence in failed:
            number = int(key.rpartition("/")[2])
            if number != self.place.process:
                self._told = f"process {self._name(number)} has ended: {sentence.decode(errors='replace')}"
                return self._told
        now, progress = time.monotonic(), {}
        for key, sign in signs:
            number = int(key.rpartition("/")[2])
            beat, came_to, host = sign.split(b" ", 2)
            self._hosts[number], progress[number] = host.decode(errors="replace"), int(came_to)
            if number in self._signs and self._signs[number][0] != beat:
                self._signs[number] = beat, now
        for number, (_, heard) in sorted(self._signs.items()):
            if now - heard > patience:
                return f"process {self._name(number)} has not been heard of for {now - heard:.0f} s; {HINT}"
        return self._stuck(progress, now)

    def _stuck(self, progress: dict[int, int], now: float) -> str | None:
        behind = {number: came_to for number, came_to in progress.items() if came_to < self.progress}
        if (behind, self.progress) != self._behind:
            self._behind, self._since = (behind, self.progress), now
        if behind and now - self._since > TIMES_STUCK * self.patience:
            return f"process {self._name(min(behind))} has made no progress for {now - self._since:.0f} s; {HINT}"
        return None

    def _name(self, number: int) -> str:
        host = self._hosts.get(number)
        return f"{number} on {host}" if host else str(number)

    def _run(self) -> None:
        beat, key, host = 0, f"pqn/alive/{self.place.process}", socket.gethostname()
        while True:
            beat += 1
            with contextlib.suppress(Exception):  # `trouble` finds the same
                self.store.key_value_set_bytes(key, f"{beat} {self.progress} {host}".encode(), allow_overwrite=True)
            sentence = self.trouble(self.patience)
            # What has failed in another process may be about to fail here, too, and be said by the main thread.
            if sentence and not self._done.wait(SECONDS_TO_FAIL_ALIKE if self._told else 0.0):
                _end(sentence)
            if self._done.wait(SECONDS_BETWEEN_SIGNS):
                return

    def _aborted(self, number: int) -> None:
        """JAX has lost its coordinator and aborts, from a thread of its own."""
        _end(self._told or f"process 0 at {self.place.coordinator} cannot be reached any more; {HINT}")


def _end(sentence: str) -> None:
    """The main thread may wait in a computation that never ends, so nothing can be raised there."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os.write(2, f"\npqn: {sentence}\n".encode())
    os._exit(STATUS)
