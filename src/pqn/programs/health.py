"""Whether an update went well and, if not, whose fault it was: one number for each update and seed.

A compiled program cannot raise. It reports a `Fault` among the metrics of an update, the first one of a seed is kept
(see `totals`), and the host loop turns it into a sentence.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import jax.numpy as jnp

from pqn.errors import Diverged, EnvError, PqnError
from pqn.types import Array, EnvSpec


class Fault(enum.IntEnum):
    """What can go wrong; the smallest number that applies is reported, since one fault causes the next."""

    NONE = 0
    REWARD = 1  # NaN or infinite
    OBSERVATION = 2  # NaN or infinite
    TRUNCATED_EARLY = 3  # more often than `max_episode_steps` allows
    TRUNCATED_UNANNOUNCED = 4  # although `truncates` is False
    DIVERGED = 5  # the loss or a parameter is NaN or infinite


def first(faults: Iterable[tuple[Fault, Array]]) -> Array:
    """The smallest of the faults whose condition holds, as an int32."""
    found = jnp.int32(Fault.NONE)
    for fault, holds in sorted(faults, key=lambda pair: pair[0], reverse=True):
        found = jnp.where(holds, jnp.int32(fault), found)
    return found


def not_finite(*arrays: Array | None) -> Array:
    """Whether a NaN or an infinity is among them; integers have none, and are not even read."""
    floats = [x for x in arrays if x is not None and jnp.issubdtype(x.dtype, jnp.floating)]
    bad = [~jnp.all(jnp.isfinite(x)) for x in floats]
    return jnp.any(jnp.stack(bad)) if bad else jnp.bool_(False)


def error(fault: Fault, seed: int, update: int, spec: EnvSpec, kept: str) -> PqnError:
    """The sentence about the first fault of a run; `kept` says which checkpoint is left."""
    if fault == Fault.DIVERGED:
        return Diverged(
            f"the loss or a parameter of seed {seed} became NaN or infinite at update {update}; {kept}; "
            "a smaller learner.lr or learner.max_grad_norm may help"
        )
    said = {
        Fault.REWARD: "gave a NaN or infinite reward",
        Fault.OBSERVATION: "gave a NaN or infinite observation",
        Fault.TRUNCATED_EARLY: (
            f"truncated an episode before spec.max_episode_steps = {spec.max_episode_steps}, which promises that none "
            "is truncated earlier; set max_episode_steps to the shortest such episode, or to None"
        ),
        Fault.TRUNCATED_UNANNOUNCED: (
            "truncated an episode although spec.truncates is False; set it to True and give final_obs"
        ),
    }[fault]
    return EnvError(f"seed {seed}, update {update}: {spec.name} {said}; {kept}")
