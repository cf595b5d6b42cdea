"""Who runs where: some cores for the threads that feed the accelerator, the others for simulators.

Simulators with a thread on every core are as fast as they can be, and yet a run is slower than it could be: whatever
thread of XLA or CUDA has something to do takes a core from one of them, and all the others then wait for that one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import jax

T = TypeVar("T")

FEW = 8  # cores, of which none can be spared
KEPT = 2


class Division(NamedTuple):
    """Cores by who runs on them."""

    program: frozenset[int]
    simulators: frozenset[int]


def division(concurrent: bool) -> Division | None:
    """How the cores that this process may use are divided; None where everybody runs everywhere.

    That is so without an accelerator, with few cores, on other systems than Linux, and for simulators that are not
    `concurrent`: those have no threads of their own.
    """
    if not concurrent or jax.default_backend() == "cpu" or not hasattr(os, "sched_setaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return Division(frozenset(cores[:KEPT]), frozenset(cores[KEPT:])) if len(cores) >= FEW else None


def on_simulators_cores(where: Division | None, start: Callable[[], T]) -> T:
    """Calls `start`, and gives each thread that it starts one of the simulators' cores.

    One and not all: left to Linux, some cores have several threads that wait, for milliseconds, while others have none.
    """
    if where is None:
        return start()

    def confined() -> T:
        confine(0, where.simulators)  # this thread, and those that it starts
        before = set(threads())
        out = start()
        started = [one for one in threads() if one not in before and affinity(one) == where.simulators]
        for core, one in zip(itertools.cycle(sorted(where.simulators)), started, strict=False):
            confine(one, {core})
        return out

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(confined).result()


@contextlib.contextmanager
def apart(where: Division | None) -> Iterator[None]:
    """All other threads of this process leave those cores for a while."""
    if where is None:
        yield
        return
    for thread in threads():
        if not affinity(thread) <= where.simulators:
            confine(thread, where.program)
    try:
        yield
    finally:
        for thread in threads():
            if affinity(thread) == where.program:
                confine(thread, where.program | where.simulators)


def threads() -> list[int]:
    """Those of this process, the oldest first."""
    return sorted(map(int, os.listdir("/proc/self/task")))


def affinity(thread: int) -> set[int]:
    try:
        return os.sched_getaffinity(thread)
    except OSError:  # it has ended meanwhile
        return set()


def confine(thread: int, cores: Set[int]) -> None:
    with contextlib.suppress(OSError):  # it has ended, or a sandbox forbids this
        os.sched_setaffinity(thread, cores)
