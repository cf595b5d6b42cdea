"""Names of what an update reports, and how reports of several updates add up. No jax here: readers of runs use it."""

from __future__ import annotations

HEALTH = ("bad", "fault")  # update of the first fault of a seed, and which `health.Fault` it was
NO_FAULT = 2**31 - 1  # "bad" of a seed without one: an update that no run reaches
_LAST = ("param_norm",)


def is_last(name: str) -> bool:
    """Whether of several updates the last one's number counts."""
    return name in _LAST


def is_mean(name: str) -> bool:
    """Whether a row of the metrics holds the mean over its updates. Sums over episodes are not: they are divided later.

    >>> [name for name in ("loss", "episodes", "return_sum", "param_norm", "bad") if is_mean(name)]
    ['loss']
    """
    return not (name == "episodes" or name.endswith("_sum") or is_last(name) or name in HEALTH)
