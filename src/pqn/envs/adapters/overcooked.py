"""Overcooked (version 1 of JaxMARL): two cooks make onion soup, with a shaped reward at the start of training."""

from __future__ import annotations

from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np
import optax

from pqn.envs.adapters.jaxmarl import TeamGame, agent_axis, build, ensure_installed, load
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.options import Option, choose
from pqn.types import Array, EnvSpec, PyTree

__all__ = ["OPTIONS", "OvercookedAutoreset", "OvercookedEnv", "ensure_installed", "make"]

OPTIONS = {
    # The public configuration lets shaping fall over 2.5e6 steps of all environments together: with N of them,
    # shaping_steps = 2.5e6 / N.
    "shaping_steps": Option(0, least=0),
    "max_steps": Option(400, least=1),
    "random_reset": Option(False),
}
_CHANNELS = 26  # of jaxmarl's observation; a test compares


class OvercookedState(NamedTuple):
    kitchen: PyTree  # jaxmarl's state
    ret: Array  # float32, rewards of the open episode without shaping
    clock: Array  # int32, steps of this environment since the run began; a reset keeps it


class OvercookedEnv(TeamGame):
    """One kitchen as a `SingleEnv`.

    The team earns 20 for every soup delivered. A delivery takes a long chain of right actions. So jaxmarl also offers a
    shaped reward for its parts (an onion into a pot, a useful plate, a soup taken up). It is summed over both cooks and
    added with a weight that falls linearly from 1 to 0 over `shaping_steps` steps; with `shaping_steps` = 0 it is never
    added. The reported return never contains it.

    The weight depends on how long the *run* has lasted. This clock is the only part of the state that a reset must
    keep: use `make`, which wraps the environment in `OvercookedAutoreset`. Under a plain `Autoreset` every episode
    would start with full shaping again. The clock is part of the state, so that a resumed run goes on with it.

    The time limit truncates: after it, cooking could go on. The observation only shows that fewer than 40 steps are
    left. Published results count the limit as an end: `bootstrap_truncation=False`.

    `Outcome.info` holds, to be read at the last step of an episode:
      return: the sum of rewards without shaping.
      deliveries: soups delivered.

    Args:
      name: one of jaxmarl's five layouts, such as "cramped_room".
      options: see `OPTIONS`.

    Raises:
      EnvError: an option that does not exist or a value out of range.
    """

    def __init__(self, name: str, **options: object):
        overcooked = load("jaxmarl.environments.overcooked.overcooked")
        chosen = choose(f"overcooked:{name}", OPTIONS, options)
        self.shaping_steps = chosen.pop("shaping_steps")
        self.delivery_reward = overcooked.DELIVERY_REWARD
        self.env = build(f"overcooked:{name}", overcooked.Overcooked, layout=overcooked.layouts[name], **chosen)
        self.spec = EnvSpec(
            name=f"overcooked:{name}",
            obs_shape=(self.env.height, self.env.width, _CHANNELS),  # jaxmarl's own `obs_shape` is transposed
            obs_dtype=np.dtype(np.uint8),
            num_actions=self.env.num_actions,
            num_agents=self.env.num_agents,
            max_episode_steps=chosen["max_steps"],
            truncates=True,
        )

    def reset(self, key: Array) -> tuple[OvercookedState, Array]:
        kitchen, obs = super().reset(key)
        return OvercookedState(kitchen, jnp.float32(0), jnp.int32(0)), obs

    def step(self, key: Array, state: OvercookedState, action: Array) -> Outcome:
        agents = self.env.agents
        kitchen, obs, rewards, info = self.play(key, state.kitchen, action)
        earned = rewards[agents[0]]  # jaxmarl hands the team's reward to both
        ret = state.ret + earned
        reward = earned + self.shaping_weight(state.clock) * jnp.sum(agent_axis(agents, info["shaped_reward"]))
        clock = cast(Array, optax.safe_increment(state.clock))  # stays at the largest number instead of overflowing
        return Outcome(
            OvercookedState(kitchen, ret, clock),
            obs,
            reward,
            terminated=jnp.bool_(False),
            info={"return": ret, "deliveries": ret / self.delivery_reward},
        )

    def shaping_weight(self, clock: Array) -> Array:
        """Weight of the shaped reward: 1 at the first step, 0 from step `shaping_steps` on."""
        if self.shaping_steps == 0:
            return jnp.float32(0)
        return jnp.maximum(0.0, 1.0 - clock / self.shaping_steps)


class OvercookedAutoreset(Autoreset):
    """`Autoreset` that keeps the clock of the shaping when an environment restarts."""

    def _restart(
        self, key: Array, done: Array, inner: PyTree, obs: Array, spare: PyTree
    ) -> tuple[PyTree, Array, PyTree]:
        restarted, obs, spare = super()._restart(key, done, inner, obs, spare)
        return restarted._replace(clock=inner.clock), obs, spare


def make(name: str, num_envs: int, **options: object) -> OvercookedAutoreset:
    """N kitchens of the layout `name` with same-step autoreset; `shaping_steps` counts steps of one kitchen."""
    return OvercookedAutoreset(OvercookedEnv(name, **options), num_envs)
