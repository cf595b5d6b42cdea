"""Unrolling loops: how often is worth it in a run.

A copy of a loop's body takes the compiler time once. An iteration less saves a little time as often as the loop runs.
So how much is unrolled follows from how often a loop will run, which the plan of a run says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

# Estimates. On an H200 an empty iteration of a loop over the parameters takes 12 µs, and unrolling four steps of a
# memory saves some 7 µs a step. One more copy of CartPole's gradient step took a 2-core machine two processor seconds,
# one more step of a memory a tenth of one; what they take the host of an H200 was not measured.
SECONDS_PER_ITERATION = 1e-5
SECONDS_PER_COPY = 1.0
MOST_COPIES = 8  # what four copies, doubled by the compiler, were before


class Plan(NamedTuple):
    """How often the code that is being traced will run."""

    times: int = 1
    doubled: bool = False  # whether the compiler will unroll every loop once more by itself


_ONCE = Plan()
_PLAN: ContextVar[Plan] = ContextVar("_PLAN", default=_ONCE)


@contextlib.contextmanager
def repeated(times: int, doubled: bool | None = None) -> Iterator[None]:
    """What is traced within will run `times` as often as what is around it."""
    now = _PLAN.get()
    token = _PLAN.set(Plan(now.times * times, now.doubled if doubled is None else doubled))
    try:
        yield
    finally:
        _PLAN.reset(token)


def worthwhile(steps: int) -> int:
    """How many iterations of a loop of `steps` to compile into one, if it is in what is being traced.

    From u/2 to u copies the loop makes 1/u fewer iterations and the compiler u/2 more copies. The largest power of two
    for which the first takes longer than the second.
    """
    plan, copies = _PLAN.get(), 1
    while 2 * copies <= min(steps, MOST_COPIES):
        saved = plan.times * steps * SECONDS_PER_ITERATION / (2 * copies)
        if saved <= copies * SECONDS_PER_COPY:
            break
        copies *= 2
    return max(1, copies // 2) if plan.doubled else copies
