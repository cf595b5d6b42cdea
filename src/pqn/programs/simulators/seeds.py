"""The seeds of simulators, from the random keys of a run."""

from __future__ import annotations

import jax
import numpy as np

from pqn.programs.keys import NO_UPDATE, seed_keys
from pqn.programs.simulators.groups import Layout
from pqn.types import Array


def env_seeds(keys: Array, count: int) -> np.ndarray:
    """[S, count] seeds for simulators, non-negative and below 2³¹, from a key for each of S seeds."""
    bits = jax.vmap(lambda key: jax.random.bits(key, (count,), "uint32") >> 1)(keys)
    return np.asarray(bits).astype(np.int64)


def episode_seeds(
    run_seeds: Array, layout: Layout, update: int, shard: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Seeds [S, N] and [S, E] of the training and the greedy environments that start after `update` updates.

    Each shard of a run that has several gets seeds of its own, whichever process it is in.
    """
    keys = jax.vmap(lambda seed: seed_keys(seed).env)(run_seeds)
    keys = keys if shard is None else _fold(keys, shard)
    keys = _fold(keys, update) if update else keys
    return env_seeds(keys, layout.num_train), env_seeds(_fold(keys, NO_UPDATE), layout.num_greedy)


def _fold(keys: Array, number: int) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
