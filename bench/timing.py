"""Timing helpers shared by the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax


def seconds(function: Callable[..., Any], *args: Any, repeats: int = 3) -> float:
    """Best of `repeats` timed calls of a compiled function, after one that warms up."""
    jax.block_until_ready(function(*args))
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*args))
        best = min(best, time.perf_counter() - began)
    return best
