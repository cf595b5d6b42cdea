"""Normalisation: what lets PQN do without a target network."""

from __future__ import annotations

import flax.linen as nn

from pqn.types import Array


class Norm(nn.Module):
    """`layer`, `batch` or `none`, over the last axis of [batch, ..., features]."""

    kind: str

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        if self.kind == "layer":
            return nn.LayerNorm(dtype=x.dtype)(x)
        if self.kind == "batch":
            return nn.BatchNorm(use_running_average=not train, dtype=x.dtype)(x)
        return x
