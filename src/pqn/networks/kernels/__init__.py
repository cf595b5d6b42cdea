"""Kernels written by hand for accelerators. They are optional: each has a plain twin that computes the same."""

from __future__ import annotations

import functools
import importlib
import warnings
from types import ModuleType

import jax


@functools.cache
def convolutions() -> ModuleType | None:
    """The kernels of `network.conv = fused`; None, with a note the first time, where this JAX has no Triton backend."""
    try:
        return importlib.import_module("pqn.networks.kernels.fused")
    except (ImportError, AttributeError):
        warnings.warn(
            f"network.conv is fused, but JAX {jax.__version__} has not the Triton backend that these kernels need; "
            "convolutions are computed as with network.conv matmul, which gives the same but takes longer",
            stacklevel=2,
        )
        return None
