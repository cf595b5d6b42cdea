"""Packed parameters: nothing is lost or exchanged when arrays become a vector, and again at a resume."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

from pqn.algorithms import packing
from pqn.algorithms.packing import Packed, named, pack, packed_again

SHAPES = {  # in the order of the tree; several have the same shape, so that an exchange breaks nothing but the numbers
    "first": {"bias": (3,), "kernel": (2, 4)},
    "large": {"a": (2, 5), "b": (2, 5)},
    "second": {"bias": (3,), "kernel": (2, 2)},
    "tall": {"a": (7, 2), "b": (7, 2), "c": (4, 1), "d": (4, 1)},
    "third": {"bias": (), "kernel": (3,)},
}


@pytest.fixture(autouse=True, params=[True, False], ids=["CPU", "accelerator"])
def columns_are_slow(monkeypatch, request):
    monkeypatch.setattr(packing, "LARGE", 10)
    monkeypatch.setattr(packing, "columns_are_slow", lambda: request.param)
    return request.param


def numbered(start: float = 0.0):
    """A tree of those shapes in which no number occurs twice."""
    count = iter(range(10**6))

    def array(shape):
        return jnp.array([start + next(count) for _ in range(int(np.prod(shape)))], jnp.float32).reshape(shape)

    return jax.tree.map(array, SHAPES, is_leaf=lambda x: isinstance(x, tuple))


def assert_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert jax.tree.structure(one) == jax.tree.structure(other)


def test_small_arrays_are_one_vector_and_large_ones_follow(columns_are_slow):
    tree = numbered()
    turned = {(7, 2)} if columns_are_slow else set()  # the large ones, if they are tall
    leaves = [leaf.T if leaf.shape in turned else leaf for leaf in jax.tree.leaves(tree)]
    vector, *large = pack(tree).arrays
    small = np.concatenate([np.ravel(leaf) for leaf in leaves if leaf.size < 10])
    np.testing.assert_array_equal(vector[: small.size], small)
    np.testing.assert_array_equal(vector[small.size :], np.zeros(-small.size % packing.ALIGNED))
    assert vector.size % packing.ALIGNED == 0
    assert_equal(large, [leaf for leaf in leaves if leaf.size >= 10])


@pytest.mark.parametrize("limit", [1, 10, 10**6], ids=["all large", "mixed", "all small"])
def test_unpacked_is_what_was_packed(limit, monkeypatch):
    monkeypatch.setattr(packing, "LARGE", limit)
    tree = numbered()
    assert_equal(pack(tree).unpack(), tree)


def test_an_axis_of_seeds_stays_in_front():
    tree = jax.tree.map(lambda a, b: jnp.stack([a, b]), numbered(), numbered(1000.0))
    assert_equal(jax.vmap(pack)(tree).unpack(), tree)
    assert_equal(jax.tree.map(np.asarray, jax.vmap(pack)(tree)).unpack(), tree)  # as a checkpoint unpacks it


class Moments(NamedTuple):
    count: jax.Array
    mu: Packed
    nu: Packed


def moments(*starts: float) -> Moments:
    """The state of an optimiser for each of some seeds."""
    mu, nu = ([pack(numbered(start + add)) for start in starts] for add in (0.0, 100.0))
    together = jax.tree.map(lambda *x: jnp.stack(x), *mu), jax.tree.map(lambda *x: jnp.stack(x), *nu)
    return Moments(jnp.arange(len(starts)), *together)


def test_a_named_state_has_the_trees_that_were_packed():
    state = named(moments(0.0, 1000.0))
    assert_equal(state.mu["second"]["kernel"][1], numbered(1000.0)["second"]["kernel"])
    assert_equal(state.nu["large"]["b"][0], numbered(100.0)["large"]["b"])
    assert_equal(state.count, jnp.arange(2))


def test_a_state_that_was_named_is_packed_again_to_the_bit():
    """`like` only shows where something was packed: its numbers, or shapes without any, do not matter."""
    state = moments(0.0, 1000.0)
    other = jax.tree.map(jnp.zeros_like, state)
    for like in (other, jax.eval_shape(lambda: state)):
        assert_equal(packed_again(named(state), like), state)


@pytest.mark.parametrize("clipped", [1e9, 1e-3])
def test_learning_does_not_depend_on_what_is_large(clipped, monkeypatch):
    def learned(large):
        monkeypatch.setattr(packing, "LARGE", large)
        state = run_updates(build(tiny({"learner.max_grad_norm": clipped})), 3)
        return state.learner

    one, many = learned(10**9), learned(8)
    assert len(jax.tree.leaves(many.opt)) > len(jax.tree.leaves(one.opt))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), one.params, many.params)
