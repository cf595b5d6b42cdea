"""Heads: from features [batch, width] to Q-values [batch, A], always in float32."""

from __future__ import annotations

import flax.linen as nn
import jax.numpy as jnp

from pqn.networks.products import dot_general
from pqn.types import Array


class Head(nn.Module):
    """`linear`, or `dueling`: Q(s, a) = V(s) + A(s, a) − mean_a A(s, a)."""

    kind: str
    num_actions: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = x.astype(jnp.float32)
        if self.kind == "linear":
            return nn.Dense(self.num_actions, name="q", dot_general=dot_general)(x)
        advantage = nn.Dense(self.num_actions, name="advantage", dot_general=dot_general)(x)
        value = nn.Dense(1, name="value", dot_general=dot_general)(x)
        return value + advantage - jnp.mean(advantage, axis=-1, keepdims=True)
