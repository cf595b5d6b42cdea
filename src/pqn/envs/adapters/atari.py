"""Atari games on ale-py's vector environment, under the `HostEnv` contract.

ale-py (GPL-2.0) steps N emulators on C++ threads and preprocesses their frames. What it does at the end of an episode
breaks the contract in four places, which are handled here instead (docs/atari.md tells how each was found):

* *Lost lives.* Its `episodic_life` restarts the whole game at every lost life, so that no agent ever plays past the
  first one. Here a lost life ends an episode for the learner while the game goes on, and `ended` marks the end of the
  game.
* *Scores.* Rewards that ale-py clips are lost. Here they are taken raw and clipped afterwards; `info["return"]` is the
  score of the open game.
* *Time limit.* Its `final_obs` at a truncation repeats an older frame. Here the limit is counted outside of ale-py, and
  the true last observation is kept before the game is restarted.
* *Invalid actions.* They kill a worker thread, and `recv` waits for it for ever. Here they raise.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pqn.envs.adapters import atari_pictures
from pqn.envs.adapters.atari_records import spec_of, time_step
from pqn.envs.adapters.emulator_threads import start_in_background, usable_cores
from pqn.envs.contract import HostEnv
from pqn.envs.options import Chosen, Option, choose
from pqn.errors import EnvError
from pqn.types import TimeStep

PROTOCOLS: dict[str, dict[str, bool | int | float]] = {
    # The paper's, which is that of DQN, Rainbow and EnvPool: a random start, and nothing random afterwards.
    "paper": {"sticky_actions": 0.0, "episodic_life": True, "noop_max": 30, "fire_reset": True},
    # Dopamine's, after Machado et al. (2018): sticky actions, whole games, no help at the start.
    "dopamine": {"sticky_actions": 0.25, "episodic_life": False, "noop_max": 0, "fire_reset": False},
}
BACKENDS = ("ale", "envpool")
NO_LIMIT = 10**9  # frames; larger numbers overflow in ale-py


def options(protocol: str) -> dict[str, Option]:
    """The options of an Atari environment, with the defaults of a protocol."""
    own = PROTOCOLS[protocol]
    return {
        "protocol": Option(protocol, choices=tuple(PROTOCOLS)),
        "backend": Option(BACKENDS[0], choices=BACKENDS),
        "threads": Option(0, 0),  # 0: one for each core that this process may use
        "sticky_actions": Option(own["sticky_actions"], 0.0, most=1.0),  # probability of repeating the last action
        "episodic_life": Option(own["episodic_life"]),  # a lost life ends the episode, though not the game
        "noop_max": Option(own["noop_max"], 0),  # a game starts with a random number of frames, fewer than this
        "fire_reset": Option(own["fire_reset"]),  # press FIRE, where the game has it, when a game or a new life starts
        "clip_rewards": Option(True),  # to −1, 0, 1 for the learner; reported returns are scores
        "frame_skip": Option(4, 1),
        "frame_stack": Option(4, 1),
        "max_pool": Option(True),  # over the last two frames of a step, because sprites flicker
        "screen_size": Option(84, 1),
        "max_frames": Option(108_000, 1),  # half an hour of play
        "full_action_space": Option(False),  # all 18 actions instead of those of the game
    }


def make(name: str, num_envs: int, **given: object) -> HostEnv:
    """N copies of the Atari game `name`.

    Raises:
      EnvError: an unknown option, or a value that it cannot have.
    """
    protocol = given.get("protocol")
    defaults = options(protocol if isinstance(protocol, str) and protocol in PROTOCOLS else "paper")
    chosen = choose(f"atari:{name}", defaults, given)
    if chosen["backend"] == "envpool":
        from pqn.envs.adapters.atari_envpool import EnvPoolAtari

        return EnvPoolAtari(name, num_envs, chosen)
    return AtariEnv(name, num_envs, chosen)


class AtariEnv:
    """N copies of a game on ale-py.

    Observations are the last `frame_stack` frames, oldest first, [N, 1, 4, 84, 84] uint8, in ale-py's own memory: the
    network moves the frame axis on the device.

    Args:
      game: ale-py's name of it.
      num_envs: N.
      chosen: a value for each of `options`.
    """

    concurrent = True  # steps on threads of its own while the caller does something else
    stacks = True  # of frames. A new game starts a new stack, a lost life does not

    def __init__(self, game: str, num_envs: int, chosen: Chosen):
        from ale_py import Action, ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv

        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.num_envs = num_envs
        self.options = chosen
        arguments = _arguments(num_envs, chosen)
        # Making an emulator takes a tenth of a second: N are made when they are needed, one is made here for the spec.
        self._start = lambda: start_in_background(lambda: AtariVectorEnv(game, num_envs, **arguments))
        in_colour = arguments | atari_pictures.ARGUMENTS
        self._make_twin = lambda: atari_pictures.Twin(AtariVectorEnv(game, num_envs, **in_colour))
        self._twin: atari_pictures.Twin | None = None
        self._emulators: Any = None
        actions = list(AtariVectorEnv(game, 1, full_action_space=chosen["full_action_space"]).ale.get_action_set())
        # After a lost life only the player can serve the ball, and a greedy player may never do so. In such a state
        # every action is replaced by FIRE. EnvPool presses it there as well.
        presses = chosen["fire_reset"] and chosen["episodic_life"] and Action.FIRE in actions
        self._fire = actions.index(Action.FIRE) if presses else None
        self.spec = spec_of(game, len(actions), chosen)
        self._limit = self.spec.max_episode_steps or NO_LIMIT

    def reset(self, seeds: np.ndarray) -> TimeStep:
        """Starts N games from a fresh emulator each: the same seed and actions always give the same game."""
        seeds = np.asarray(seeds).astype(np.int64) & 0x7FFFFFFF  # ale-py's are 32-bit, and a negative one means none
        if seeds.shape != (self.num_envs,):
            raise EnvError(f"{self.spec.name} has {self.num_envs} environments; reset was given {seeds.shape} seeds.")
        self._emulators = self._emulators or self._start()
        obs, info = self._emulators.reset(seed=seeds)
        if self._twin is not None:
            self._twin.reset(seeds)
        self._began, self._frames = _first_frame(info), info["episode_frame_number"].copy()
        self._score = np.zeros(self.num_envs, np.int64)
        self._steps = np.zeros(self.num_envs, np.int64)
        self._served = np.ones(self.num_envs, bool)
        no = np.zeros(self.num_envs, bool)
        flags = {"first": ~no, "terminated": no, "truncated": no, "ended": no}
        return time_step(self.options, self._score, obs, obs, np.zeros(self.num_envs, np.int32), **flags)

    def send(self, action: np.ndarray) -> None:
        """Starts a step.

        Raises:
          EnvError: an action that the game does not have.
        """
        action = np.asarray(action, np.int32).reshape(self.num_envs)
        if action.min() < 0 or action.max() >= self.spec.num_actions:
            wrong = action.min() if action.min() < 0 else action.max()
            raise EnvError(f"{self.spec.name} has actions 0 to {self.spec.num_actions - 1}, not {wrong}.")
        if self._fire is not None:
            action = np.where(self._served, action, np.int32(self._fire))
        self._emulators.send(action)
        if self._twin is not None:
            self._twin.step(action)

    def recv(self) -> TimeStep:
        """Waits for the step, and restarts the games that have reached the time limit."""
        obs, reward, terminated, _, info = self._emulators.recv()
        final_obs = obs
        self._score += reward
        self._steps += 1
        began = _first_frame(info)
        over = began != self._began  # ale-py has started a new game
        up = (self._steps >= self._limit) & ~over
        if up.any():
            obs, info = self._emulators.reset(options={"reset_mask": up})
            if self._twin is not None:
                self._twin.restart(up)
            began = _first_frame(info)
        self._began, self._frames = began, info["episode_frame_number"].copy()
        ended = over | up
        flags = {"first": terminated | ended, "terminated": terminated, "truncated": up & ~terminated, "ended": ended}
        timestep = time_step(self.options, self._score, obs, final_obs, reward, **flags)
        self._served = ~terminated | ended  # ale-py's own reset serves in a new game
        self._score[ended] = 0
        self._steps[ended] = 0
        return timestep

    def prepare_render(self) -> None:
        """Starts a second set of emulators, which play the same games in colour."""
        self._twin = self._make_twin()

    def render(self) -> np.ndarray:
        """Pictures [N, 210, 160, 3] of the screens.

        Raises:
          EnvError: `prepare_render` was not called, or the coloured games are not those of the agent.
        """
        if self._twin is None:
            raise EnvError(f"{self.spec.name} draws only after prepare_render, called before the first reset.")
        if not np.array_equal(self._twin.frames, self._frames):
            raise EnvError(f"{self.spec.name}: the emulators that draw play another game; please report this.")
        return self._twin.screens

    def close(self) -> None:
        """Ends ale-py's threads, which end with its object."""
        self._emulators = self._twin = None


def _arguments(num_envs: int, chosen: Chosen) -> Chosen:
    """The options in the words of ale-py."""
    return {
        "num_threads": min(num_envs, chosen["threads"] or usable_cores()),
        "autoreset_mode": "SameStep",
        "life_loss_info": chosen["episodic_life"],
        "reward_clipping": False,
        "max_num_frames_per_episode": NO_LIMIT,
        "repeat_action_probability": chosen["sticky_actions"],
        "full_action_space": chosen["full_action_space"],
        "noop_max": chosen["noop_max"],
        "use_fire_reset": chosen["fire_reset"],
        "frameskip": chosen["frame_skip"],
        "maxpool": chosen["max_pool"],
        "stack_num": chosen["frame_stack"],
        "img_height": chosen["screen_size"],
        "img_width": chosen["screen_size"],
    }


def _first_frame(info: dict[str, np.ndarray]) -> np.ndarray:
    """The number of the emulator's frame at which each open game began: a new number means a new game."""
    return info["frame_number"] - info["episode_frame_number"]


def ensure_installed() -> None:
    """Raises ModuleNotFoundError when ale-py, or a package that it needs, is missing."""
    try:
        importlib.import_module("ale_py.vector_env")
    except ModuleNotFoundError as error:  # by the name that pip knows
        raise ModuleNotFoundError(str(error), name=str(error.name).replace("_", "-")) from error
