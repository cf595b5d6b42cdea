"""Craftax and Craftax-Classic under the project's contract, with optimistic resets.

craftax's own autoreset generates a new world for every environment at every step and throws nearly all of them away.
We take its raw environment (`step_env`, `reset_env`) and generate a small pool of worlds now and then, from which the
environments whose episode ended draw: `PooledReset`.

Everything works offline. The symbolic environments need no files at all. The pixel environments cut their textures to
size when the first one is made, which takes a minute or two, and craftax keeps the result *inside its own package
directory*: that first time, the directory must be writable. Later processes read the file in a few seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.base import Autoreset, Outcome, SingleEnv, _strong, expand
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree

# By bench/craftax.py, see results/README.md.
DEFAULT_RESET_RATIO, DEFAULT_RESET_EVERY = 64, 16

_START_HEALTH = 9  # of both games; a test compares what follows from it with the sum of rewards
_HEALTH_REWARD = 0.1  # per point of health gained or lost, in both games


class Pool(NamedTuple):
    """Fresh states, waiting for episodes to end."""

    states: PyTree  # [P, ...]
    obs: Array  # [P, M, ...]
    used: Array  # int32, episodes started since the pool was filled
    age: Array  # int32, steps since then; a pool of age 0 is filled first


class PooledReset(Autoreset):
    """N copies of a `SingleEnv` whose episodes start from a pool of P = ⌈N · every / ratio⌉ fresh states.

    Autoreset calls `env.reset` N times per step, because a compiled program cannot know how many episodes will end.
    Where a reset costs more than a step (Craftax generates a world), it pays to be optimistic: episodes are long, so
    few end at once. Every `every` steps a new pool is filled, and the j-th episode that ends from then on is followed
    by one that starts from state j mod P. As long as no more end than the pool holds, each gets a state of its own,
    fresh and independent: exactly what Autoreset does. Beyond that several start from the *same* state, and live
    different lives only by their actions and the randomness of their steps. The usual occasion is a time limit that
    all environments reach at once because they were started together.

    A GPU takes as long to generate one world as to generate hundreds, so it is the number of times that counts there,
    on a CPU the number of worlds. And the longer a pool lasts, the closer the number of episodes that end comes to its
    mean, so that a smaller share of it suffices.

    `reset`, which starts all N, always draws N states.

    Args:
      env: the environment to copy.
      num_envs: N.
      ratio: steps of single environments per state generated; with 1 none is ever shared.
      every: vector steps that a pool lasts.

    Raises:
      EnvError: what Autoreset raises, or a ratio or number of steps that is not a positive integer.
    """

    def __init__(self, env: SingleEnv, num_envs: int, ratio: int, every: int = 1):
        super().__init__(env, num_envs, keeps_loops=True)
        self.ratio = _positive(env.spec.name, "reset_ratio", ratio)
        self.every = _positive(env.spec.name, "reset_every", every)
        self.pool_size = math.ceil(num_envs * self.every / self.ratio)
        self._refill = _lockstep(self._fill)

    def _spare(self, inner: PyTree, obs: Array) -> Pool:
        # Never used, since a pool of age 0 is filled first: any states will do for their shapes.
        some = lambda x: x[jnp.arange(self.pool_size) % self.num_envs]  # noqa: E731
        return Pool(jax.tree.map(some, inner), some(obs), jnp.int32(0), jnp.int32(0))

    def _fill(self, key: Array) -> tuple[PyTree, Array]:
        states, obs = self._reset_all(jax.random.split(key, self.pool_size))
        return _strong(states), self._per_agent(obs)

    def _restart(self, key: Array, done: Array, inner: PyTree, obs: Array, spare: Pool) -> tuple[PyTree, Array, Pool]:
        """Replaces the states and observations [N, ...] of the environments that are done by those of the pool."""
        states, pool_obs = self._refill(spare.age == 0, key, (spare.states, spare.obs))
        used = jnp.where(spare.age == 0, 0, spare.used)
        # Where an episode goes on nothing is taken, but a GPU loads it all the same: cheaply if always the same.
        place = jnp.where(done, (used + jnp.cumsum(done) - 1) % self.pool_size, 0)
        take = lambda new, old: jnp.where(expand(done, old), new[place], old)  # noqa: E731
        pool = Pool(states, pool_obs, used + jnp.sum(done), (spare.age + 1) % self.every)
        return jax.tree.map(take, states, inner), take(pool_obs, obs), pool


def _lockstep(fill: Callable[[Array], PyTree]) -> Callable[[Array, Array, PyTree], PyTree]:
    """`fill(key)` if `due`, else what there is already, as a function of (due, key, present).

    Under `vmap` a condition usually turns into computing both sides, at every step. Seeds that are trained together
    come due together, so that here it stays a condition; one that comes due alone is right too, only slower.
    """

    @jax.custom_batching.custom_vmap
    def refill(due: Array, key: Array, present: PyTree) -> PyTree:
        return jax.lax.cond(due, lambda: fill(key), lambda: present)

    @refill.def_vmap
    def refill_all(size: int, batched: Any, *args: Any) -> tuple[PyTree, PyTree]:
        def widen(x: Array, is_batched: bool) -> Array:
            return x if is_batched else jnp.broadcast_to(x, (size, *x.shape))

        due, key, present = jax.tree.map(widen, args, tuple(batched))

        def fresh() -> PyTree:
            return jax.tree.map(lambda new, old: jnp.where(expand(due, old), new, old), jax.vmap(fill)(key), present)

        out = jax.lax.cond(jnp.any(due), fresh, lambda: present)
        return out, jax.tree.map(lambda _: True, out)

    return refill


class CraftaxEnv:
    """One Craftax game as a `SingleEnv`.

    The game ends by death (lava kills; Classic tests for it by name) and, in the full game, by defeating the boss:
    these terminate. craftax's `done` mixes them with the time limit `max_timesteps`, which no observation shows: that
    truncates. The limit is craftax's own unless given, 100 000 steps for Craftax and 10 000 for Classic, so that a
    name means here what it means elsewhere.

    Observations are float32, as craftax makes them. Nothing smaller would be lossless: of the symbolic ones all but
    the last 51 (Classic: 22) numbers are 0 or 1, but those are tenths and square roots, and pixels are not whole
    numbers of 255ths once night and its noise are blended in.

    `Outcome.info` holds, to be read at the last step of an episode:
      percent_max: 100 × return / the sum of all achievement rewards (226, Classic 22), as papers report it. Changes of
        health are rewarded too, so a death without any achievement is slightly below 0.
      achievement/<name>: 1 if the achievement was unlocked in the episode, else 0; the mean is its success rate.
      score: (Classic) craftax's score of this one episode. The score of the Crafter paper is the same formula applied
        to the mean success rates, which is larger; compute it from those to compare with that paper.

    Args:
      name: "Craftax-Symbolic-v1", "Craftax-Classic-Symbolic-v1", or the same with Pixels.
      params: numbers of craftax's `EnvParams`, such as max_timesteps, day_length or mob_despawn_distance.

    Raises:
      EnvError: an option that does not exist or a value of the wrong kind; a pixel environment whose textures are not
        prepared yet and cannot be kept.
    """

    def __init__(self, name: str, **params: Any):
        classic = "Classic" in name
        constants = importlib.import_module(f"craftax.{'craftax_classic' if classic else 'craftax'}.constants")
        if "Pixels" in name:
            _check_textures(name, constants.TEXTURE_CACHE_FILE)
        with contextlib.redirect_stdout(sys.stderr):  # craftax reports there on its textures; stdout is for results
            self.env = _craftax().make_craftax_env_from_name(name, auto_reset=False)
        self.params = _replace(name, self.env.default_params, params)
        # With a limit that is never reached, craftax's own `is_terminal` tells what ends the game by itself.
        self._limitless = self.params.replace(max_timesteps=np.iinfo(np.int32).max)
        self.achievements = [achievement.name.lower() for achievement in constants.Achievement]  # numbered from 0
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
        obs, state = self.env.reset_env(key, self.params)
        return state, obs

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        obs, state, reward, done, info = self.env.step_env(key, state, action, self.params)
        terminated = self.env.is_terminal(state, self._limitless)
        return Outcome(state, obs, reward, terminated, done & ~terminated, self._info(state, info))

    def episode_return(self, state: PyTree) -> Array:
        """The sum of rewards since the start of the episode, which the state remembers.

        A step pays for new achievements and for the change of health, and a sum of changes is the last minus the first.
        """
        return state.achievements @ jnp.asarray(self.rewards, jnp.float32) + _HEALTH_REWARD * (
            state.player_health - _START_HEALTH
        )

    def _info(self, state: PyTree, info: dict[str, Array]) -> dict[str, Array]:
        report = {"percent_max": 100 / self.max_return * self.episode_return(state)}
        if "score" in info:
            report["score"] = info["score"]
        return report | {f"achievement/{name}": state.achievements[i] for i, name in enumerate(self.achievements)}


def make(
    name: str,
    num_envs: int,
    *,
    reset_ratio: int = DEFAULT_RESET_RATIO,
    reset_every: int = DEFAULT_RESET_EVERY,
    **kwargs: Any,
) -> Autoreset:
    """N copies of the Craftax environment `name`; kwargs are numbers of craftax's `EnvParams`.

    Args:
      name: see `CraftaxEnv`.
      num_envs: N.
      reset_ratio: 1 generates a world for every environment at every step, and episodes never share one. A larger
        ratio generates one per so many steps of single environments; if more episodes end, several continue in the
        same world (see `PooledReset`).
      reset_every: vector steps after which the next pool of worlds is generated.

    Raises:
      EnvError: what `CraftaxEnv` and `PooledReset` raise.
    """
    ratio = _positive(name, "reset_ratio", reset_ratio)
    env = CraftaxEnv(name, **kwargs)
    # With its loops written out Craftax was still compiling for a GPU after four minutes, instead of one.
    return Autoreset(env, num_envs, keeps_loops=True) if ratio == 1 else PooledReset(env, num_envs, ratio, reset_every)


def ensure_installed() -> None:
    """Raises ModuleNotFoundError when craftax is missing."""
    _craftax()


def _craftax() -> Any:
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


def _replace(name: str, defaults: Any, changes: dict[str, Any]) -> Any:
    """`EnvParams` with some numbers changed, each checked against the kind of its default."""
    fields = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(defaults)}
    numbers = {key: value for key, value in fields.items() if isinstance(value, int | float)}  # bool is an int
    for key, value in changes.items():
        if key not in numbers:
            valid = ", ".join(sorted({*numbers, "reset_ratio", "reset_every"}))
            raise EnvError(f"{name} has no option {key!r}; its options are {valid}.")
        changes = changes | {key: _like(name, key, value, numbers[key])}
    if "max_timesteps" in changes:
        _positive(name, "max_timesteps", changes["max_timesteps"])
    return defaults.replace(**changes)


def _like(name: str, key: str, value: Any, default: Any) -> Any:
    """`value` as the type of `default`."""
    if isinstance(default, bool):
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise EnvError(f"{name}: {key} must be true or false, not {value!r}.")
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if number and (isinstance(default, float) or float(value).is_integer()):
        return type(default)(value)
    kind = "an integer" if isinstance(default, int) else "a number"
    raise EnvError(f"{name}: {key} must be {kind}, not {value!r}.")


def _positive(name: str, option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise EnvError(f"{name}: {option} must be an integer of at least 1, not {value!r}.")
    return value
