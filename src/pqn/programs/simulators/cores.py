"""Reserved cores: some for the threads that feed the accelerator, the others for simulators.

Simulators with a thread on every core are fast by themselves, but a run with them is slow: a thread of XLA or CUDA that
has work takes a core from one simulator, and all other simulators then wait for that one.
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

FEWEST_CORES = 8  # with fewer, simulators need all of them
PROGRAM_CORES = 2


class Division(NamedTuple):
    """Cores by who runs on them."""

    program: frozenset[int]
    simulators: frozenset[int]


def division(concurrent: bool) -> Division | None:
    """How the cores that this process may use are divided; None where every thread may run on every core.

    None without an accelerator, with few cores, on other systems than Linux, and for simulators that are not
    `concurrent`: these have no threads of their own.
    """
    if not concurrent or jax.default_backend() == "cpu" or not hasattr(os, "sched_setaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < FEWEST_CORES:
        return None
    return Division(frozenset(cores[:PROGRAM_CORES]), frozenset(cores[PROGRAM_CORES:]))


def on_simulators_cores(cores: Division | None, start: Callable[[], T]) -> T:
    """Calls `start`, and gives each thread that it starts one of the simulators' cores.

    One core and not all of them: Linux would let several threads wait for one core, for milliseconds, while other cores
    have none.
    """
    if cores is None:
        return start()

    def confined() -> T:
        confine(0, cores.simulators)  # this thread, and those that it starts
        before = set(threads())
        out = start()
        started = [one for one in threads() if one not in before and affinity(one) == cores.simulators]
        for core, one in zip(itertools.cycle(sorted(cores.simulators)), started, strict=False):
            confine(one, {core})
        return out

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(confined).result()


@contextlib.contextmanager
def reserved_cores(cores: Division | None) -> Iterator[None]:
    """Inside of the block, no thread of this process runs on the simulators' cores but theirs."""
    if cores is None:
        yield
        return
    for thread in threads():
        if not affinity(thread) <= cores.simulators:
            confine(thread, cores.program)
    try:
        yield
    finally:
        for thread in threads():
            if affinity(thread) == cores.program:
                confine(thread, cores.program | cores.simulators)


def threads() -> list[int]:
    """The threads of this process, the oldest first."""
    return sorted(map(int, os.listdir("/proc/self/task")))


def affinity(thread: int) -> set[int]:
    """The cores that a thread may run on; none once it has ended."""
    try:
        return os.sched_getaffinity(thread)
    except OSError:
        return set()


def confine(thread: int, cores: Set[int]) -> None:
    """Lets a thread run on these cores only, if it has not ended and if the system allows it."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(thread, cores)
