"""The hand-written convolution kernels, run by Pallas' interpreter, against XLA."""

import sys
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.config import NetworkConfig
from pqn.networks import QNetwork, fused
from pqn.networks.fused import Layer, convolution, stack
from pqn.networks.norms import standardised
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
    loss = lambda x, layers: jnp.sum(weight * function(x, layers))  # noqa: E731
    return function(x, layers), jax.grad(loss, (0, 1))(x, layers)


@pytest.mark.parametrize("grid", [(4, 5), (5, 9), (1, 3)])  # padded to 32, 64 and 16 cells
@pytest.mark.parametrize("taps", [1, 4])
def test_the_kernels_compute_what_xla_does(grid, taps, monkeypatch):
    monkeypatch.setattr(fused, "how", lambda cells: fused.How(taps, stages=3))
    x = jax.random.normal(jax.random.key(0), (3, *grid, 6))
    layers = layers_of(jax.random.key(1), 6)
    got = values_and_gradients(partial(stack, interpret=True), x, layers)
    want = values_and_gradients(plain, x, layers)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("capability", "cells", "taps", "stages"),
    [("9.0", 32, 4, 5), ("9.0", 64, 4, 4), ("8.0", 16, 4, 5), ("8.9", 32, 1, 3), ("12.0", 64, 1, 3), (None, 32, 1, 3)],
)
def test_only_roomy_multiprocessors_take_four_taps_at_a_time(capability, cells, taps, stages, monkeypatch):
    device = SimpleNamespace() if capability is None else SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert fused.how(cells) == (taps, stages)


def test_under_vmap_every_seed_has_its_own_weights():
    x = jax.random.normal(jax.random.key(0), (2, 2, 4, 5, 6))
    layers = jax.vmap(lambda key: layers_of(key, 6))(jax.random.split(jax.random.key(1), 2))
    got = jax.vmap(partial(values_and_gradients, partial(stack, interpret=True)))(x, layers)
    for seed in range(2):
        want = values_and_gradients(plain, x[seed], jax.tree.map(lambda p, seed=seed: p[seed], layers))
        for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(ours[seed], theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Lets the network believe it, and counts how often it asks for the kernels."""
    calls = []

    def counted(*args):
        calls.append(args)
        return stack(*args, interpret=True)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(fused, "stack", counted)
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


def test_without_a_gpu_the_kernels_are_not_even_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pqn.networks.fused", None)
    np.testing.assert_array_equal(q_values("fused")[1], q_values("matmul")[1])
