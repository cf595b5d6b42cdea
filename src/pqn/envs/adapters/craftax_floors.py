"""The full game of Craftax, of whose nine floors a step reads and writes two.

craftax keeps four maps of all nine floors. A step changes only the floor the player is on, and plants on the ground
floor. But an update of one square copied whole maps on a GPU, ten times per step: 2.7 GB per step of 1024 environments,
where the state has 0.28. So craftax's own step is given the ground floor and the player's floor alone. Its rules remain
craftax's; a test compares them with the package step for step.

Between steps the maps of blocks and of items are uint8: both have far fewer than 256 kinds.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.traces import first_index_bounded, rewritten
from pqn.types import Array, PyTree

_MAPS = ("map", "item_map", "mob_map", "light_map")  # [9, height, width] each
_KINDS = ("map", "item_map")  # those of numbers of kinds
HEALTH_REWARD = 0.1  # per point of health gained or lost, in Classic too


class Played(NamedTuple):
    """What craftax's `step_env` returns."""

    obs: Array
    state: PyTree
    reward: Array
    done: Array
    info: dict[str, Array]


class TwoFloors:
    """`reset_env` and `step_env` of a full Craftax environment.

    Args:
      env: craftax's environment, without its autoreset.
      params: its `EnvParams`.
    """

    def __init__(self, env: PyTree, params: PyTree):
        logic = importlib.import_module("craftax.craftax.game_logic")
        constants = importlib.import_module("craftax.craftax.constants")
        self._env, self._params = env, params
        self._change_floor = logic.change_floor
        self._rewards = constants.ACHIEVEMENT_REWARD_MAP
        self._noop = constants.Action.NOOP.value
        self._stairs = jnp.array([constants.Action.DESCEND.value, constants.Action.ASCEND.value])
        # The player's floor is the second of two, unless it is the ground floor, which is the first.
        second = first_index_bounded((2, *env.static_env_params.map_size))
        self._step = rewritten(lambda key, state, action: env.step_env(key, state, action, params), second)

    def reset(self, key: Array) -> tuple[Array, PyTree]:
        obs, state = self._env.reset_env(key, self._params)
        return obs, stored(state)

    def step(self, key: Array, state: PyTree, action: Array) -> Played:
        """One step from a state as `reset` and `step` return it."""
        action = jnp.where(jnp.logical_or(state.is_sleeping, state.is_resting), self._noop, action)
        # A step of craftax begins so, and then changes the floor. That happens here, and not once more in its own step.
        moved = self._change_floor(state, action, self._params, self._env.static_env_params)
        action = jnp.where(jnp.any(action == self._stairs), self._noop, action)
        floor = jnp.maximum(moved.player_level, 1)
        two = moved.replace(**{name: _two_of(name, getattr(moved, name), floor) for name in _MAPS})
        obs, after, _, done, info = self._step(key, two, action)
        maps = {name: _put_back(getattr(state, name), getattr(after, name), floor) for name in _MAPS}
        return Played(obs, after.replace(**maps), self._reward(state, after), done, info)

    def _reward(self, before: PyTree, after: PyTree) -> Array:
        """craftax's reward of the whole step. What its own step returned leaves out the change of floor."""
        unlocked = after.achievements.astype(int) - before.achievements.astype(int)
        return (unlocked * self._rewards).sum() + HEALTH_REWARD * (after.player_health - before.player_health)


def stored(state: PyTree) -> PyTree:
    """A state of craftax as it is kept between steps."""
    return state.replace(**{name: getattr(state, name).astype(jnp.uint8) for name in _KINDS})


def _two_of(name: str, floors: Array, floor: Array) -> Array:
    """The ground floor and another one, in the dtype that craftax computes with."""
    two = jnp.stack([floors[0], jax.lax.dynamic_index_in_dim(floors, floor, keepdims=False)])
    return two.astype(jnp.int32) if name in _KINDS else two


def _put_back(floors: Array, two: Array, floor: Array) -> Array:
    two = two.astype(floors.dtype)
    return jax.lax.dynamic_update_index_in_dim(floors.at[0].set(two[0]), two[1], floor, 0)
