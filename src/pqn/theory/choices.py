"""The names of what the theory's critic can be built from. No jax: the command line lists them."""

from __future__ import annotations

from typing import Literal, get_args

Activation = Literal["identity", "tanh", "gelu", "elu", "relu"]
CriticNorm = Literal["none", "scale", "layer", "layer_unscaled", "batch"]

ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
CRITIC_NORMS: tuple[CriticNorm, ...] = get_args(CriticNorm)
