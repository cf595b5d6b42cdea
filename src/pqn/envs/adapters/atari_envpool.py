"""Atari games on EnvPool, the simulator of the published results, as an alternative to ale-py.

EnvPool starts a new episode in the step *after* the one that ended the last, ignoring that step's action. Public code
trains on these steps, which are no transitions. Here `valid` marks them, so that the learner leaves them out. EnvPool's
`episodic_life` is right: the game goes on after a lost life, with up to `noop_max` frames and FIRE in the step that is
not valid. The package is large (740 MB) and not part of an extra: `pip install envpool`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from pqn.envs.adapters.atari_records import spec_of, time_step
from pqn.envs.adapters.emulator_threads import start_in_background, usable_cores
from pqn.envs.options import Chosen
from pqn.errors import EnvError
from pqn.types import TimeStep


class EnvPoolAtari:
    """N copies of a game on EnvPool; see `pqn.envs.adapters.atari.options` for what `chosen` holds.

    Raises:
      EnvError: envpool is not installed, or does not have what an option asks for.
    """

    concurrent = True

    def __init__(self, game: str, num_envs: int, chosen: Chosen):
        envpool = _import_envpool()
        if not chosen["max_pool"] or chosen["max_frames"] % chosen["frame_skip"]:
            raise EnvError(
                f"atari:{game}: backend=envpool always pools frames and counts the limit in steps; max_pool must be "
                f"true and max_frames a multiple of frame_skip, not {chosen['max_pool']} and {chosen['max_frames']}."
            )
        self.num_envs = num_envs
        self.options = chosen
        task = "".join(word.capitalize() for word in game.split("_")) + "-v5"
        arguments = _arguments(num_envs, chosen)
        self._make = lambda seeds: start_in_background(lambda: envpool.make(task, seed=seeds, **arguments))
        self._emulators: Any = self._make([0] * num_envs)
        self.spec = spec_of(game, int(self._emulators.action_space.n), chosen)

    def reset(self, seeds: np.ndarray) -> TimeStep:
        """Starts N games. EnvPool takes seeds only when it is made, so it is made again."""
        seeds = np.asarray(seeds).astype(np.int64) & 0x7FFFFFFF
        self._emulators = self._make(seeds.tolist())
        obs, _ = self._emulators.reset()
        self._score = np.zeros(self.num_envs, np.float64)
        self._over = no = np.zeros(self.num_envs, bool)
        flags = {"first": ~no, "terminated": no, "truncated": no, "ended": no, "valid": ~no}
        return time_step(self.options, self._score, obs, obs, np.zeros(self.num_envs), **flags)

    def send(self, action: np.ndarray) -> None:
        order = np.arange(self.num_envs, dtype=np.int32)
        self._emulators.send(np.asarray(action, np.int32).reshape(self.num_envs), order)

    def recv(self) -> TimeStep:
        obs, reward, terminated, truncated, info = self._emulators.recv()
        order = np.argsort(info["env_id"])
        obs, reward, terminated, truncated = (x[order] for x in (obs, reward, terminated, truncated))
        terminated, truncated = terminated.astype(bool), truncated.astype(bool)
        fake, self._over = self._over, terminated | truncated  # an episode was over before this step, so it only reset
        ended = (info["terminated"][order] > 0) | truncated
        self._score += reward
        flags = {"terminated": terminated, "truncated": truncated & ~terminated, "ended": ended & ~fake}
        timestep = time_step(self.options, self._score, obs, obs, reward, first=fake, valid=~fake, **flags)
        self._score[ended] = 0.0
        return timestep

    def close(self) -> None:
        self._emulators = None


def _import_envpool() -> ModuleType:
    try:
        return importlib.import_module("envpool")
    except ModuleNotFoundError as error:
        raise EnvError("envpool is not installed: pip install envpool") from error


def _arguments(num_envs: int, chosen: Chosen) -> dict[str, object]:
    """The options in the words of EnvPool."""
    return {
        "env_type": "gymnasium",
        "num_envs": num_envs,
        "num_threads": min(num_envs, chosen["threads"] or usable_cores()),
        "max_episode_steps": chosen["max_frames"] // chosen["frame_skip"],
        "stack_num": chosen["frame_stack"],
        "frame_skip": chosen["frame_skip"],
        "img_height": chosen["screen_size"],
        "img_width": chosen["screen_size"],
        "noop_max": max(1, chosen["noop_max"]),  # it draws from 1 to noop_max
        "use_fire_reset": chosen["fire_reset"],
        "episodic_life": chosen["episodic_life"],
        "reward_clip": False,
        "repeat_action_probability": chosen["sticky_actions"],
        "full_action_space": chosen["full_action_space"],
    }
