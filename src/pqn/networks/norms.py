"""Normalisation, which makes PQN stable without a target network."""

from __future__ import annotations

from functools import partial
from typing import TypeVar, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from pqn import shards
from pqn.device import short_means_are_slow
from pqn.networks.products import times
from pqn.types import Array, PyTree

Layer = TypeVar("Layer", bound=nn.Module)

BATCH = ("batch", "batch_renorm")
"""Those that subtract the mean of a batch from each feature."""


class Norm(nn.Module):
    """`layer`, `batch`, `batch_renorm` or `none`, over the last axis of [batch, ..., features]."""

    kind: str

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        if self.kind == "layer":
            return LayerNorm()(x)
        if self.kind == "batch":
            if shards.axes():
                return BatchNormOfShards(name="BatchNorm_0")(x, train)  # flax's own name: a checkpoint fits both
            return nn.BatchNorm(use_running_average=not train, dtype=x.dtype)(x)
        if self.kind == "batch_renorm":
            return BatchRenorm()(x, train)
        return x


def in_front_of(norm: str, layer: type[Layer], trains: bool) -> type[Layer]:
    """`layer`, for a place whose output a norm of this kind reads, with nothing in between that tells samples apart.

    A batch norm takes out again what a bias of such a layer adds to every sample, so the bias has a gradient of 0. What
    is computed for it is rounding, of which an optimiser that divides by the size of gradients makes steps of full
    length, and acting, which uses running statistics, sees some of them. Roundings are not the same on one device and
    on several. So with shards the gradient is exactly 0. Without shards, all is as in the public code.

    Args:
      norm: the kind of the norm after it.
      layer: to be made with a name, which a layer of the same class would get by itself.
      trains: whether the norm uses the statistics of the batch.
    """
    if norm not in BATCH or not trains or not shards.axes():
        return layer
    held: PyTree = nn.map_variables(layer, "params", _without_gradient_of_biases)
    return held


def _without_gradient_of_biases(params: PyTree) -> PyTree:
    return jax.tree_util.tree_map_with_path(
        lambda path, value: jax.lax.stop_gradient(value) if path[-1].key == "bias" else value, params
    )


class LayerNorm(nn.Module):
    """Layer normalisation over the last axis: `flax.linen.LayerNorm` with the variance of centred numbers."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Array) -> Array:
        scale = self.param("scale", nn.initializers.ones_init(), (x.shape[-1],))
        bias = self.param("bias", nn.initializers.zeros_init(), (x.shape[-1],))
        unit = standardised(x.astype(jnp.float32), self.epsilon)
        return (unit * spread(scale, x.shape) + spread(bias, x.shape)).astype(x.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def standardised(x: Array, epsilon: float) -> Array:
    """`x` with mean 0 and variance 1 along the last axis.

    The mean is subtracted before the squares are averaged. On a GPU the compiler makes one kernel of that; the means of
    x and x² take three. The derivative is given by hand because it has the same form, one mean after the other, in both
    directions. Automatic differentiation finds a form that takes more kernels.
    """
    return standardise(x, epsilon)[0]


def standardise(x: Array, epsilon: float) -> tuple[Array, Array]:
    """`standardised`, and the factor 1 / standard deviation, [..., 1]."""
    centred = x - mean_of_features(x)
    inverse = jax.lax.rsqrt(mean_of_features(jnp.square(centred)) + epsilon)
    return centred * inverse, inverse


def mean_of_features(x: Array) -> Array:
    """The mean along the last axis, [..., 1].

    For a CPU, XLA merges the mean over the channels of an image with what spreads it over them again, and computes the
    result slowly: 166 µs for 128 images of 8 × 8 × 16. A matrix product stays what it is, and all of it takes 51.
    """
    if x.ndim < 3 or not short_means_are_slow():
        return jnp.mean(x, -1, keepdims=True)
    return times(x, jnp.full((x.shape[-1], 1), 1.0 / x.shape[-1], x.dtype))


@standardised.defjvp
def _standardised_jvp(epsilon: float, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y, inverse = standardise(*primals, epsilon)
    return y, standardised_change(y, inverse, tangents[0])


def standardised_change(y: Array, inverse: Array, change: Array) -> Array:
    """By how much y = `standardised(x)` changes with x; since this is symmetric, also its gradient back to x."""
    scaled = inverse * change
    centred = scaled - jnp.mean(scaled, -1, keepdims=True)
    return centred - y * jnp.mean(y * centred, -1, keepdims=True)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def spread(vector: Array, shape: tuple[int, ...]) -> Array:
    """`jnp.broadcast_to(vector, shape)`, for one number per channel of a feature map [batch, height, width, channels].

    Its gradient is a sum over all positions and all samples. One reduction to a few channels uses a single
    multiprocessor of a GPU: with 32 channels it took half of the whole gradient step. So it is done in two steps: over
    the samples at each position, then over the positions.
    """
    return jnp.broadcast_to(vector, shape)


@spread.defjvp
def _variancejvp(shape: tuple[int, ...], primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (tangent,) = tangents
    if len(shape) > 2:
        tangent = jnp.broadcast_to(tangent, (1, *shape[1:]))
        tangent = jax.lax.optimization_barrier(tangent)  # otherwise the compiler merges the two sums
    return spread(*primals, shape), jnp.broadcast_to(tangent, shape)


def moments(x: Array, near: Array, joined: bool) -> tuple[Array, Array]:
    """Mean and variance of a batch, `joined` over all its shards; `near` is a guess of the mean that they share."""
    over = tuple(range(x.ndim - 1))
    mean, var = jnp.mean(x, over), jnp.var(x, over)
    if not (joined and shards.axes()):
        return mean, var
    # One collective for both. Squares are taken of distances to `near`: of the numbers themselves they would cancel
    # where the mean is large.
    away = mean - near
    away, square = shards.mean(jnp.stack([away, var + jnp.square(away)]))
    return near + away, jnp.maximum(square - jnp.square(away), 0.0)


class BatchNormOfShards(nn.Module):
    """`flax.linen.BatchNorm` for a batch in several shards, with the same variables.

    Flax takes the variance as E[x²] − E[x]², which loses digits, and others on one device than on several.
    """

    momentum: float = 0.99
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        size = x.shape[-1]
        mean = self.variable("batch_stats", "mean", lambda: jnp.zeros(size))
        var = self.variable("batch_stats", "var", lambda: jnp.ones(size))
        scale = self.param("scale", nn.initializers.ones_init(), (size,))
        bias = self.param("bias", nn.initializers.zeros_init(), (size,))
        wide = x.astype(jnp.float32)
        center, variance = mean.value, var.value
        if train:
            center, variance = moments(wide, mean.value, joined=not self.is_initializing())
            if not self.is_initializing():
                mean.value = self.momentum * mean.value + (1.0 - self.momentum) * center
                var.value = self.momentum * var.value + (1.0 - self.momentum) * variance
        return ((wide - center) * (jax.lax.rsqrt(variance + self.epsilon) * scale) + bias).astype(x.dtype)


class BatchRenorm(nn.Module):
    """Batch renormalisation (Ioffe 2017), with the clipping and the momentum of the paper's public code.

        x̂ = (x − μ_B) / σ_B · r + d,    r = clip(σ_B / σ, 1/r_max, r_max),    d = clip((μ_B − μ) / σ, −d_max, d_max)

    With r and d unclipped this is (x − μ) / σ: training then normalises by the running statistics, as acting does. For
    the gradient, r and d are constants. For the first `warm_up` updates r = 1 and d = 0 (plain batch norm), because the
    running statistics are not yet accurate. In that phase learning normalises differently from acting and
    bootstrapping, so it should be short. It can be short, because μ and σ² are plain means over all batches until they
    have seen 1 / (1 − momentum) of them.
    """

    momentum: float = 0.999
    epsilon: float = 1e-3
    r_max: float = 3.0
    d_max: float = 5.0
    warm_up: int = 100

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        size = x.shape[-1]
        mean = self.variable("batch_stats", "mean", lambda: jnp.zeros(size))
        var = self.variable("batch_stats", "var", lambda: jnp.ones(size))
        updates = self.variable("batch_stats", "updates", lambda: jnp.zeros((), jnp.int32))
        scale = self.param("scale", nn.initializers.ones_init(), (size,))
        bias = self.param("bias", nn.initializers.zeros_init(), (size,))
        wide = x.astype(jnp.float32)
        if not train:
            normal = (wide - mean.value) * jax.lax.rsqrt(var.value + self.epsilon)
            return (normal * scale + bias).astype(x.dtype)
        batch_mean, batch_var = moments(wide, mean.value, joined=not self.is_initializing())
        sigma, running = jnp.sqrt(batch_var + self.epsilon), jnp.sqrt(var.value + self.epsilon)
        warm = updates.value >= self.warm_up
        r = jnp.where(warm, jnp.clip(sigma / running, 1.0 / self.r_max, self.r_max), 1.0)
        d = jnp.where(warm, jnp.clip((batch_mean - mean.value) / running, -self.d_max, self.d_max), 0.0)
        r, d = jax.lax.stop_gradient((r, d))
        if not self.is_initializing():
            # An exponential average from the start would be mostly its initial value, for a thousand updates.
            share = jnp.maximum(1.0 / (updates.value + 1.0), 1.0 - self.momentum)
            mean.value = mean.value + share * (batch_mean - mean.value)
            var.value = var.value + share * (batch_var - var.value)
            updates.value = cast(Array, optax.safe_increment(updates.value))  # never overflows
        return (((wide - batch_mean) / sigma * r + d) * scale + bias).astype(x.dtype)
