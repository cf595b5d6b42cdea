"""The spec and the time steps of an Atari environment, the same for both backends."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pqn.envs.options import Chosen
from pqn.types import EnvSpec, TimeStep


def time_step(
    chosen: Chosen,
    score: np.ndarray,
    obs: np.ndarray,
    final_obs: np.ndarray,
    reward: np.ndarray,
    *,
    first: np.ndarray,
    **flags: np.ndarray,
) -> TimeStep:
    """A time step of either backend [N, ...]: the score of the open games as the return, the reward perhaps clipped."""
    reward = np.sign(reward) if chosen["clip_rewards"] else reward  # all of them are whole numbers
    fields = {
        "obs": obs[:, None],
        "first": first[:, None],
        "reward": reward.astype(np.float32),
        "final_obs": final_obs[:, None],
        "info": {"return": score.astype(np.float32)},
    }
    return TimeStep(**cast(dict[str, Any], fields | flags))


def spec_of(game: str, num_actions: int, chosen: Chosen) -> EnvSpec:
    """The spec of either backend. The step limit is that of games: between two truncations there is a whole game."""
    return EnvSpec(
        f"atari:{game}",
        obs_shape=(chosen["frame_stack"], chosen["screen_size"], chosen["screen_size"]),
        obs_dtype=np.dtype(np.uint8),
        num_actions=num_actions,
        max_episode_steps=-(-chosen["max_frames"] // chosen["frame_skip"]),
        truncates=True,
    )
