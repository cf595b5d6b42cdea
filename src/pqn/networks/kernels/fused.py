"""Convolutions on a small grid, each with its LayerNorm and ReLU, as one hand-written kernel for a GPU, and one back.

By XLA such a layer is a few microseconds of arithmetic in four kernels that wait for one another. Here one
multiprocessor takes one sample through all layers. What a layer leaves for the next, which reads it at other positions,
goes through the GPU's memory, and so does what is kept for the way back. The gradients of the weights are sums over all
samples: a third kernel, once per layer.

Written for Pallas' Triton backend, which JAX 0.11 calls deprecated: `network.conv = matmul` does the same without it.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from pqn.networks.norms import LayerNorm, standardise, standardised_change
from pqn.types import Array


class How(NamedTuple):
    """How a kernel is compiled."""

    weights: int  # of a filter, in one product: some taps with all their channels, at least one
    stages: int  # products whose factors are loaded ahead, and one more
    warps: int = 4

    def taps(self, channels: int) -> int:
        return max(1, self.weights // pl.next_power_of_2(channels))


# Compute capabilities of GPUs whose multiprocessors have at least 164 KB of memory of their own.
ROOMY = ("8.0", "9.0", "10.0", "10.3")
# A gradient is summed in so many parts, of so many cells at a time.
PARTS, CELLS = 20, 128


def roomy() -> bool:
    return getattr(jax.devices()[0], "compute_capability", "") in ROOMY


def how(cells: int, features: int) -> How:
    """The best way on this machine to take a sample of so many cells through all layers.

    With 128 weights at a time a program takes so much of a multiprocessor's own memory, 131 or 147 KB, that no two
    share one. Otherwise they would be crowded: when they start, others are at work on most of the GPU.
    """
    if not roomy():
        return How(weights=32, stages=3)
    return How(weights=128, stages=1 + (150 << 10) // (4 * 128 * (cells + features)))


def how_to_sum() -> How:
    """The best way on this machine to take the gradient of the weights."""
    return How(weights=128, stages=2, warps=8) if roomy() else How(weights=32, stages=3)


class Layer(NamedTuple):
    """Parameters of a convolution that keeps the size of the grid, and of the norm behind it."""

    kernel: Array  # [rows, columns, channels, features]
    bias: Array  # [features]
    scale: Array
    shift: Array


class Saved(NamedTuple):
    """What a layer computed, [batch, ...], the cells of the grid and their features in one axis."""

    out: Array  # behind the ReLU
    unit: Array  # with mean 0 and variance 1
    inverse: Array  # what each cell was multiplied by to that end


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def stack(x: Array, layers: tuple[Layer, ...], interpret: bool = False) -> Array:
    """Convolution → LayerNorm → ReLU, once per layer: [batch, height, width, channels] to [..., features].

    `interpret` runs the kernels without a GPU, slowly.
    """
    return _forward(x, layers, interpret)[0]


def _forward(x: Array, layers: tuple[Layer, ...], interpret: bool) -> tuple[Array, Any]:
    batch, height, width, _ = x.shape
    cells = height * width
    sizes = [size for layer in layers for size in (cells * layer.bias.size, cells * layer.bias.size, cells)]
    grid = _Grid(height, width, layers)
    kernel = partial(_forward_kernel, grid, _Where(layers), interpret)
    outs = _call(kernel, grid.how, [x.reshape(batch, -1)], layers, sizes, interpret)
    saved = tuple(Saved(*outs[i : i + 3]) for i in range(0, len(outs), 3))
    return saved[-1].out.reshape(batch, height, width, -1), (x, layers, saved)


def _backward(interpret: bool, kept: Any, gradient: Array) -> tuple[Array, tuple[Layer, ...]]:
    x, layers, saved = kept
    batch, height, width, _ = x.shape
    image = lambda flat: flat.reshape(batch, height, width, -1)  # noqa: E731
    features = [layer.bias.size for layer in layers]
    grid = _Grid(height, width, layers)
    kernel = partial(_backward_kernel, grid, _Where(layers), interpret)
    given = [gradient.reshape(batch, -1), *(part for layer in saved for part in (layer.unit, layer.inverse))]
    sizes = [*(height * width * size for size in features), 3 * sum(features)]
    *errors, sums = _call(kernel, grid.how, given, layers, sizes, interpret)
    ends = list(itertools.accumulate(size for size in features for _ in range(3)))
    sums = jnp.split(jnp.sum(sums, axis=0), ends[:-1])
    inputs = [x, *(layer.out for layer in saved[:-1])]
    gradients = tuple(
        Layer(_kernel_gradient(grid, before, errors[i], layers[i].kernel.shape, interpret), *sums[3 * i : 3 * i + 3])
        for i, before in enumerate(inputs)
    )
    # Gone from the compiled program where nobody asks for the gradient of the observations.
    (back,) = jax.linear_transpose(lambda x: convolution(x, layers[0].kernel), x)(image(errors[0]))
    return back, gradients


stack.defvjp(_forward, _backward)


def convolution(x: Array, kernel: Array) -> Array:
    """What a layer does first, by XLA."""
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _kernel_gradient(grid: _Grid, x: Array, error: Array, shape: tuple[int, ...], interpret: bool) -> Array:
    """The sum over all cells of all samples, in parts: a program for some taps of a filter and one part.

    A matrix product could do it, of patches that would first have to be written: for a filter of 5 × 5, 25 times what
    the layer has read.
    """
    rows, columns, channels, features = shape
    how, weights = how_to_sum(), rows * columns * channels * features
    whole = lambda array: pl.BlockSpec((array.size,), lambda some, part: (0,))  # noqa: E731
    x, error = x.reshape(-1), error.reshape(-1)
    sums: Any = pl.pallas_call(
        partial(_gradient_kernel, grid, how, shape, error.size // features),
        grid=(-(-rows * columns // how.taps(channels)), PARTS),
        in_specs=[whole(x), whole(error)],
        out_specs=pl.BlockSpec((None, weights), lambda some, part: (part, 0)),
        out_shape=jax.ShapeDtypeStruct((PARTS, weights), jnp.float32),
        compiler_params=_compiled(how, interpret),
        interpret=interpret,
    )(x, error)
    return jnp.sum(sums, axis=0).reshape(shape)


def _call(
    kernel: Any, how: How, given: list[Array], layers: tuple[Layer, ...], sizes: list[int], interpret: bool
) -> list[Array]:
    """A program for each sample, which sees all parameters and its own rows of the arrays given and made."""
    batch = len(given[0])
    params = jnp.concatenate([part.reshape(-1) for layer in layers for part in layer])
    own = lambda size: pl.BlockSpec((None, size), lambda sample: (sample, 0))  # noqa: E731
    return pl.pallas_call(
        kernel,
        grid=(batch,),
        in_specs=[pl.BlockSpec(params.shape, lambda _: (0,)), *(own(array.shape[1]) for array in given)],
        out_specs=[own(size) for size in sizes],
        out_shape=[jax.ShapeDtypeStruct((batch, size), jnp.float32) for size in sizes],
        compiler_params=_compiled(how, interpret),
        interpret=interpret,
    )(params, *given)


def _compiled(how: How, interpret: bool) -> Any:
    return None if interpret else triton.CompilerParams(num_warps=how.warps, num_stages=how.stages)


class _Where:
    """Where the parameters of each layer start in the vector of all of them."""

    def __init__(self, layers: tuple[Layer, ...]):
        self.shapes, self.starts, at = [layer.kernel.shape for layer in layers], [], 0
        for layer in layers:
            self.starts.append([])
            for part in layer:
                self.starts[-1].append(at)
                at += part.size

    def vectors(self, params: Any, layer: int) -> list[Array]:
        """Bias, scale and shift, [1, features]."""
        one = jnp.arange(self.shapes[layer][-1], dtype=jnp.int32)
        return [triton.load(params.at[start + one])[None] for start in self.starts[layer][1:]]


class _Grid:
    """The cells of one sample's image, padded to a power of two, as the arrays of a kernel must be."""

    def __init__(self, height: int, width: int, layers: tuple[Layer, ...]):
        self.height, self.width = height, width
        self.padded = max(16, pl.next_power_of_2(height * width))
        self.how = how(self.padded, max(layer.bias.size for layer in layers))

    def cells(self) -> tuple[Array, Array]:
        """Their numbers, and which are there."""
        cell = jnp.arange(self.padded, dtype=jnp.int32)
        return cell, cell < self.height * self.width

    def features(self, count: int) -> tuple[Array, Array]:
        """Where those of each cell are, and which are there."""
        cell, inside = self.cells()
        where = cell[:, None] * count + jnp.arange(count, dtype=jnp.int32)[None]
        return where, jnp.broadcast_to(inside[:, None], where.shape)

    def neighbour(self, cell: Array, tap: Array, shape: tuple[int, ...], back: bool = False) -> tuple[Array, Array]:
        """How far from a cell the one is that a tap of a filter reads, or is read by, and whether it is there."""
        rows, columns = shape[:2]
        down, right = jax.lax.div(tap, columns) - (rows - 1) // 2, jax.lax.rem(tap, columns) - (columns - 1) // 2
        down, right = (-down, -right) if back else (down, right)
        row, column = jax.lax.div(cell, self.width) + down, jax.lax.rem(cell, self.width) + right
        there = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        return down * self.width + right, there

    def convolve(self, ref: Any, params: Any, start: int, shape: tuple[int, ...], back: bool = False) -> Array:
        """The convolution of what `ref` holds, or its transpose: products of some neighbours with their weights."""
        rows, columns, channels, features = shape
        depth, width = (features, channels) if back else (channels, features)
        taps, padded = self.how.taps(depth), pl.next_power_of_2(depth)
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

        # A loop, not written out: else the compiler gives all columns of a product to each of its warps.
        return jax.lax.fori_loop(0, -(-rows * columns // taps), add, jnp.zeros((len(cell), width)))


def _forward_kernel(grid: _Grid, where: _Where, interpret: bool, params: Any, x: Any, *outs: Any):
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


def _backward_kernel(grid: _Grid, where: _Where, interpret: bool, params: Any, gradient: Any, *refs: Any):
    count = len(where.shapes)
    saved, errors, sums = refs[: 2 * count], refs[2 * count : 3 * count], refs[-1]
    at, inside = grid.features(where.shapes[-1][-1])
    gradient = triton.load(gradient.at[at], mask=inside, other=0.0)
    for layer in reversed(range(count)):
        features = where.shapes[layer][-1]
        at, inside = grid.features(features)
        unit = triton.load(saved[2 * layer].at[at], mask=inside, other=0.0)
        cell, there = grid.cells()
        inverse = triton.load(saved[2 * layer + 1].at[cell], mask=there, other=0.0)
        _, scale, shift = where.vectors(params, layer)
        gradient = jnp.where(unit * scale + shift > 0, gradient, 0.0)
        error = standardised_change(unit, inverse[:, None], gradient * scale)
        triton.store(errors[layer].at[at], error, mask=inside)
        start = 3 * sum(shape[-1] for shape in where.shapes[:layer])
        for place, part in enumerate((error, gradient * unit, gradient)):  # of bias, scale and shift
            one = start + place * features + jnp.arange(features, dtype=jnp.int32)
            triton.store(sums.at[one], jnp.sum(part, axis=0))
        if layer:
            _wait(interpret)
            gradient = grid.convolve(errors[layer], params, where.starts[layer][0], where.shapes[layer], back=True)


def _gradient_kernel(grid: _Grid, how: How, shape: tuple[int, ...], count: int, x: Any, error: Any, out: Any):
    rows, columns, channels, features = shape
    some, part = pl.program_id(0), pl.program_id(1)
    taps, padded = how.taps(channels), pl.next_power_of_2(channels)
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
    """Until all threads have written what others will read."""
    if not interpret:
        triton.debug_barrier()
