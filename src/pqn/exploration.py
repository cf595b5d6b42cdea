"""ε-greedy and sampling from a policy, both with masks of legal actions, and the schedule of ε."""

from __future__ import annotations

from types import ModuleType

import jax
import jax.numpy as jnp

from pqn.types import Array


def masked(q: Array, avail: Array | None) -> Array:
    """Q-values with illegal actions at the lowest float, so that neither argmax nor max ever picks one."""
    return q if avail is None else jnp.where(avail, q, jnp.finfo(q.dtype).min)


def greedy_value(q: Array, avail: Array | None) -> Array:
    """max_a Q over legal actions [...]; 0 for an agent that has no legal action at all."""
    if avail is None:
        return jnp.max(q, axis=-1)
    return jnp.where(jnp.any(avail, axis=-1), jnp.max(masked(q, avail), axis=-1), 0.0)


def epsilon_greedy(uniform: Array, q: Array, avail: Array | None, epsilon: Array | float) -> Array:
    """The greedy action, or with probability ε a uniformly random legal one.

    One uniform number serves both decisions: given u < ε, the ratio u/ε is again uniform on [0, 1). Drawing it outside
    lets a whole rollout's randomness be one call.

    Args:
      uniform: [...] draws from [0, 1).
      q: [..., A].
      avail: [..., A] bool, or None when every action is legal.
      epsilon: probability of exploring.

    Returns:
      [...] int32 actions.
    """
    greedy = jnp.argmax(masked(q, avail), axis=-1).astype(jnp.int32)
    position = uniform / jnp.maximum(epsilon, jnp.finfo(jnp.float32).tiny)
    if avail is None:
        choices = q.shape[-1]
        explore = jnp.minimum(position * choices, choices - 1).astype(jnp.int32)
    else:
        choices = jnp.sum(avail, axis=-1)
        rank = jnp.minimum(position * choices, choices - 1).astype(jnp.int32)
        # The first action at which the running count of legal ones exceeds `rank` is the rank-th legal action.
        explore = jnp.argmax(jnp.cumsum(avail, axis=-1) > rank[..., None], axis=-1).astype(jnp.int32)
    return jnp.where(uniform < epsilon, explore, greedy)


def sampled(uniform: Array, logits: Array, avail: Array | None, epsilon: Array | float) -> Array:
    """With probability ε an action drawn from the policy softmax(logits), otherwise its most probable one.

    As in `epsilon_greedy`, one uniform number serves both decisions: given u < ε, the ratio u/ε is again uniform. The
    action is the first at which the cumulative probability exceeds it. An illegal action has no probability, so the sum
    does not grow there, and it is never the first.

    Args:
      uniform: [...] draws from [0, 1).
      logits: [..., A].
      avail: [..., A] bool, or None when every action is legal.
      epsilon: 1 samples, 0 is greedy.

    Returns:
      [...] int32 actions.
    """
    logits = masked(logits, avail)
    below_one = 1.0 - jnp.finfo(jnp.float32).epsneg  # the ratio may round to 1, which no sum exceeds
    position = jnp.minimum(uniform / jnp.maximum(epsilon, jnp.finfo(jnp.float32).tiny), below_one)
    chances = jax.nn.softmax(logits)
    # Where no action is legal, none has a probability, and the action is 0: nobody's, as in `epsilon_greedy`.
    total = jnp.cumsum(chances if avail is None else jnp.where(avail, chances, 0.0), axis=-1)
    drawn = jnp.argmax(total > position[..., None] * total[..., -1:], axis=-1)
    return jnp.where(uniform < epsilon, drawn, jnp.argmax(logits, axis=-1)).astype(jnp.int32)


def linear(
    start: Array | float, finish: Array | float, duration: Array | float, now: Array | float, xp: ModuleType = jnp
) -> Array:
    """Linear from `start` at 0 to `finish` at `duration`, constant afterwards; a duration of 0 is `finish` at once.

    `xp` is the library that computes it: jax.numpy in compiled programs, numpy for the record of a run.
    """
    duration = xp.asarray(duration, jnp.float32 if xp is jnp else float)
    progress = xp.where(duration > 0, xp.clip(now / xp.maximum(duration, 1e-8), 0.0, 1.0), 1.0)
    return start + progress * (finish - start)
