"""How the work of the hand-written kernels is divided, depending on the GPU."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.experimental import pallas as pl


class Tiling(NamedTuple):
    """How the work of a kernel is divided, and how it is compiled."""

    weights: int  # weights of a filter in one matrix product: all channels of some taps
    stages: int  # Triton's pipeline: the factors of stages - 1 products are loaded in advance
    warps: int = 4

    def taps(self, channels: int) -> int:
        """Taps of a filter in one matrix product."""
        return max(1, self.weights // pl.next_power_of_2(channels))


# Compute capabilities of GPUs whose multiprocessors have at least 164 KB of shared memory.
LARGE_SHARED_MEMORY = ("8.0", "9.0", "10.0", "10.3")


def has_large_shared_memory() -> bool:
    return getattr(jax.devices()[0], "compute_capability", "") in LARGE_SHARED_MEMORY


def layer_tiling(cells: int, features: int) -> Tiling:
    """The fastest tiling on this GPU for the kernels that compute all layers of a sample.

    With 128 weights at a time a program takes 131 or 147 KB of a multiprocessor's shared memory, so that no two
    programs share a multiprocessor. This is intended: when the kernel starts, other kernels still occupy most of the
    GPU, and the programs would gather on the few free multiprocessors.
    """
    if not has_large_shared_memory():
        return Tiling(weights=32, stages=3)
    return Tiling(weights=128, stages=1 + (150 << 10) // (4 * 128 * (cells + features)))


def gradient_tiling() -> Tiling:
    """The fastest tiling on this GPU for the kernel that computes the gradient of the weights."""
    large = has_large_shared_memory()
    return Tiling(weights=128, stages=2, warps=8) if large else Tiling(weights=32, stages=3)
