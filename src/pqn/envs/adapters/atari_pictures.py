"""Atari's screens in colour: a second set of emulators that plays the same games.

The agent's emulators give small grey pictures, because that is what the agent sees. A game depends on its seed and on
the actions only. So other emulators with the same seeds and the same actions show the same game, in full size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ale_py.vector_env import AtariVectorEnv

ARGUMENTS: dict[str, Any] = {"grayscale": False, "img_height": 210, "img_width": 160, "stack_num": 1}
"""Those in which its emulators differ from the agent's."""


class Twin:
    """N emulators that follow those of the agent.

    Args:
      emulators: an `AtariVectorEnv` with the arguments of the agent's and `ARGUMENTS`.
    """

    def __init__(self, emulators: AtariVectorEnv):
        self._emulators = emulators
        self.screens = np.zeros(0, np.uint8)  # [N, 210, 160, 3]
        self.frames = np.zeros(0, np.int32)  # [N] of the open games

    def reset(self, seeds: np.ndarray) -> None:
        self._show(*self._emulators.reset(seed=seeds))

    def step(self, action: np.ndarray) -> None:
        self._emulators.send(action)
        obs, *_, info = self._emulators.recv()
        self._show(obs, info)

    def restart(self, which: np.ndarray) -> None:
        """Starts new games where `which` [N] says so, as the agent's emulators do at the time limit."""
        self._show(*self._emulators.reset(options={"reset_mask": which}))

    def _show(self, obs: np.ndarray, info: Mapping[str, np.ndarray]) -> None:
        self.screens = obs[:, -1].copy()  # ale-py writes into the same memory again
        self.frames = info["episode_frame_number"].copy()
