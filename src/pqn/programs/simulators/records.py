"""The records that collecting from simulators exchanges.

As in a `TimeStep`, an array with the type `Array` may be a NumPy array: compiled functions take both.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from pqn.algorithms.base import Actor
from pqn.types import Array, EpisodeStats, Inputs, Note, PyTree, Seen, TimeStep


def from_host(array: np.ndarray) -> Array:
    """The same NumPy array, with the type that records have."""
    return cast(Array, array)


class Shifted(NamedTuple):
    """Stacks of frames, as those of the step before and a new frame each: only the new ones are sent to the device."""

    before: Array  # [S, n, M, frames, ...] on the device
    newest: np.ndarray  # [S, n, M, ...]

    @staticmethod
    def of(before: Array, obs: Array) -> Shifted:
        newest = np.asarray(obs)[:, :, :, -1]
        return Shifted(before, np.ascontiguousarray(newest))  # a copy, which no simulator overwrites

    def stacks(self) -> Array:
        """The stacks of one seed [n, M, frames, ...]: without the oldest frame, and with the new one."""
        return jnp.concatenate([self.before[:, :, 1:], self.newest[:, :, None]], axis=2)


class Kept(NamedTuple):
    """What the device keeps of an observation, to learn from it."""

    obs: Array  # [S, n, M, ...]
    avail: Array | None
    world: Array | None  # [S, n, W] global state


class Observed(NamedTuple):
    """What the simulators of one group gave last, with all else that its next action depends on."""

    obs: Array | Shifted  # [S, n, M, ...] the simulator's own until it has been acted on; then on the device
    avail: Array | None
    world: Array | None  # [S, n, W] global state
    first: Array  # [S, n, M]
    last_action: Array  # [S, n, M]
    last_reward: Array  # [S, n]
    carry: PyTree  # [S, n, M, ...] recurrent state before `obs` is read

    @staticmethod
    def of(timestep: TimeStep, action: Array, carry: PyTree) -> Observed:
        """What `action` led to. `carry` is the recurrent state after that action."""
        # The large arrays are acted on before the simulator overwrites them; the small ones are read later as well.
        first, reward = timestep.first.copy(), timestep.reward.copy()
        return Observed(timestep.obs, timestep.avail, timestep.world, first, action, reward, carry)

    def kept(self) -> Kept:
        """Of one seed: the part that stays on the device, with whole stacks of frames."""
        obs = self.obs.stacks() if isinstance(self.obs, Shifted) else self.obs
        return Kept(obs, self.avail, self.world)

    def seen(self, actor: Actor) -> Seen:
        """Of one seed: what the actor reads."""
        obs, avail, world = self.kept()
        inputs = actor.inputs(obs, self.first, self.last_action, self.last_reward)
        return Seen(inputs, avail, actor.world(obs, world))


class SimulatorStream(NamedTuple):
    """Where collection stands between two rollouts."""

    observed: tuple[Observed, ...]  # of each group
    episode: EpisodeStats  # [S, N]
    window: Inputs  # [S, W, N, M, ...] the last W (burn-in) steps
    window_carry: tuple[PyTree, ...]  # of each group, recurrent state before them; () when W is 0


class Acted(NamedTuple):
    """What acting on an observation gives."""

    carry: PyTree  # [S, n, M, ...]
    action: Array  # [S, n, M]
    note: Note  # [S, n]
    kept: Kept


class Outcomes(NamedTuple):
    """What statistics of episodes read of some steps."""

    reward: Array
    over: Array
    valid: Array | None
    info: dict[str, Array]

    def timestep(self) -> TimeStep:
        """A time step for the functions that count and score episodes, which read nothing else of it."""
        over = self.over
        return TimeStep(over, over, self.reward, over, over, ended=over, info=self.info, valid=self.valid)


class GroupSteps(NamedTuple):
    """T steps of one group. The lists hold arrays on the device, one for each step; the other arrays are the host's."""

    obs: list[Array]  # T of [S, n, M, ...]
    avail: list[Array | None]
    world: list[Array | None]
    note: list[Note]  # T + 1 of [S, n], the last one after the last step
    carries: list[PyTree]  # T/L of [S, n, M, ...]
    last_action: Array  # [S, n, M] that led to the first observation
    last_reward: Array  # [S, n] that came with it
    action: np.ndarray  # [S, T, n, M]
    first: np.ndarray  # [S, T, n, M]
    reward: np.ndarray  # [S, T, n]
    terminated: np.ndarray
    truncated: np.ndarray
    over: np.ndarray
    valid: np.ndarray | None
    info: dict[str, np.ndarray]

    def add_acting(self, t: int, observed: Observed, acted: Acted) -> None:
        """Stores what step t acted on."""
        obs, avail, world = acted.kept
        self.obs.append(obs)
        self.avail.append(avail)
        self.world.append(world)
        self.note.append(acted.note)
        self.first[:, t] = observed.first

    def add_outcome(self, t: int, timestep: TimeStep) -> None:
        """Stores the outcome of step t."""
        self.reward[:, t] = timestep.reward
        self.terminated[:, t] = timestep.terminated
        self.truncated[:, t] = timestep.truncated
        self.over[:, t] = timestep.over
        if self.valid is not None:
            self.valid[:, t] = timestep.valid
        for name, values in self.info.items():
            values[:, t] = timestep.info[name]

    def outcomes(self) -> Outcomes:
        """[S, T, n] of the whole group."""
        valid = None if self.valid is None else from_host(self.valid)
        info = {name: from_host(values) for name, values in self.info.items()}
        return Outcomes(from_host(self.reward), from_host(self.over), valid, info)


class TruncatedStep(NamedTuple):
    """A truncated step, and what its value is to be bootstrapped from."""

    seed: int
    step: int
    env: int  # among the N of its seed
    final: Observed  # the end of that episode: one environment, without the axes [S, n]


class GroupRollout(NamedTuple):
    """The rollout of one group, and where the group stands after it."""

    steps: GroupSteps
    observed: Observed
    window_carry: PyTree
    truncated: list[TruncatedStep]


class Collected(NamedTuple):
    """A rollout of all groups, before they are joined."""

    groups: tuple[GroupSteps, ...]
    final_value: Array | None  # [S, T, N] V(final_obs) where a step was truncated; None where nothing is bootstrapped
    stream: SimulatorStream  # after the last step; but `episode` and `window` are those before the first


class Draws(NamedTuple):
    """All random numbers of a rollout, for each group."""

    uniform: tuple[Array, ...]  # [S, T, n, M]
    epsilon: tuple[Array, ...]  # [S, n, 1]
