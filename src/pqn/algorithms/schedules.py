"""The course of a number over a run: linear, cosine or piecewise. One that is constant is linear and ends as it starts.

A shape is part of the structure of `Hyper`, not one of its numbers: another shape is another compiled program, other
numbers are not. `at` computes with jax.numpy in compiled programs and with numpy for the record of a run.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from pqn.exploration import linear
from pqn.types import Array

Number = Array | float


class Linear(NamedTuple):
    """A straight line from start to finish, which is kept afterwards."""

    def at(self, start: Number, finish: Number, duration: Number, now: Number, xp: ModuleType = jnp) -> Array:
        return linear(start, finish, duration, now, xp)


class Cosine(NamedTuple):
    """Half a wave from start to finish, flat at both ends: start + ½ (1 − cos πx) (finish − start)."""

    def at(self, start: Number, finish: Number, duration: Number, now: Number, xp: ModuleType = jnp) -> Array:
        return start + 0.5 * (1.0 - xp.cos(np.pi * linear(0.0, 1.0, duration, now, xp))) * (finish - start)


class Piecewise(NamedTuple):
    """Straight lines between points, constant before the first and after the last.

    Two points at one place are a jump, and the second holds from there on.
    """

    shares: Array | np.ndarray  # [P] of the duration, never falling
    values: Array | np.ndarray  # [P]

    def at(self, start: Number, finish: Number, duration: Number, now: Number, xp: ModuleType = jnp) -> Array:
        x, (shares, values) = linear(0.0, 1.0, duration, now, xp), (xp.asarray(part) for part in self)
        last = xp.clip(xp.sum(shares <= x) - 1, 0, len(shares) - 1)  # the last point that has been passed
        after = xp.minimum(last + 1, len(shares) - 1)
        width = shares[after] - shares[last]
        way = xp.where(width > 0, xp.clip((x - shares[last]) / xp.where(width > 0, width, 1.0), 0.0, 1.0), 0.0)
        return values[last] + way * (values[after] - values[last])


Shape = Linear | Cosine | Piecewise


def shape_of(kind: str, points: tuple[float, ...]) -> Shape:
    """The shape that a schedule's options describe; `points` are share, value, share, value, …"""
    if kind == "piecewise":
        return Piecewise(np.array(points[::2]), np.array(points[1::2]))
    return Cosine() if kind == "cosine" else Linear()
