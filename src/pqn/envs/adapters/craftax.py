"""Craftax and Craftax-Classic under the project's contract, with optimistic resets.

craftax's own autoreset generates a new world for every environment at every step and uses few of them. Here its raw
environment (`step_env`, `reset_env`) is used, and a small pool of worlds is generated every few steps, from which new
episodes start: `PooledReset`.

Everything works offline. The symbolic environments need no files. The pixel environments scale their textures when the
first one is made, which takes a minute or two. craftax keeps the result *inside its own package directory*, which must
be writable that first time. Later processes read the file in a few seconds.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping
from types import ModuleType

import jax.numpy as jnp
import numpy as np

from pqn.envs.adapters.craftax_floors import HEALTH_REWARD, Played, TwoFloors
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.options import Option, choose
from pqn.envs.pooled import RESETS, PooledReset
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree

_START_HEALTH = 9  # in both games; a test compares the return computed from it with the sum of rewards


class CraftaxEnv:
    """One Craftax game as a `SingleEnv`.

    Death (also by lava) and, in the full game, the defeat of the boss terminate. The time limit `max_timesteps`, which
    no observation shows, truncates. craftax's `done` does not distinguish the two. The limit is craftax's own unless
    given, 100 000 steps for Craftax and 10 000 for Classic, so that a name means the same here as elsewhere.

    Observations are float32, as craftax makes them. A smaller dtype would lose information. Of the symbolic ones all
    but the last 51 (Classic: 22) numbers are 0 or 1, but these last ones are tenths and square roots. Pixels are not
    multiples of 1/255, because night and its noise are blended in.

    `Outcome.info` holds, to be read at the last step of an episode:
      percent_max: 100 × return / the sum of all achievement rewards (226, Classic 22), as papers report it. Changes of
        health are rewarded too, so a death without any achievement is slightly below 0.
      achievement/<name>: 1 if the achievement was unlocked in the episode, else 0; the mean is its success rate.
      score: (Classic) craftax's score of this one episode. The score of the Crafter paper is the same formula applied
        to the mean success rates, which is larger; compute it from those to compare with that paper.

    Args:
      name: "Craftax-Symbolic-v1", "Craftax-Classic-Symbolic-v1", or the same with Pixels.
      options: numbers of craftax's `EnvParams`, such as max_timesteps, day_length or mob_despawn_distance; and those of
        `make`, which are only checked here.

    Raises:
      EnvError: an option that does not exist or a value of the wrong kind; a pixel environment whose textures are not
        prepared yet and cannot be kept.
    """

    # So that a step has no loop left. Those that generate worlds are longer. Unrolled, they would compile for a quarter
    # longer, and worlds are generated only now and then.
    loops_up_to = 4000

    def __init__(self, name: str, **options: object):
        classic = "Classic" in name
        constants = importlib.import_module(f"craftax.{'craftax_classic' if classic else 'craftax'}.constants")
        if "Pixels" in name:
            _check_textures(name, constants.TEXTURE_CACHE_FILE)
        with contextlib.redirect_stdout(sys.stderr):  # craftax prints about its textures; stdout is for results
            self.env = _craftax().make_craftax_env_from_name(name, auto_reset=False)
        numbers = _numbers(vars(self.env.default_params))
        self.options = choose(name, numbers | RESETS, options)
        self.params = self.env.default_params.replace(**{key: self.options[key] for key in numbers})
        self._game = _Whole(self.env, self.params) if classic else TwoFloors(self.env, self.params)
        # With a limit that is never reached, craftax's own `is_terminal` tells what ends the game by itself.
        self._limitless = self.params.replace(max_timesteps=np.iinfo(np.int32).max)
        by_number = sorted(constants.Achievement, key=lambda one: one.value)  # craftax lists some out of order
        self.achievements = [achievement.name.lower() for achievement in by_number]
        self.rewards = np.ones(len(self.achievements)) if classic else np.asarray(constants.ACHIEVEMENT_REWARD_MAP)
        self.max_return = float(self.rewards.sum())
        self.spec = EnvSpec(
            name=name,
            obs_shape=tuple(self.env.observation_space(self.params).shape),
            obs_dtype=np.dtype(np.float32),
            num_actions=self.env.num_actions,
            max_episode_steps=self.params.max_timesteps,
            truncates=True,
        )

    def reset(self, key: Array) -> tuple[PyTree, Array]:
        obs, state = self._game.reset(key)
        return state, obs

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        obs, state, reward, done, info = self._game.step(key, state, action)
        terminated = self.env.is_terminal(state, self._limitless)
        return Outcome(state, obs, reward, terminated, done & ~terminated, self._info(state, info))

    def episode_return(self, state: PyTree) -> Array:
        """The sum of rewards since the start of the episode, which the state remembers.

        A step pays for new achievements and for the change of health, and a sum of changes is the last minus the first.
        """
        return state.achievements @ jnp.asarray(self.rewards, jnp.float32) + HEALTH_REWARD * (
            state.player_health - _START_HEALTH
        )

    def _info(self, state: PyTree, info: dict[str, Array]) -> dict[str, Array]:
        report = {"percent_max": 100 / self.max_return * self.episode_return(state)}
        if "score" in info:
            report["score"] = info["score"]
        return report | {f"achievement/{name}": state.achievements[i] for i, name in enumerate(self.achievements)}


class _Whole:
    """`reset_env` and `step_env` as craftax has them: Classic has one floor."""

    def __init__(self, env: PyTree, params: PyTree):
        self._env, self._params = env, params

    def reset(self, key: Array) -> tuple[Array, PyTree]:
        return self._env.reset_env(key, self._params)

    def step(self, key: Array, state: PyTree, action: Array) -> Played:
        return Played(*self._env.step_env(key, state, action, self._params))


def make(name: str, num_envs: int, **options: object) -> Autoreset:
    """N copies of the Craftax environment `name`.

    Args:
      name: see `CraftaxEnv`.
      num_envs: N.
      options: numbers of craftax's `EnvParams`, and two more. `reset_ratio`: 1 generates a world for every environment
        at every step, and episodes never share one. A larger ratio generates one world per so many steps of single
        environments; if more episodes end, several start in the same world (see `PooledReset`). `reset_every`:
        vector steps after which the next pool of worlds is generated.

    Raises:
      EnvError: what `CraftaxEnv` raises.
    """
    env = CraftaxEnv(name, **options)
    ratio, every = env.options["reset_ratio"], env.options["reset_every"]
    return Autoreset(env, num_envs) if ratio == 1 else PooledReset(env, num_envs, ratio, every)


def ensure_installed() -> None:
    """Raises ModuleNotFoundError when craftax is missing."""
    _craftax()


def _craftax() -> ModuleType:
    return importlib.import_module("craftax.craftax_env")


def _check_textures(name: str, cache: str) -> None:
    """Fails before craftax spends minutes on textures that it then cannot write."""
    folder = os.path.dirname(cache)
    prepared = os.path.exists(cache) and not os.environ.get("CRAFTAX_RELOAD_TEXTURES")
    if not prepared and not os.access(folder, os.W_OK):
        raise EnvError(
            f"{name} must write its texture cache once, but {folder} is not writable: make one pixel environment as a "
            "user who may write there, or install craftax where you may; the symbolic environments need no cache."
        )


def _numbers(params: Mapping[str, object]) -> dict[str, Option]:
    """The options in the fields of `EnvParams`: its numbers and flags."""
    found = {key: Option(value) for key, value in params.items() if isinstance(value, int | float)}
    return found | {"max_timesteps": found["max_timesteps"]._replace(least=1)}
