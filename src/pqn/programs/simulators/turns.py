"""How the groups share the time of the host: in turn in one thread, or each in a thread of its own.

What a group does is a generator. It pauses whenever its actions have been sent to be computed.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

T = TypeVar("T")

# Seconds after which a thread that waits for Python's lock asks for it. The thread of a group holds the lock for a
# millisecond at most, but meanwhile the simulators of another group have nothing to do.
SWITCH_INTERVAL = 5e-5


def in_turn(groups: Sequence[Generator[None, None, T]]) -> list[T]:
    """Runs all groups in this thread, each to its next pause."""
    results: dict[int, T] = {}
    while len(results) < len(groups):
        for number, group in enumerate(groups):
            if number not in results:
                try:
                    next(group)
                except StopIteration as end:
                    results[number] = end.value
    return [results[number] for number in range(len(groups))]


def in_threads(groups: Sequence[Generator[None, None, T]]) -> list[T]:
    """Runs every group in a thread of its own. When one fails, or this thread is interrupted, the others stop."""
    stop, results = Event(), dict[int, T]()

    def run(number: int) -> None:
        try:
            while not stop.is_set():
                next(groups[number])
        except StopIteration as end:
            results[number] = end.value
        except BaseException:
            stop.set()
            raise

    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    with ThreadPoolExecutor(len(groups)) as threads:
        futures = [threads.submit(run, number) for number in range(len(groups))]
        try:
            wait(futures)
        finally:
            stop.set()
            sys.setswitchinterval(interval)
    for future in futures:
        future.result()  # raises what the group raised
    return [results[number] for number in range(len(groups))]
