"""Extreme eigenvalues of a symmetric operator that is only known through its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Eigenpairs(NamedTuple):
    """Both ends of the spectrum; `residual` is ‖Aq − λq‖, so an eigenvalue lies within it of the reported one."""

    largest: Array  # []
    largest_vector: Array  # [d], unit
    largest_residual: Array  # []
    smallest: Array  # []
    smallest_residual: Array  # []


def _orthogonalise(vector: Array, basis: Array) -> Array:
    """`vector` minus its part in the span of the rows of `basis`; twice, which is enough in floating point."""
    vector = vector - basis.T @ (basis @ vector)
    return vector - basis.T @ (basis @ vector)


def lanczos(
    matvec: Callable[[Array], Array], start: Array, iterations: int, key: Array, mask: Array | None = None
) -> Eigenpairs:
    """Eigenpairs at both ends of the symmetric operator `matvec`, by Lanczos with full reorthogonalisation.

    A Q = Q T + β q_{m+1} e_mᵀ, T tridiagonal; eigenvalues of T approximate the extreme ones of A from the inside,
    and with `iterations` equal to the dimension they are exact. Storage: iterations × d numbers.
    `mask` (0/1, [d]) restricts the operator to the coordinates it marks, i.e. to the principal block of A.

    Jittable and vmappable. Where the Krylov space closes early the iteration goes on from a fresh random direction,
    so repeated eigenvalues and rank-deficient operators are handled.
    """
    mask = jnp.ones_like(start) if mask is None else mask.astype(start.dtype)
    size = start.shape[0]
    steps = min(iterations, size)
    tiny = jnp.sqrt(jnp.finfo(start.dtype).eps)

    def unit(vector: Array) -> Array:
        return vector / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(start.dtype).tiny)

    def body(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        basis, alphas, betas = carry
        q = basis[i]
        product = mask * matvec(mask * q)
        # A zero q means that every direction of the block is used up. Its place on the diagonal is filled from inside
        # the spectrum, slightly lower so that it cannot equal the largest.
        alpha = jnp.where(jnp.any(q != 0), q @ product, alphas[0] - tiny * jnp.abs(alphas[0]))
        rest = _orthogonalise(product, basis[:-1])
        beta = jnp.linalg.norm(rest)
        # Closed Krylov space: rounding noise is no direction. Start again somewhere orthogonal, with no coupling.
        closed = beta <= tiny * (jnp.abs(alpha) + jnp.linalg.norm(product))
        noise = mask * jax.random.normal(jax.random.fold_in(key, i), (size,), start.dtype)
        fresh = _orthogonalise(noise, basis[:-1])
        fresh = jnp.where(jnp.linalg.norm(fresh) > tiny * jnp.linalg.norm(noise), unit(fresh), 0.0)
        basis = basis.at[i + 1].set(jnp.where(closed, fresh, unit(rest)))
        return basis, alphas.at[i].set(alpha), betas.at[i].set(jnp.where(closed, 0.0, beta))

    basis = jnp.zeros((steps + 1, size), start.dtype).at[0].set(unit(mask * start))
    carry = (basis, jnp.zeros(steps, start.dtype), jnp.zeros(steps, start.dtype))
    basis, alphas, betas = jax.lax.fori_loop(0, steps, body, carry)
    tridiagonal = jnp.diag(alphas) + jnp.diag(betas[:-1], 1) + jnp.diag(betas[:-1], -1)
    values, vectors = jnp.linalg.eigh(tridiagonal)
    return Eigenpairs(
        largest=values[-1],
        largest_vector=unit(basis[:-1].T @ vectors[:, -1]),
        largest_residual=jnp.abs(betas[-1] * vectors[-1, -1]),
        smallest=values[0],
        smallest_residual=jnp.abs(betas[-1] * vectors[-1, 0]),
    )
