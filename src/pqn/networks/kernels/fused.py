"""Convolutions on a small grid, each with its LayerNorm and ReLU, as one hand-written GPU kernel in each direction.

XLA compiles such a layer to four kernels of a few microseconds each, which run one after the other. Here one
multiprocessor computes all layers of one sample. The output of a layer goes through the GPU's memory, because the next
layer reads it at other positions; so does what the backward pass needs. The gradients of the weights are sums over all
samples. They are a third kernel, which runs once per layer.

The kernels use Pallas' Triton backend, which is deprecated in JAX 0.11 and goes away in a later version. This module
cannot be imported then, and networks compute the same without it: see `kernels.convolutions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from pqn.networks.kernels.tiling import Tiling, gradient_tiling, layer_tiling
from pqn.networks.norms import LayerNorm, standardise, standardised_change
from pqn.types import Array

Kernel = Callable[..., None]


PARTS = 20  # the gradient of the weights is computed as this many partial sums
CELLS = 128  # cells that one step of a partial sum adds


class Layer(NamedTuple):
    """Parameters of a convolution that keeps the size of the grid, and of the norm after it."""

    kernel: Array  # [rows, columns, channels, features]
    bias: Array  # [features]
    scale: Array
    shift: Array


class LayerOutputs(NamedTuple):
    """What the forward pass of a layer computes, [batch, ...], with cells and their features in one axis."""

    out: Array  # after the ReLU
    unit: Array  # after the standardisation: mean 0 and variance 1 in each cell
    inverse: Array  # the factor of the standardisation, one number a cell


class Residuals(NamedTuple):
    """What the backward pass needs of the forward pass."""

    x: Array
    layers: tuple[Layer, ...]
    outputs: tuple[LayerOutputs, ...]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def conv_layers(x: Array, layers: tuple[Layer, ...], interpret: bool = False) -> Array:
    """Convolution → LayerNorm → ReLU, once per layer: [batch, height, width, channels] to [..., features].

    `interpret` runs the kernels without a GPU, slowly.
    """
    return _forward(x, layers, interpret)[0]


def _forward(x: Array, layers: tuple[Layer, ...], interpret: bool) -> tuple[Array, Residuals]:
    batch, height, width, _ = x.shape
    cells = height * width
    sizes = [size for layer in layers for size in (cells * layer.bias.size, cells * layer.bias.size, cells)]
    grid = _Grid(height, width, layers)
    kernel = partial(_forward_kernel, grid, _Offsets(layers), interpret)
    outs = _call(kernel, grid.tiling, [x.reshape(batch, -1)], layers, sizes, interpret)
    outputs = tuple(LayerOutputs(*outs[i : i + 3]) for i in range(0, len(outs), 3))
    return outputs[-1].out.reshape(batch, height, width, -1), Residuals(x, layers, outputs)


def _backward(interpret: bool, residuals: Residuals, gradient: Array) -> tuple[Array, tuple[Layer, ...]]:
    x, layers, outputs = residuals
    batch, height, width, _ = x.shape
    features = [layer.bias.size for layer in layers]
    grid = _Grid(height, width, layers)
    kernel = partial(_backward_kernel, grid, _Offsets(layers), interpret)
    given = [gradient.reshape(batch, -1), *(array for layer in outputs for array in (layer.unit, layer.inverse))]
    sizes = [*(height * width * size for size in features), 3 * sum(features)]
    *errors, sums = _call(kernel, grid.tiling, given, layers, sizes, interpret)
    ends = list(itertools.accumulate(size for size in features for _ in range(3)))
    sums = jnp.split(jnp.sum(sums, axis=0), ends[:-1])
    inputs = [x, *(layer.out for layer in outputs[:-1])]
    gradients = tuple(
        Layer(_kernel_gradient(grid, before, errors[i], layers[i].kernel.shape, interpret), *sums[3 * i : 3 * i + 3])
        for i, before in enumerate(inputs)
    )
    # The compiler removes this where the gradient of the observations is not used.
    error = errors[0].reshape(batch, height, width, -1)
    (back,) = jax.linear_transpose(lambda x: convolution(x, layers[0].kernel), x)(error)
    return back, gradients


conv_layers.defvjp(_forward, _backward)


def convolution(x: Array, kernel: Array) -> Array:
    """The convolution of a layer, computed by XLA."""
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _kernel_gradient(grid: _Grid, x: Array, error: Array, shape: tuple[int, ...], interpret: bool) -> Array:
    """The sum over all cells of all samples. One program computes one partial sum for some taps of a filter.

    A matrix product of patches could compute it too. But the patches would have to be written first; for a filter of
    5 × 5 they are 25 times as large as the input of the layer.
    """
    rows, columns, channels, features = shape
    tiling, weights = gradient_tiling(), rows * columns * channels * features
    x, error = x.reshape(-1), error.reshape(-1)
    sums: Any = pl.pallas_call(
        partial(_gradient_kernel, grid, tiling, shape, error.size // features),
        grid=(-(-rows * columns // tiling.taps(channels)), PARTS),
        in_specs=[pl.BlockSpec((array.size,), lambda some, part: (0,)) for array in (x, error)],
        out_specs=pl.BlockSpec((None, weights), lambda some, part: (part, 0)),
        out_shape=jax.ShapeDtypeStruct((PARTS, weights), jnp.float32),
        compiler_params=_compiler_params(tiling, interpret),
        interpret=interpret,
    )(x, error)
    return jnp.sum(sums, axis=0).reshape(shape)


def _call(
    kernel: Kernel, tiling: Tiling, given: list[Array], layers: tuple[Layer, ...], sizes: list[int], interpret: bool
) -> list[Array]:
    """Runs a program for each sample: it reads all parameters and its rows of `given`, and writes rows of `sizes`."""
    batch = len(given[0])
    params = jnp.concatenate([part.reshape(-1) for layer in layers for part in layer])
    return pl.pallas_call(
        kernel,
        grid=(batch,),
        in_specs=[pl.BlockSpec(params.shape, lambda _: (0,)), *(_row(array.shape[1]) for array in given)],
        out_specs=[_row(size) for size in sizes],
        out_shape=[jax.ShapeDtypeStruct((batch, size), jnp.float32) for size in sizes],
        compiler_params=_compiler_params(tiling, interpret),
        interpret=interpret,
    )(params, *given)


def _row(size: int) -> pl.BlockSpec:
    """The row of an array that belongs to a program's sample."""
    return pl.BlockSpec((None, size), lambda sample: (sample, 0))


def _compiler_params(tiling: Tiling, interpret: bool) -> triton.CompilerParams | None:
    return None if interpret else triton.CompilerParams(num_warps=tiling.warps, num_stages=tiling.stages)


class _Offsets:
    """The position at which each parameter of each layer starts in the vector of all parameters."""

    def __init__(self, layers: tuple[Layer, ...]):
        self.shapes, self.starts, at = [layer.kernel.shape for layer in layers], [], 0
        for layer in layers:
            self.starts.append([])
            for part in layer:
                self.starts[-1].append(at)
                at += part.size

    def vectors(self, params: jax.Ref, layer: int) -> list[Array]:
        """Bias, scale and shift, [1, features]."""
        one = jnp.arange(self.shapes[layer][-1], dtype=jnp.int32)
        return [triton.load(params.at[start + one])[None] for start in self.starts[layer][1:]]


class _Grid:
    """The cells of one sample's image, padded to a power of two because Triton requires arrays of such sizes."""

    def __init__(self, height: int, width: int, layers: tuple[Layer, ...]):
        self.height, self.width = height, width
        self.padded = max(16, pl.next_power_of_2(height * width))
        self.tiling = layer_tiling(self.padded, max(layer.bias.size for layer in layers))

    def cells(self) -> tuple[Array, Array]:
        """The number of each cell, and which cells are inside of the image."""
        cell = jnp.arange(self.padded, dtype=jnp.int32)
        return cell, cell < self.height * self.width

    def features(self, count: int) -> tuple[Array, Array]:
        """The position of each feature of each cell, and which are inside of the image."""
        cell, inside = self.cells()
        where = cell[:, None] * count + jnp.arange(count, dtype=jnp.int32)[None]
        return where, jnp.broadcast_to(inside[:, None], where.shape)

    def neighbour(self, cell: Array, tap: Array, shape: tuple[int, ...], back: bool = False) -> tuple[Array, Array]:
        """The distance from a cell to the cell that a tap of a filter reads, and whether that is inside of the image.

        With `back`, the distance to the cell that reads this cell through the tap.
        """
        rows, columns = shape[:2]
        down, right = jax.lax.div(tap, columns) - (rows - 1) // 2, jax.lax.rem(tap, columns) - (columns - 1) // 2
        down, right = (-down, -right) if back else (down, right)
        row, column = jax.lax.div(cell, self.width) + down, jax.lax.rem(cell, self.width) + right
        there = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        return down * self.width + right, there

    def convolve(self, ref: jax.Ref, params: jax.Ref, start: int, shape: tuple[int, ...], back: bool = False) -> Array:
        """The convolution of `ref`, or with `back` its transpose, as a sum of products of neighbours with weights."""
        rows, columns, channels, features = shape
        depth, width = (features, channels) if back else (channels, features)
        taps, padded = self.tiling.taps(depth), pl.next_power_of_2(depth)
        cell, inside = self.cells()
        number = jnp.arange(taps * padded, dtype=jnp.int32)
        along, across = jax.lax.rem(number, padded), jnp.arange(width, dtype=jnp.int32)

        def add(step: Array, total: Array) -> Array:
            tap = step * taps + jax.lax.div(number, padded)
            known = (along < depth) & (tap < rows * columns)
            away, there = self.neighbour(cell[:, None], tap, shape, back)
            at = (cell[:, None] + away) * depth + along
            neighbours = triton.load(ref.at[at], mask=there & inside[:, None] & known, other=0.0)
            channel, feature = (across[None], along[:, None]) if back else (along[:, None], across[None])
            at = start + (tap[:, None] * channels + channel) * features + feature
            there = jnp.broadcast_to(known[:, None], at.shape)
            return total + neighbours @ triton.load(params.at[at], mask=there, other=0.0)

        # The loop is not unrolled: otherwise the compiler assigns all columns of a product to each warp.
        return jax.lax.fori_loop(0, -(-rows * columns // taps), add, jnp.zeros((len(cell), width)))


def _forward_kernel(grid: _Grid, where: _Offsets, interpret: bool, params: jax.Ref, x: jax.Ref, *outs: jax.Ref) -> None:
    for layer, shape in enumerate(where.shapes):
        out, unit_out, inverse_out = outs[3 * layer : 3 * layer + 3]
        bias, scale, shift = where.vectors(params, layer)
        z = grid.convolve(x, params, where.starts[layer][0], shape) + bias
        unit, inverse = standardise(z, LayerNorm.epsilon)
        at, inside = grid.features(shape[-1])
        triton.store(out.at[at], jnp.maximum(unit * scale + shift, 0.0), mask=inside)
        triton.store(unit_out.at[at], unit, mask=inside)
        cell, inside = grid.cells()
        triton.store(inverse_out.at[cell], inverse.reshape(-1), mask=inside)
        _wait(interpret)
        x = out


def _backward_kernel(
    grid: _Grid, where: _Offsets, interpret: bool, params: jax.Ref, given: jax.Ref, *refs: jax.Ref
) -> None:
    count = len(where.shapes)
    outputs, errors, sums = refs[: 2 * count], refs[2 * count : 3 * count], refs[-1]
    at, inside = grid.features(where.shapes[-1][-1])
    gradient = triton.load(given.at[at], mask=inside, other=0.0)
    for layer in reversed(range(count)):
        features = where.shapes[layer][-1]
        at, inside = grid.features(features)
        unit = triton.load(outputs[2 * layer].at[at], mask=inside, other=0.0)
        cell, there = grid.cells()
        inverse = triton.load(outputs[2 * layer + 1].at[cell], mask=there, other=0.0)
        _, scale, shift = where.vectors(params, layer)
        gradient = jnp.where(unit * scale + shift > 0, gradient, 0.0)
        error = standardised_change(unit, inverse[:, None], gradient * scale)
        triton.store(errors[layer].at[at], error, mask=inside)
        start = 3 * sum(shape[-1] for shape in where.shapes[:layer])
        for place, part in enumerate((error, gradient * unit, gradient)):  # gradients of bias, scale and shift
            one = start + place * features + jnp.arange(features, dtype=jnp.int32)
            triton.store(sums.at[one], jnp.sum(part, axis=0))
        if layer:
            _wait(interpret)
            gradient = grid.convolve(errors[layer], params, where.starts[layer][0], where.shapes[layer], back=True)


def _gradient_kernel(
    grid: _Grid, tiling: Tiling, shape: tuple[int, ...], count: int, x: jax.Ref, error: jax.Ref, out: jax.Ref
) -> None:
    rows, columns, channels, features = shape
    some, part = pl.program_id(0), pl.program_id(1)
    taps, padded = tiling.taps(channels), pl.next_power_of_2(channels)
    number = jnp.arange(taps * padded, dtype=jnp.int32)[:, None]
    tap, channel = some * taps + jax.lax.div(number, padded), jax.lax.rem(number, padded)
    known = (channel < channels) & (tap < rows * columns)
    feature = jnp.arange(features, dtype=jnp.int32)[None]

    def add(step: Array, total: Array) -> Array:
        cell = (step * PARTS + part) * CELLS + jnp.arange(CELLS, dtype=jnp.int32)  # of all samples in a row
        inside = cell < count
        away, there = grid.neighbour(jax.lax.rem(cell, grid.height * grid.width)[None], tap, shape)
        at = (cell[None] + away) * channels + channel
        before = triton.load(x.at[at], mask=there & inside[None] & known, other=0.0)
        at = cell[:, None] * features + feature
        after = triton.load(error.at[at], mask=jnp.broadcast_to(inside[:, None], at.shape), other=0.0)
        return total + before @ after

    total = jax.lax.fori_loop(0, -(-count // (PARTS * CELLS)), add, jnp.zeros((number.size, features)))
    at = (tap * channels + channel) * features + feature
    triton.store(out.at[at], total, mask=jnp.broadcast_to(known, at.shape))


def _wait(interpret: bool) -> None:
    """Waits until all threads have written what other threads will read."""
    if not interpret:
        triton.debug_barrier()
