"""The environment contract, and the wrapper that turns one environment into N with autoreset.

Most environments are easiest to write one at a time: implement `SingleEnv` and let `Autoreset` do the rest
(vectorisation, time limit, reset in the same step, true final observations). An environment that is already
vectorised implements `JaxEnv` itself. Either way, run `pqn.envs.check_env` on the result.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from pqn.arrays import expand, strong
from pqn.device import LOOPS_UP_TO, write_out_loops
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree, TimeStep

T = TypeVar("T")


@runtime_checkable
class JaxEnv(Protocol):
    """N environments stepped by one pure function. The state owns its random key."""

    spec: EnvSpec
    num_envs: int

    def reset(self, key: Array) -> tuple[PyTree, TimeStep]:
        """Starts N episodes."""
        ...

    def step(self, state: PyTree, action: Array) -> tuple[PyTree, TimeStep]:
        """Takes `action` [N, M] int32 and resets, within the same step, the environments whose episode ended."""
        ...


@runtime_checkable
class HostEnv(Protocol):
    """N environments that live outside of JAX: emulators in C++, simulators in Python.

    Time steps are those of `JaxEnv` with numpy arrays in them, under the same contract (same-step autoreset, true
    `final_obs` at a truncation). `send` only hands the actions over and `recv` waits for their outcome, so that the
    caller can do something else while the environments step; one `recv` follows each `send`. The arrays of a time
    step may be overwritten by the next one.

    An environment with threads or processes of its own, which step between `send` and `recv`, sets an attribute
    `concurrent = True`; one without does its work in `recv`. One whose observations are stacks of frames, the oldest
    first, sets `stacks = True`: a step drops the oldest frame and adds one, except where it is `over`. Then only the
    newest frame has to travel to the accelerator.
    """

    spec: EnvSpec
    num_envs: int

    def reset(self, seeds: np.ndarray) -> TimeStep:
        """Starts N episodes, environment i from `seeds[i]`: which others share the pool must not matter."""
        ...

    def send(self, action: np.ndarray) -> None:
        """Starts a step with `action` [N, M] int32."""
        ...

    def recv(self) -> TimeStep:
        """Waits for the step that `send` started."""
        ...

    def close(self) -> None:
        """Frees threads and processes."""
        ...

    # An environment that can be put back exactly where it was also has `save() -> dict[str, np.ndarray]`, arrays whose
    # shapes never change, and `restore(saved) -> TimeStep`; without them a resumed run starts new episodes.


def start_in_background(make: Callable[[], T]) -> T:
    """Calls `make`, whose threads or processes will leave the processor to the rest of this program when it wants it.

    Emulators on as many threads as there are cores would otherwise delay those few that feed them and the accelerator,
    by up to the milliseconds for which Linux lets a thread run. It interrupts threads of its `SCHED_IDLE` class at
    once, though. A thread may always enter that class, and those that it starts follow; so it is one of its own that
    starts them. On other systems this is a plain call.
    """
    if not sys.platform.startswith("linux"):
        return make()

    def in_background() -> T:
        with contextlib.suppress(OSError):  # a sandbox may forbid even this
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return make()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(in_background).result()


class Outcome(NamedTuple):
    """What one step of a `SingleEnv` yields; the observation is the true successor, never a reset one."""

    state: PyTree
    obs: Array  # [*obs_shape], or [M, *obs_shape] with several agents
    reward: Array
    terminated: Array
    truncated: Array | bool = False  # by a rule of its own; `spec.max_episode_steps` is applied on top, and where
    # that is given nothing may truncate earlier: the collector counts on it (leave it None otherwise)
    info: dict[str, Array] = {}  # noqa: RUF012  name -> scalar, reported at the last step of an episode


class SingleEnv(Protocol):
    """One environment, written without thinking about batches or resets."""

    spec: EnvSpec

    def reset(self, key: Array) -> tuple[PyTree, Array]:
        """Returns a fresh state and its observation."""
        ...

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        """Takes one action: a scalar, or [M] with several agents."""
        ...

    # An environment with `spec.masked` also has `avail(state) -> [A] or [M, A] bool`, one with `spec.world_size`
    # also `world_state(state) -> [W]`. One that would compile for minutes with all its loops written out, which is done
    # for accelerators, says how many operations a loop may become: `loops_up_to`.


class AutoresetState(NamedTuple):
    key: Array  # one key for all N environments: a single batched draw is cheaper than N streams
    inner: PyTree  # [N, ...]
    steps: Array  # [N] int32, steps taken in the open episode
    spare: PyTree = ()  # what the rule for new episodes keeps from step to step


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
        reset, step = (write_out_loops(function, self.loops_up_to) for function in (env.reset, env.step))
        self._reset_all, self._step_all = jax.vmap(reset), jax.vmap(step)

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

    def step(self, state: AutoresetState, action: Array) -> tuple[AutoresetState, TimeStep]:
        key, step_key, reset_key = jax.random.split(state.key, 3)
        action = action if self.spec.num_agents > 1 else action[:, 0]
        out = self._step_all(jax.random.split(step_key, self.num_envs), state.inner, action)
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
        """What `_restart` is given at the first step; `inner` and `obs` are those of a reset."""
        return ()

    def _restart(
        self, key: Array, done: Array, inner: PyTree, obs: Array, spare: PyTree
    ) -> tuple[PyTree, Array, PyTree]:
        """Replaces the states and observations [N, ...] of the environments that are done by fresh ones."""
        fresh, fresh_obs = self._reset_all(jax.random.split(key, self.num_envs))
        choose = lambda new, old: jnp.where(expand(done, old), new, old)  # noqa: E731
        return jax.tree.map(choose, fresh, inner), choose(self._per_agent(fresh_obs), obs), spare

    def _ended(self, out: Outcome, steps: Array) -> tuple[Array, Array]:
        """Terminated and truncated [N]; where both are claimed, the task has ended and the limit is moot."""
        terminated = out.terminated.astype(bool)
        truncated = jnp.broadcast_to(out.truncated, terminated.shape).astype(bool)
        if self.spec.truncates and self.spec.max_episode_steps is not None:
            truncated = truncated | (steps >= self.spec.max_episode_steps)
        return terminated, truncated & ~terminated

    def _per_agent(self, obs: Array) -> Array:
        obs = obs.astype(self.spec.obs_dtype)
        return obs if self.spec.num_agents > 1 else obs[:, None]

    def _avail(self, inner: PyTree) -> Array | None:
        if not self.spec.masked:
            return None
        avail = jax.vmap(self.env.avail)(inner).astype(bool)  # type: ignore[attr-defined]
        return avail if self.spec.num_agents > 1 else avail[:, None]

    def _world(self, inner: PyTree) -> Array | None:
        if not self.spec.world_size:
            return None
        return jax.vmap(self.env.world_state)(inner).astype(jnp.float32)  # type: ignore[attr-defined]

    def _blank_info(self, inner: PyTree) -> dict[str, Array]:
        """Zeros under the names that `step` reports, so that reset and step yield the same tree."""
        action = jnp.zeros((self.spec.num_agents,) if self.spec.num_agents > 1 else (), jnp.int32)
        one = jax.tree.map(lambda x: x[0], inner)
        names = jax.eval_shape(self.env.step, jax.random.key(0), one, action).info
        return {name: jnp.zeros(self.num_envs, jnp.float32) for name in names}
