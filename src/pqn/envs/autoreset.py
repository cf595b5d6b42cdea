"""The wrapper that turns one environment into N, with same-step autoreset."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.arrays import strong, where
from pqn.device import LOOPS_UP_TO, in_few_kernels
from pqn.envs.contract import Outcome, SingleEnv
from pqn.errors import EnvError
from pqn.types import Array, PyTree, TimeStep


class AutoresetState(NamedTuple):
    key: Array  # one key for all N environments: one batched draw is cheaper than N draws
    inner: PyTree  # [N, ...]
    steps: Array  # [N] int32, steps taken in the open episode
    spare: PyTree = ()  # what `_restart` keeps from step to step


class Autoreset:
    """N copies of a `SingleEnv` under the `JaxEnv` contract.

    Args:
      env: the environment to copy.
      num_envs: N.

    Raises:
      EnvError: fewer than one environment, or a spec that promises a mask or a global state without the method.
    """

    def __init__(self, env: SingleEnv, num_envs: int):
        if num_envs < 1:
            raise EnvError(f"num_envs must be at least 1, not {num_envs}.")
        if env.spec.masked and not hasattr(env, "avail"):
            raise EnvError(f"{env.spec.name} has `spec.masked` but no method `avail(state)` that gives the mask.")
        if env.spec.world_size and not hasattr(env, "world_state"):
            raise EnvError(f"{env.spec.name} has `spec.world_size` but no method `world_state(state)`.")
        self.env = env
        self.spec = env.spec
        self.num_envs = num_envs
        self.loops_up_to = getattr(env, "loops_up_to", LOOPS_UP_TO)
        self._reset_all = jax.vmap(in_few_kernels(env.reset, self.loops_up_to))
        self._step_all = jax.vmap(in_few_kernels(env.step, self.loops_up_to))
        self._avail_all = _vmapped(env, "avail") if env.spec.masked else None
        self._world_all = _vmapped(env, "world_state") if env.spec.world_size else None

    def reset(self, key: Array) -> tuple[AutoresetState, TimeStep]:
        key, reset_key = jax.random.split(key)
        inner, obs = self._reset_all(jax.random.split(reset_key, self.num_envs))
        no = jnp.zeros(self.num_envs, bool)
        obs, avail, world = self._per_agent(obs), self._avail(inner), self._world(inner)
        step = TimeStep(
            obs=obs,
            first=jnp.ones((self.num_envs, self.spec.num_agents), bool),
            reward=jnp.zeros(self.num_envs, jnp.float32),
            terminated=no,
            truncated=no,
            final_obs=jnp.zeros_like(obs) if self.spec.truncates else None,
            avail=avail,
            final_avail=avail if self.spec.truncates else None,
            world=world,
            final_world=world if self.spec.truncates else None,
            info=self._blank_info(inner),
        )
        inner = strong(inner)
        return AutoresetState(key, inner, jnp.zeros(self.num_envs, jnp.int32), self._spare(inner, obs)), step

    def outcome(self, state: AutoresetState, action: Array) -> tuple[PyTree, Array]:
        """The states [N, ...] and observations [N, M, ...] that `step` leads to, before any environment is reset.

        A picture of the end of an episode needs them: after `step`, the next episode has begun.
        """
        _, _, out = self._advance(state, action)
        return out.state, self._per_agent(out.obs)

    def _advance(self, state: AutoresetState, action: Array) -> tuple[Array, Array, Outcome]:
        """The next key, the key of resets, and what the action leads to in each environment."""
        key, step_key, reset_key = jax.random.split(state.key, 3)
        action = action if self.spec.num_agents > 1 else action[:, 0]
        return key, reset_key, self._step_all(jax.random.split(step_key, self.num_envs), state.inner, action)

    def step(self, state: AutoresetState, action: Array) -> tuple[AutoresetState, TimeStep]:
        key, reset_key, out = self._advance(state, action)
        steps = state.steps + 1
        terminated, truncated = self._ended(out, steps)
        done = terminated | truncated

        final_obs = self._per_agent(out.obs)
        inner, obs, spare = self._restart(reset_key, done, out.state, final_obs, state.spare)
        timestep = TimeStep(
            obs=obs,
            first=jnp.broadcast_to(done[:, None], (self.num_envs, self.spec.num_agents)),
            reward=out.reward.astype(jnp.float32),
            terminated=terminated,
            truncated=truncated,
            final_obs=final_obs if self.spec.truncates else None,
            avail=self._avail(inner),
            final_avail=self._avail(out.state) if self.spec.truncates else None,
            world=self._world(inner),
            final_world=self._world(out.state) if self.spec.truncates else None,
            info={name: value.astype(jnp.float32) for name, value in out.info.items()},
        )
        return AutoresetState(key, strong(inner), jnp.where(done, 0, steps), spare), timestep

    def _spare(self, inner: PyTree, obs: Array) -> PyTree:
        """The `spare` of the first step; `inner` and `obs` are those of a reset."""
        return ()

    def _restart(
        self, key: Array, done: Array, inner: PyTree, obs: Array, spare: PyTree
    ) -> tuple[PyTree, Array, PyTree]:
        """Replaces the states and observations [N, ...] of the environments that are done by fresh ones."""
        fresh, fresh_obs = self._reset_all(jax.random.split(key, self.num_envs))
        return where(done, fresh, inner), where(done, self._per_agent(fresh_obs), obs), spare

    def _ended(self, out: Outcome, steps: Array) -> tuple[Array, Array]:
        """Terminated and truncated [N]; where both are claimed, the task has ended and the limit does not matter."""
        terminated = out.terminated.astype(bool)
        truncated = jnp.broadcast_to(out.truncated, terminated.shape).astype(bool)
        if self.spec.truncates and self.spec.max_episode_steps is not None:
            truncated = truncated | (steps >= self.spec.max_episode_steps)
        return terminated, truncated & ~terminated

    def _per_agent(self, obs: Array) -> Array:
        obs = obs.astype(self.spec.obs_dtype)
        return obs if self.spec.num_agents > 1 else obs[:, None]

    def _avail(self, inner: PyTree) -> Array | None:
        if self._avail_all is None:
            return None
        avail = self._avail_all(inner).astype(bool)
        return avail if self.spec.num_agents > 1 else avail[:, None]

    def _world(self, inner: PyTree) -> Array | None:
        return None if self._world_all is None else self._world_all(inner).astype(jnp.float32)

    def _blank_info(self, inner: PyTree) -> dict[str, Array]:
        """Zeros under the names that `step` reports, so that reset and step yield the same tree."""
        action = jnp.zeros((self.spec.num_agents,) if self.spec.num_agents > 1 else (), jnp.int32)
        one = jax.tree.map(lambda x: x[0], inner)
        names = jax.eval_shape(self.env.step, jax.random.key(0), one, action).info
        return {name: jnp.zeros(self.num_envs, jnp.float32) for name in names}


def _vmapped(env: SingleEnv, method: str) -> Callable[[PyTree], Array]:
    """An optional method of N environments."""
    return jax.vmap(getattr(env, method))
