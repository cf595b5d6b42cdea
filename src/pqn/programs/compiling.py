"""Compiling several programs side by side, and how long it took to trace them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax

from pqn.device import CompilerOptions


class Compiled(NamedTuple):
    """Programs by name, and the seconds before the last of them was given to the compiler."""

    programs: dict[str, jax.stages.Compiled]
    trace_seconds: float


class Job(NamedTuple):
    """A program to be compiled."""

    lower: Callable[[], jax.stages.Lowered]
    options: CompilerOptions


def compile_all(jobs: Mapping[str, Job]) -> Compiled:
    """Traces the programs one after the other and compiles each in a thread of its own as soon as it is traced.

    Tracing is Python and holds the interpreter lock; XLA compiles without it. So the largest program should come first.
    """
    began = time.perf_counter()
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = {name: pool.submit(_compile, job.lower(), job.options) for name, job in jobs.items()}
        traced = time.perf_counter() - began
        return Compiled({name: future.result() for name, future in futures.items()}, traced)


def _compile(lowered: jax.stages.Lowered, options: CompilerOptions) -> jax.stages.Compiled:
    """Compiles with the options that this version of XLA knows. They change how long things take, nothing else."""
    known = dict(options or {})
    while True:
        try:
            return lowered.compile(known)
        except jax.errors.JaxRuntimeError as error:
            unknown = re.search(r"No such compile option: '(\w+)'", str(error))
            if unknown is None or unknown[1] not in known:
                raise
            del known[unknown[1]]
