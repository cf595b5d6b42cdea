"""What layers with a memory have in common: a size, and what they remember of one sequence."""

from __future__ import annotations

import flax.linen as nn
import jax.numpy as jnp

from pqn.types import PyTree


class OneVector(nn.Module):
    """A layer that remembers one vector [H] of each sequence."""

    size: int
    dtype: str = "float32"

    @staticmethod
    def initial_carry(size: int, *batch: int) -> PyTree:
        return jnp.zeros((*batch, size))


class TwoVectors(nn.Module):
    """A layer that remembers two vectors [H] of each sequence."""

    size: int
    dtype: str = "float32"

    @staticmethod
    def initial_carry(size: int, *batch: int) -> PyTree:
        return (jnp.zeros((*batch, size)), jnp.zeros((*batch, size)))
