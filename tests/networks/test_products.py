"""The product of a head has the values and derivatives of a plain product, in the form that is fast on a CPU."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.networks import products
from pqn.networks.products import dot_general, product

X, KERNEL, G = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(128, 256), (256, 2), (128, 2)]))
USUAL = (((1,), (0,)), ((), ()))


def plain(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.lax.dot(x, kernel)


def bent(function, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Not linear, so that second derivatives are not zero."""
    return jnp.sum(jnp.tanh(function(x, kernel)) * G)


@pytest.mark.parametrize("of", [0, 1, (0, 1)])
def test_gradients_are_those_of_a_plain_product_to_the_bit(of):
    ours, theirs = (jax.jit(jax.grad(functools.partial(bent, f), of))(X, KERNEL) for f in (product, plain))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_forward_and_second_derivatives():
    """The theory's monitor takes both."""

    def along(function):
        gradient = jax.grad(lambda kernel: bent(function, X, kernel))
        return jax.jvp(lambda x, kernel: bent(function, x, kernel), (X, KERNEL), (X, KERNEL))[1], jax.jvp(
            gradient, (KERNEL,), (KERNEL,)
        )[1]

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), along(product), along(plain))


def test_a_cpu_gets_the_fast_form():
    """The gradient is gᵀ x [2, 256], not xᵀ g [256, 2], after the compiler has simplified what it could."""
    text = jax.jit(jax.grad(lambda kernel: bent(product, X, kernel))).lower(KERNEL).compile().as_text()
    made = [line.split(" dot(")[0].split(" = ")[1] for line in text.splitlines() if " dot(" in line]
    assert any(shape.startswith("f32[2,256]") for shape in made)
    assert not any(shape.startswith("f32[256,2]") for shape in made)


def test_accelerators_get_the_plain_product(monkeypatch):
    monkeypatch.setattr(products, "columns_are_slow", lambda: False)
    assert "custom_jvp" not in str(jax.make_jaxpr(lambda x, kernel: dot_general(x, kernel, USUAL))(X, KERNEL))
    monkeypatch.undo()
    assert "custom_jvp" in str(jax.make_jaxpr(lambda x, kernel: dot_general(x, kernel, USUAL))(X, KERNEL))
