"""The Q-function of the theory, and LayerNorm as the theory writes it.

    Q(x) = wᵀ σ_post( N[ σ_pre( M x ) ] ),   M ∈ ℝ^{k×n}, w ∈ ℝ^k

No biases and no affine parameters, so that φ = (w, M) is all there is. N is one of

    none            the identity
    scale           f / √k                        the lemma's factor without its normalisation
    layer           (f − mean f) / (√k std f)     LayerNorm as in the lemma: ‖N[f]‖ ≤ 1 whatever f is
    layer_unscaled  (f − mean f) / std f          LayerNorm as libraries have it: ‖N[f]‖ ≤ √k
    batch           per unit over the batch       BatchNorm, statistics given by the caller's weights
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pqn.errors import ConfigError
from pqn.theory.choices import ACTIVATIONS, CRITIC_NORMS

EPSILON = 1e-5

_ACTIVATIONS = {"identity": lambda z: z, "tanh": jnp.tanh, "gelu": jax.nn.gelu, "elu": jax.nn.elu, "relu": jax.nn.relu}

# Lipschitz constants L of σ_post. GELU's derivative peaks at 1.1289 near z = 1.41 (the tanh form: 1.1290).
LIPSCHITZ = {"identity": 1.0, "tanh": 1.0, "gelu": 1.13, "elu": 1.0, "relu": 1.0}


class CriticParams(NamedTuple):
    """φ = (w, M)."""

    w: Array  # [k]     final layer
    M: Array  # [k, n]  inner weights


def activation(name: str) -> Callable[[Array], Array]:
    """The activation called `name`; raises ConfigError for a name that is not in `ACTIVATIONS`."""
    if name not in _ACTIVATIONS:
        raise ConfigError(f"activation has the unknown value '{name}': choose from {', '.join(ACTIVATIONS)}.")
    return _ACTIVATIONS[name]


def layer_norm(f: Array, epsilon: float = EPSILON) -> Array:
    """LayerNormᵏ[f]ᵢ = (fᵢ − f̄) / (√k · √(Σⱼ(fⱼ − f̄)²/k + ε)), over the last axis; ‖LayerNormᵏ[f]‖ ≤ 1.

    The leading 1/√k is the paper's (Eq. LayerNorm); library LayerNorm is √k times this.
    """
    k = f.shape[-1]
    centred = f - f.mean(-1, keepdims=True)
    std = jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + epsilon)
    return centred / (jnp.sqrt(jnp.asarray(k, f.dtype)) * std)


def batch_norm(f: Array, weight: Array, epsilon: float = EPSILON) -> Array:
    """BatchNorm of f [B, k] with mean and variance under `weight` [B] (rows of weight 0 are only normalised)."""
    weight = weight[:, None] / weight.sum()
    mean = (weight * f).sum(0)
    variance = (weight * jnp.square(f - mean)).sum(0)
    return (f - mean) / jnp.sqrt(variance + epsilon)


def normalise(norm: str, f: Array, weight: Array | None = None) -> Array:
    """N[f] for f [B, k]; `weight` [B] is needed by "batch" only. Raises ConfigError for an unknown norm."""
    root_k = jnp.sqrt(jnp.asarray(f.shape[-1], f.dtype))
    if norm == "none":
        return f
    if norm == "scale":
        return f / root_k
    if norm == "layer":
        return layer_norm(f)
    if norm == "layer_unscaled":
        return layer_norm(f) * root_k
    if norm == "batch":
        return batch_norm(f, jnp.ones(f.shape[0], f.dtype) if weight is None else weight)
    raise ConfigError(f"norm has the unknown value '{norm}': choose from {', '.join(CRITIC_NORMS)}.")


def init_critic(key: Array, width: int, inputs: int, weight_norm: float | None = None) -> CriticParams:
    """M_ij ~ N(0, 1/n); w ~ N(0, 1/k), or a random direction of length `weight_norm` where one is given."""
    key_w, key_m = jax.random.split(key)
    w = jax.random.normal(key_w, (width,))
    w = w / jnp.sqrt(width) if weight_norm is None else weight_norm * w / jnp.linalg.norm(w)
    return CriticParams(w=w, M=jax.random.normal(key_m, (width, inputs)) / jnp.sqrt(inputs))


def critic(params: CriticParams, x: Array, norm: str, pre: str, post: str, weight: Array | None = None) -> Array:
    """Q(x) for a batch x [B, n] -> [B]."""
    hidden = activation(pre)(x @ params.M.T)
    return activation(post)(normalise(norm, hidden, weight)) @ params.w


def critic_fn(norm: str, pre: str, post: str) -> Callable[[CriticParams, Array], Array]:
    """The critic as `stability` takes it: q_fn(params, x [B, n]) -> [B, 1]."""
    for name in (pre, post):
        activation(name)  # a typo should fail here, not inside a trace

    def q_fn(params: CriticParams, x: Array) -> Array:
        return critic(params, x, norm, pre, post)[:, None]

    return q_fn
