"""Compiling several programs side by side, and how long it took to trace them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax


class Compiled(NamedTuple):
    """Programs by name, and the seconds before the last of them was given to the compiler."""

    programs: dict[str, jax.stages.Compiled]
    trace_seconds: float


def compile_all(
    jobs: Mapping[str, Callable[[], jax.stages.Lowered]], options: dict[str, bool | str] | None
) -> Compiled:
    """Traces the programs one after the other and compiles each in a thread of its own as soon as it is traced.

    Tracing is Python and holds the interpreter lock; XLA compiles without it. So the largest program should come first.
    """
    began = time.perf_counter()
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = {name: pool.submit(job().compile, options) for name, job in jobs.items()}
        traced = time.perf_counter() - began
        return Compiled({name: future.result() for name, future in futures.items()}, traced)
