"""The environment contract: what the rest of the package expects of an environment.

Most environments are easiest to write one at a time: implement `SingleEnv`, and `pqn.envs.autoreset.Autoreset` does the
rest (vectorisation, time limit, reset within the same step, true final observations). An environment that is already
vectorised implements `JaxEnv`. One that does not run in JAX implements `HostEnv`. Run `pqn.envs.check_env` on the
result.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from pqn.types import Array, EnvSpec, PyTree, TimeStep


@runtime_checkable
class JaxEnv(Protocol):
    """N environments stepped by one pure function. The state owns its random key.

    Optional method, for `pqn video`:
      render(state) -> [N, height, width, 3] uint8: pictures. It is called outside of compiled code, with a
        state of numpy arrays.
    """

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
    """N environments that do not run in JAX: emulators in C++, simulators in Python.

    Time steps are those of `JaxEnv` with numpy arrays in them, under the same contract (same-step autoreset, true
    `final_obs` at a truncation). `send` hands the actions over and returns at once. `recv` waits for their outcome, so
    that the caller can do something else while the environments step. One `recv` follows each `send`. The arrays of a
    time step may be overwritten by the next one.

    Optional attributes:
      concurrent: True if the environment has threads or processes of its own, which step between `send` and `recv`.
        Without it the environment does its work in `recv`.
      stacks: True if observations are stacks of frames, the oldest first: a step drops the oldest frame and adds one,
        except where the step is `over`. Then only the newest frame has to travel to the accelerator.

    Optional methods, for an environment that can be put back exactly where it was; without them a resumed run starts
    new episodes:
      save() -> dict[str, np.ndarray]: arrays whose shapes never change.
      restore(saved) -> TimeStep: the time step at which `save` was called.

    Optional methods, for `pqn video`:
      render() -> [N, height, width, 3] uint8: pictures of the environments as they are now.
      prepare_render() -> None: called before the first reset where pictures will be asked for, for a simulator that
        must be started in another way to draw them.
    """

    spec: EnvSpec
    num_envs: int

    def reset(self, seeds: np.ndarray) -> TimeStep:
        """Starts N episodes, environment i from `seeds[i]`: its place among the others must not matter."""
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


_NO_INFO: dict[str, Array] = {}


class Outcome(NamedTuple):
    """The result of one step of a `SingleEnv`; the observation is the true successor, never that of a reset."""

    state: PyTree
    obs: Array  # [*obs_shape], or [M, *obs_shape] with several agents
    reward: Array
    terminated: Array
    truncated: Array | bool = False  # by a rule of the environment; `spec.max_episode_steps` is applied in addition.
    # Where `max_episode_steps` is given nothing may truncate earlier, since the collector relies on it: otherwise leave
    # `max_episode_steps` None
    info: dict[str, Array] = _NO_INFO  # name -> scalar, reported at the last step of an episode


class SingleEnv(Protocol):
    """One environment, without batches and without resets.

    Optional methods and attributes:
      avail(state) -> [A] or [M, A] bool: the legal actions; required by `spec.masked`.
      world_state(state) -> [W]: the global state; required by `spec.world_size`.
      render(state) -> [height, width, 3] uint8, or a text: a picture for `pqn video`. It is called outside of compiled
        code, with a state of numpy arrays.
      loops_up_to: unroll a loop only if the result has at most this many operations. Loops are unrolled for
        accelerators; an environment that would then compile for minutes sets a small number.
    """

    spec: EnvSpec

    def reset(self, key: Array) -> tuple[PyTree, Array]:
        """Returns a fresh state and its observation."""
        ...

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        """Takes one action: a scalar, or [M] with several agents."""
        ...
