"""The random keys of a run. Each is a function of the run's seed and of counters."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from pqn.types import Array

NO_UPDATE = np.iinfo(np.int32).max  # a number to fold into a key; no update has it


class SeedKeys(NamedTuple):
    """The keys that one seed starts with."""

    run: Array  # split at each update
    network: Array
    env: Array


class UpdateKeys(NamedTuple):
    """The keys of one update."""

    run: Array  # for the next update
    collect: Array
    learn: Array


def seed_keys(seed: Array) -> SeedKeys:
    return SeedKeys(*jax.random.split(jax.random.key(seed), 3))


def update_keys(key: Array) -> UpdateKeys:
    return UpdateKeys(*jax.random.split(key, 3))


def evaluation_key(seed: Array, update: Array | int) -> Array:
    """For an evaluation after `update` updates. It is not split from the run's key: evaluating cannot change a run."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), NO_UPDATE), update)
