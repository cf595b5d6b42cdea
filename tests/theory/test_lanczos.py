"""Lanczos against dense eigenvalues, including the cases in which the Krylov space closes early."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.theory.lanczos import lanczos


def _solve(matrix, iterations, mask=None):
    matrix = jnp.asarray(matrix, jnp.float32)
    start = jax.random.normal(jax.random.key(1), (matrix.shape[0],))
    return lanczos(lambda v: matrix @ v, start, iterations, jax.random.key(2), mask)


@pytest.mark.parametrize("iterations", [12, 50])
def test_full_length_is_exact(iterations):
    matrix = np.random.default_rng(0).normal(size=(12, 12))
    matrix = matrix + matrix.T
    found = _solve(matrix, iterations)
    values = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose([found.smallest, found.largest], values[[0, -1]], rtol=1e-4)
    v = np.asarray(found.largest_vector)
    np.testing.assert_allclose(matrix @ v, values[-1] * v, atol=1e-3)


def test_the_residual_bounds_the_error_of_a_short_run():
    matrix = np.random.default_rng(1).normal(size=(60, 60))
    matrix = matrix + matrix.T
    found = _solve(matrix, 10)
    values = np.linalg.eigvalsh(matrix)
    assert found.largest_residual > 1e-3
    assert np.abs(values - float(found.largest)).min() <= float(found.largest_residual) + 1e-4
    v = np.asarray(found.largest_vector)
    np.testing.assert_allclose(np.linalg.norm(matrix @ v - float(found.largest) * v), found.largest_residual, rtol=1e-2)


def test_rank_deficiency_and_repeated_eigenvalues():
    g = np.random.default_rng(2).normal(size=(9, 1))
    found = _solve(-g @ g.T, 9)
    np.testing.assert_allclose(found.largest, 0.0, atol=1e-5)
    np.testing.assert_allclose(found.smallest, -(g**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(_solve(2 * np.eye(5), 5).largest, 2.0, rtol=1e-6)


def test_a_mask_restricts_to_the_principal_block():
    matrix = np.random.default_rng(3).normal(size=(10, 10))
    matrix = matrix + matrix.T
    mask = np.arange(10) < 4
    found = _solve(matrix, 9, jnp.asarray(mask))  # more iterations than the block has dimensions
    np.testing.assert_allclose(found.smallest, np.linalg.eigvalsh(matrix[:4, :4])[0], rtol=1e-4)
    np.testing.assert_allclose(found.largest, np.linalg.eigvalsh(matrix[:4, :4])[-1], rtol=1e-4)
    np.testing.assert_allclose(np.asarray(found.largest_vector)[4:], 0, atol=1e-6)
