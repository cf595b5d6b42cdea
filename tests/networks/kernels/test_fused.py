"""The hand-written convolution kernels, run by Pallas' interpreter, against XLA."""

import sys
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.networks import QNetwork, kernels
from pqn.networks.kernels import fused, tiling
from pqn.networks.kernels.fused import Layer, conv_layers, convolution
from pqn.networks.norms import standardised
from pqn.options import NetworkConfig
from pqn.types import Inputs


def layers_of(key, channels, sizes=(5, 3), features=16):
    def layer(key, size, channels):
        keys = jax.random.split(key, 4)
        kernel = jax.random.normal(keys[0], (size, size, channels, features)) / size
        bias, scale, shift = (0.5 * jax.random.normal(key, (features,)) for key in keys[1:])
        return Layer(kernel, bias, 1 + scale, shift)

    keys = jax.random.split(key, len(sizes))
    return tuple(layer(*one) for one in zip(keys, sizes, (channels, *[features] * (len(sizes) - 1)), strict=True))


def plain(x, layers):
    """The same by XLA."""
    for kernel, bias, scale, shift in layers:
        x = jax.nn.relu(standardised(convolution(x, kernel) + bias, 1e-6) * scale + shift)
    return x


def values_and_gradients(function, x, layers):
    weight = jnp.cos(jnp.arange(x.shape[0] * x.shape[1] * x.shape[2] * 16.0)).reshape(*x.shape[:3], 16)

    def loss(x, layers):
        return jnp.sum(weight * function(x, layers))

    return function(x, layers), jax.grad(loss, (0, 1))(x, layers)


@pytest.mark.parametrize(("grid", "batch"), [((4, 5), 3), ((4, 5), 130), ((5, 9), 3), ((1, 3), 3)])
@pytest.mark.parametrize("large", [True, False])
def test_the_kernels_compute_what_xla_does(grid, batch, large, monkeypatch):
    """On grids padded to 32, 64 and 16 cells, and with so many samples that a part of a gradient takes two steps."""
    monkeypatch.setattr(tiling, "has_large_shared_memory", lambda: large)
    assert (batch * grid[0] * grid[1] > fused.PARTS * fused.CELLS) == (batch == 130)
    x = jax.random.normal(jax.random.key(0), (batch, *grid, 6))
    layers = layers_of(jax.random.key(1), 6)
    got = values_and_gradients(partial(conv_layers, interpret=True), x, layers)
    want = values_and_gradients(plain, x, layers)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("capability", "large"), [("8.0", True), ("9.0", True), ("8.9", False), ("12.0", False), (None, False)]
)
@pytest.mark.parametrize("cells", [16, 32, 64])
@pytest.mark.parametrize("features", [16, 32, 64])
def test_what_a_kernel_loads_ahead_fits_into_a_multiprocessor(capability, large, cells, features, monkeypatch):
    device = SimpleNamespace() if capability is None else SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    room = (163 if large else 99) * 1024
    for one, height in ((tiling.layer_tiling(cells, features), cells), (tiling.gradient_tiling(), fused.CELLS)):
        for channels in (1, 16, 32, 64):
            factors = one.taps(channels) * channels * (height + features)
            assert one.stages > 1 and 4 * (one.stages - 1) * factors <= room
    # Two programs for samples must not share a multiprocessor of 228 KB.
    one = tiling.layer_tiling(cells, features)
    taken = 4 * (one.stages - 1) * one.weights * (cells + features)
    assert taken > 114 * 1024 or not large


def test_under_vmap_every_seed_has_its_own_weights():
    x = jax.random.normal(jax.random.key(0), (2, 2, 4, 5, 6))
    layers = jax.vmap(lambda key: layers_of(key, 6))(jax.random.split(jax.random.key(1), 2))
    got = jax.vmap(partial(values_and_gradients, partial(conv_layers, interpret=True)))(x, layers)
    for seed in range(2):
        want = values_and_gradients(plain, x[seed], jax.tree.map(lambda p, seed=seed: p[seed], layers))
        for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(ours[seed], theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Makes the network take the GPU's path, and counts how often it asks for the kernels."""
    calls = []

    def counted(*args):
        calls.append(args)
        return conv_layers(*args, interpret=True)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(fused, "conv_layers", counted)
    return calls


def q_values(conv, grid=(4, 5), **options):
    network = QNetwork(NetworkConfig(torso="grid", hidden=(8,), conv=conv, **options), 3)
    obs = jax.random.bernoulli(jax.random.key(0), 0.3, (1, 2, 1, *grid, 6)).astype(jnp.uint8)
    inputs = Inputs(obs, jnp.zeros((1, 2, 1), bool))
    variables = network.init(jax.random.key(1), (), inputs)
    return variables, network.apply(variables, (), inputs)[1]


def test_the_network_gives_the_kernels_its_own_parameters(on_a_gpu):
    variables, q = q_values("fused")
    others, want = q_values("matmul")
    assert len(on_a_gpu) == 1
    jax.tree.map(np.testing.assert_array_equal, variables, others)
    np.testing.assert_allclose(q, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"norm": "none"}, {"dtype": "bfloat16"}, {"grid": (9, 9)}])
def test_what_the_kernels_cannot_do_is_done_without_them(on_a_gpu, options):
    q_values("fused", **options)
    assert not on_a_gpu


@pytest.mark.parametrize("missing", ["jax.experimental.pallas.triton", "jax.experimental.pallas"])
def test_a_jax_without_the_triton_backend_computes_the_same_with_a_note(monkeypatch, missing):
    """As it will be once the backend is gone: its module, or all of Pallas, cannot be imported."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setitem(sys.modules, missing, None)
    parent, _, name = missing.rpartition(".")
    monkeypatch.delattr(sys.modules[parent], name)
    for module in ("fused", "tiling"):
        monkeypatch.delitem(sys.modules, f"pqn.networks.kernels.{module}")
    kernels.convolutions.cache_clear()
    try:
        with pytest.warns(UserWarning, match=rf"JAX {jax.__version__} has not the Triton backend.*matmul") as notes:
            _, q = q_values("fused")
            _, again = q_values("fused")
    finally:
        kernels.convolutions.cache_clear()
    assert len([note for note in notes if "Triton" in str(note.message)]) == 1
    np.testing.assert_array_equal(q, q_values("matmul")[1])
    np.testing.assert_array_equal(q, again)


def test_without_a_gpu_the_kernels_are_not_even_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pqn.networks.kernels.fused", None)
    np.testing.assert_array_equal(q_values("fused")[1], q_values("matmul")[1])
