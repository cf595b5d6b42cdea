"""Torsos: from a batch of observations [batch, *obs_shape] to features [batch, width]."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.networks import kernels
from pqn.networks.norms import Norm, in_front_of
from pqn.networks.products import times
from pqn.types import Array

INITS = {
    "he_normal": nn.initializers.he_normal(),
    "lecun_normal": nn.initializers.lecun_normal(),
    "orthogonal": nn.initializers.orthogonal(math.sqrt(2.0)),
}
ACTIVATIONS = {"relu": nn.relu, "tanh": nn.tanh, "gelu": nn.gelu}


class Conv(nn.Module):
    """A convolution, without padding unless `same`; the parameters are those of `flax.linen.Conv`.

    With `matmul`, it is computed as one matrix product over shifted slices of the input. The gradient of XLA's own
    convolution is very slow on CPUs. Under `vmap` over seeds it is a grouped convolution, which is slow everywhere.
    """

    features: int
    kernel_size: tuple[int, int]
    stride: int = 1
    matmul: bool = True
    dtype: str = "float32"
    kernel_init: nn.initializers.Initializer = INITS["he_normal"]
    same: bool = False  # pad with zeros, so that stride 1 keeps height and width

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [batch, height, width, channels]
        rows, columns = self.kernel_size
        if self.same:
            pads = jax.lax.padtype_to_pads(x.shape[1:3], self.kernel_size, (self.stride, self.stride), "SAME")
            x = jnp.pad(x, ((0, 0), *pads, (0, 0)))
        kernel = self.param("kernel", self.kernel_init, (rows, columns, x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        kernel, bias = kernel.astype(self.dtype), bias.astype(self.dtype)
        if not self.matmul:
            strides = (self.stride, self.stride)
            layout = ("NHWC", "HWIO", "NHWC")
            return jax.lax.conv_general_dilated(x, kernel, strides, "VALID", dimension_numbers=layout) + bias
        stride = self.stride
        if rows % stride == 0 and columns % stride == 0:
            # The same convolution of blocks with stride 1: a few long slices instead of many short ones.
            x, kernel = in_blocks(x, stride), jnp.moveaxis(in_blocks(jnp.moveaxis(kernel, -1, 0), stride), 0, -1)
            rows, columns, stride = rows // stride, columns // stride, 1
        slices = taps(x, rows, columns, stride)
        # The bias is the weight of an input that is always one. Its gradient then is part of the kernel's, instead of a
        # sum over all positions, which takes two more steps on an accelerator. It is followed by inputs that are always
        # zero, because rows of a multiple of eight numbers can be read in pieces of 16 bytes.
        weights = kernel.reshape(-1, self.features)
        more = 8 - len(weights) % 8
        weights = jnp.concatenate([weights, jnp.pad(bias[None], ((0, more - 1), (0, 0)))])
        constants = jnp.broadcast_to(jnp.eye(1, more, dtype=x.dtype), (*slices[0].shape[:-1], more))
        return times(jnp.concatenate([*slices, constants], axis=-1), weights)


def taps(x: Array, rows: int, columns: int, stride: int = 1) -> list[Array]:
    """The part of the image that each weight of a filter of rows × columns multiplies, in the order of the weights."""
    height, width = (x.shape[1] - rows) // stride + 1, (x.shape[2] - columns) // stride + 1
    return [
        x[:, i : i + height * stride : stride, j : j + width * stride : stride]
        for i in range(rows)
        for j in range(columns)
    ]


def in_blocks(x: Array, size: int) -> Array:
    """[batch, height, width, channels] with each square of size × size pixels as one pixel of size² · channels.

    Rows and columns at the lower and the right border that do not fill a square are left out.
    """
    if size == 1:
        return x
    batch, height, width, channels = x.shape
    height, width = height // size, width // size
    blocks = x[:, : height * size, : width * size].reshape(batch, height, size, width, size, channels)
    return blocks.swapaxes(2, 3).reshape(batch, height, width, size * size * channels)


class Torso(nn.Module):
    """The fields of every torso. A subclass maps [batch, *obs_shape] to [batch, width] in `__call__(x, train)`."""

    hidden: tuple[int, ...]
    """Widths of the dense layers, which in a torso for images come last."""
    norm: str
    kernel_init: str
    conv: str = "matmul"
    dtype: str = "float32"
    activation: str = "relu"
    """Of the dense layers."""

    @property
    def first_norm(self) -> str:
        """The norm that follows the first layer, where that layer treats all parts of the input alike; else none."""
        return "none"

    def dense(self, x: Array, train: bool, activation: str | None = None) -> Array:
        """The dense layers at the end of a torso for images."""
        activation = activation or self.activation
        return MLP(self.hidden, self.norm, self.kernel_init, self.conv, self.dtype, activation)(x, train)


class MLP(Torso):
    """Dense → norm → activation, once per width."""

    @property
    def first_norm(self) -> str:
        return self.norm if self.hidden else "none"

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = x.reshape(x.shape[0], -1)
        dense = in_front_of(self.norm, nn.Dense, train)
        for layer, width in enumerate(self.hidden):
            x = dense(width, kernel_init=INITS[self.kernel_init], dtype=self.dtype, name=f"Dense_{layer}")(x)
            x = ACTIVATIONS[self.activation](Norm(self.norm)(x, train))
        return x


class CNN(Torso):
    """Convolution → norm → ReLU, once per layer, then dense layers."""

    layers: tuple[tuple[int, int, int], ...] = ()
    """Filters, their size, and the stride."""
    same: bool = False

    @property
    def first_norm(self) -> str:
        return "none" if self.same else self.norm  # padding tells the border from the rest

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        init = INITS[self.kernel_init]
        if self._fused(x.shape) and (fused := kernels.convolutions()) is not None:
            return self.dense(fused.conv_layers(x, tuple(fused.Layer(*parts) for parts in self._weights())), train)
        conv, matmul = in_front_of(self.norm, Conv, train), self.conv != "native"
        for layer, (filters, size, stride) in enumerate(self.layers):
            x = conv(filters, (size, size), stride, matmul, self.dtype, init, self.same, name=f"Conv_{layer}")(x)
            x = nn.relu(Norm(self.norm)(x, train))
        return self.dense(x, train)

    def _fused(self, shape: tuple[int, ...]) -> bool:
        """Whether the hand-written kernels are asked for and can compute this: small images of few channels."""
        if self.conv != "fused" or self.is_initializing() or jax.default_backend() != "gpu":
            return False
        _, height, width, channels = shape
        small = height * width <= 64 and channels <= 64
        plain = self.same and self.norm == "layer" and self.dtype == "float32"
        return small and plain and all(filters in (16, 32, 64) and stride == 1 for filters, _, stride in self.layers)

    def _weights(self) -> list[tuple[Array, ...]]:
        """Kernel, bias, scale and shift of each convolution and its norm."""
        params = self.variables["params"]
        pairs = [(params[f"Conv_{i}"], params[f"Norm_{i}"]["LayerNorm_0"]) for i in range(len(self.layers))]
        return [(conv["kernel"], conv["bias"], norm["scale"], norm["bias"]) for conv, norm in pairs]


TORSOS: dict[str, Callable[..., Torso]] = {
    "mlp": MLP,
    # The network of the MinAtar paper.
    "minatar": partial(CNN, layers=((16, 3, 1),)),
    # JaxMARL's network for Overcooked.
    "grid": partial(CNN, layers=((32, 5, 1), (32, 3, 1), (32, 3, 1)), same=True),
}
