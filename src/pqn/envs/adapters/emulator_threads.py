"""Threads of emulators: how many to start, and how to start them so that they do not delay the rest of the program."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def usable_cores() -> int:
    """Cores that this process may run on; in a container or a batch job these are not all."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def start_in_background(make: Callable[[], T]) -> T:
    """Calls `make`; the threads that it starts give way to all other threads of this program.

    Emulators on as many threads as there are cores would delay the few threads that feed them and the accelerator, by
    up to the milliseconds for which Linux lets a thread run. Linux interrupts threads of its `SCHED_IDLE` class at
    once. A thread may always enter that class, and the threads that it starts inherit it. So `make` is called by a
    thread that has entered it. On other systems this is a plain call.
    """
    if not sys.platform.startswith("linux"):
        return make()

    def in_background() -> T:
        with contextlib.suppress(OSError):  # a sandbox may forbid even this
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return make()

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(in_background).result()
