"""Finite Markov decision processes, given by their tables, as environments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from pqn.envs.contract import Outcome
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec


class Probe:
    """A finite Markov decision process as a `SingleEnv`; its state is the index of a row of the tables below.

    Attributes:
      observations: [S, *obs_shape] what the agent sees in each state (two states may look alike).
      transition: [S, A, S] P(s' | s, a).
      reward: [S, A, S] r(s, a, s').
      terminates, truncates: [S, A, S] bool, whether the transition ends the episode, by termination or by truncation.
      start: [S] distribution of the first state.
      legal: [S, A] bool.
      acting: [S] bool, states in which an agent ever chooses; the others are only ever successors.
    """

    spec: EnvSpec

    def __init__(
        self,
        name: str,
        transition: np.ndarray,
        reward: ArrayLike,
        terminates: ArrayLike,
        *,
        truncates: ArrayLike = False,
        start: ArrayLike | None = None,
        legal: np.ndarray | None = None,
        observations: np.ndarray | None = None,
        max_episode_steps: int | None = None,
        limit_truncates: bool = False,
    ):
        shape = transition.shape
        self.transition = transition
        self.reward = np.broadcast_to(np.asarray(reward, np.float64), shape)
        self.terminates = np.broadcast_to(np.asarray(terminates, bool), shape)
        self.truncates = np.broadcast_to(np.asarray(truncates, bool), shape)
        self.start = np.full(shape[0], 1 / shape[0]) if start is None else np.asarray(start, np.float64)
        self.legal = np.ones(shape[:2], bool) if legal is None else legal
        self.observations = np.eye(shape[0], dtype=np.float32) if observations is None else observations
        self.acting = self._acting()
        self.spec = EnvSpec(
            name=f"probe:{name}",
            obs_shape=self.observations.shape[1:],
            obs_dtype=self.observations.dtype,
            num_actions=shape[1],
            max_episode_steps=max_episode_steps,
            truncates=limit_truncates or bool(self.truncates.any()),
            masked=legal is not None,
        )
        self._start_cdf, self._transition_cdf = _cdf(self.start), _cdf(self.transition)

    def optimal_q(self, gamma: float) -> np.ndarray:
        """Q*[S, A], bootstrapping at truncations; only the rows of `acting` and the `legal` entries matter."""
        raise NotImplementedError

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = _draw(key, self._start_cdf)
        return state, jnp.asarray(self.observations)[state]

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        here = (state, action, _draw(key, jnp.asarray(self._transition_cdf)[state, action]))
        return Outcome(
            state=here[2],
            obs=jnp.asarray(self.observations)[here[2]],
            reward=jnp.asarray(self.reward, jnp.float32)[here],
            terminated=jnp.asarray(self.terminates)[here],
            truncated=jnp.asarray(self.truncates)[here],
        )

    def avail(self, state: Array) -> Array:
        return jnp.asarray(self.legal)[state]

    def _acting(self) -> np.ndarray:
        """States that can be reached from a start without the episode ending on the way."""
        goes_on = (self.transition > 0) & ~self.terminates & ~self.truncates & self.legal[:, :, None]
        seen = self.start > 0
        for _ in seen:
            seen = seen | goes_on[seen].any((0, 1))
        return seen


def _cdf(probabilities: np.ndarray) -> np.ndarray:
    """Cumulative distribution in float32 that ends at exactly 1, so that every draw is a state."""
    total = np.cumsum(probabilities, axis=-1)
    return (total / total[..., -1:]).astype(np.float32)


def _draw(key: Array, cdf: Array | np.ndarray) -> Array:
    return jnp.sum(jax.random.uniform(key) >= jnp.asarray(cdf)).astype(jnp.int32)


def moves(num_states: int, num_actions: int, targets: ArrayLike) -> np.ndarray:
    """Deterministic transition table from targets [S] or [S, A]."""
    targets = np.asarray(targets)
    targets = targets if targets.ndim == 2 else np.repeat(targets[:, None], num_actions, axis=1)
    return np.eye(num_states)[targets]


def at_least(value: object, least: int, name: str, option: str) -> int:
    """`value`, if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EnvError(f"{name}: {option} must be an integer of at least {least}, not {value!r}.")
    return value
