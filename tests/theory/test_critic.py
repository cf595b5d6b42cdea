"""LayerNorm in the theory's convention."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pqn.theory.critic import LIPSCHITZ, activation, critic, init_critic, layer_norm, normalise

vectors = arrays(np.float32, st.sampled_from([2, 3, 17]), elements=st.floats(-1e6, 1e6, width=32))


@settings(max_examples=60, deadline=None)
@given(vectors)
def test_layer_norm_has_norm_at_most_one(f):
    assert float(jnp.linalg.norm(layer_norm(jnp.asarray(f)))) <= 1 + 1e-5


def test_layer_norm_is_the_library_one_over_root_k():
    f = jax.random.normal(jax.random.key(0), (4, 9))
    library = nn.LayerNorm(epsilon=1e-5, use_bias=False, use_scale=False).apply({}, f)
    np.testing.assert_allclose(layer_norm(f), library / 3, atol=1e-5)
    np.testing.assert_allclose(normalise("layer_unscaled", f), library, atol=1e-5)


@pytest.mark.parametrize("name", LIPSCHITZ)
def test_activations_meet_the_lemma_conditions(name):
    z = jnp.linspace(-6, 6, 4001)
    assert float(activation(name)(jnp.asarray(0.0))) == 0.0
    steepest = float(jnp.abs(jax.vmap(jax.grad(activation(name)))(z)).max())
    assert steepest <= LIPSCHITZ[name] <= steepest + 0.01


def test_values_are_bounded_by_the_final_weights_whatever_the_inputs():
    params = init_critic(jax.random.key(0), 16, 3, weight_norm=2.0)
    x = 1e4 * jax.random.normal(jax.random.key(1), (20, 3))
    assert float(jnp.abs(critic(params, x, "layer", "identity", "identity")).max()) <= 2.0 + 1e-4
    assert float(jnp.abs(critic(params, x, "none", "identity", "identity")).max()) > 100


def test_batch_norm_standardises_over_its_weights():
    f = jax.random.normal(jax.random.key(0), (6, 3))
    weight = jnp.asarray([1.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    out = normalise("batch", f, weight)
    np.testing.assert_allclose((weight[:, None] * out).sum(0), 0, atol=1e-5)
    np.testing.assert_allclose((weight[:, None] * out**2).sum(0) / 4, 1, atol=1e-2)


def test_unknown_names_get_a_sentence():
    with pytest.raises(ValueError, match="norm has the unknown value 'group'"):
        normalise("group", jnp.ones((2, 2)))
    with pytest.raises(ValueError, match="activation has the unknown value 'sine'"):
        activation("sine")
