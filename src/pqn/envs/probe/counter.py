"""A probe in which every single transition can be verified."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.contract import Outcome
from pqn.envs.probe.tabular import at_least
from pqn.types import Array, EnvSpec


class Counter:
    """A numbered episode with a clock: every transition can be verified from its observation alone.

    An observation is (marker, t). The marker is drawn at reset and decides all: the episode lasts
    1 + marker mod `longest` steps and ends by termination if ⌊marker / longest⌋ is even, else by truncation. Step t
    pays t + 1. A lost or invented transition, a stale final observation or a reward of the step before or after
    contradicts `expected`. If every end is taken for a termination, Q(marker, t) = Σ_{j=t+1}^{length} γ^(j-t-1) j.
    """

    def __init__(self, longest: int = 7, markers: int = 1024) -> None:
        self.longest = at_least(longest, 1, "probe:counter", "longest")
        self.markers = at_least(markers, 1, "probe:counter", "markers")
        # Truncation comes at no fixed length, so no `max_episode_steps` is promised.
        self.spec = EnvSpec("probe:counter", (2,), np.dtype(np.float32), num_actions=2, truncates=True)
        length = 1 + np.arange(markers) % longest
        self.observations = np.array([(m, t) for m in range(markers) for t in range(length[m])], np.float32)

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = jnp.stack([jax.random.randint(key, (), 0, self.markers), jnp.int32(0)])
        return state, state.astype(jnp.float32)

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        after, reward, terminated, truncated = self.expected(state)
        return Outcome(after, after.astype(jnp.float32), reward, terminated, truncated)

    def expected(self, obs: Array) -> tuple[Array, Array, Array, Array]:
        """The successor of obs [..., 2] before any reset, its reward, and whether it is terminated or truncated.

        `obs` may also be a numpy array.
        """
        marker, after = obs[..., 0], obs[..., 1] + 1
        over = after == 1 + marker % self.longest
        by_task = (marker // self.longest) % 2 == 0
        successor = obs + np.array([0, 1], obs.dtype)
        return successor, after, over & by_task, over & ~by_task

    def optimal_q(self, gamma: float) -> np.ndarray:
        """[S, A] for the rows of `observations`, with every end taken for a termination."""
        length = 1 + self.observations[:, 0].astype(int) % self.longest
        time = self.observations[:, 1].astype(int)
        value = [sum(gamma ** (j - t - 1) * j for j in range(t + 1, n + 1)) for t, n in zip(time, length, strict=True)]
        return np.repeat(np.array(value)[:, None], 2, axis=1)
