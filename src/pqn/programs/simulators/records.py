"""What collecting from simulators passes around: what a group sees, the steps it has taken, and where it stands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pqn import types
from pqn.algorithms.base import Actor
from pqn.types import Array, EpisodeStats, Inputs, Note, PyTree, TimeStep


class Shifted(NamedTuple):
    """Stacks of frames that follow from those of the step before: the oldest frame is gone, and there is a new one."""

    before: Any  # [S, n, M, frames, ...] on the device
    newest: np.ndarray  # [S, n, M, ...]

    @staticmethod
    def of(before: Any, obs: np.ndarray) -> Shifted:
        return Shifted(before, np.ascontiguousarray(obs[:, :, :, -1]))  # a copy, which no simulator will overwrite


class Seen(NamedTuple):
    """What the agents of one group see: all that their next action depends on."""

    obs: Any  # [S, n, M, ...] the simulator's own, or `Shifted`, until it has been acted on; then on the device
    avail: Any
    world: Any  # [S, n, W] global state
    first: Any  # [S, n, M]
    last_action: Any  # [S, n, M]
    last_reward: Any  # [S, n]
    carry: PyTree  # [S, n, M, ...] recurrent state before `obs` is read

    @staticmethod
    def of(timestep: TimeStep, action: Any, carry: PyTree) -> Seen:
        """What `action` led to; the carry is that after it."""
        # The large ones are acted on before the simulator can overwrite them; the small ones may be looked at later.
        first, reward = timestep.first.copy(), timestep.reward.copy()
        return Seen(timestep.obs, timestep.avail, timestep.world, first, action, reward, carry)

    def read(self, actor: Actor) -> types.Seen:
        """What the actor reads of it."""
        inputs = actor.inputs(self.obs, self.first, self.last_action, self.last_reward)
        return types.Seen(inputs, self.avail, actor.world(self.obs, self.world))


class Stream(NamedTuple):
    """Where collection stands between two rollouts."""

    seen: tuple[Seen, ...]  # of each group
    episode: EpisodeStats  # [S, N]
    window: Inputs  # [S, W, N, M, ...] the last W (burn-in) steps
    window_carry: tuple[PyTree, ...]  # of each group, recurrent state before them; () when W is 0


class Track(NamedTuple):
    """T steps of one group. The lists are of arrays on the device, the rest is collected on the host."""

    obs: list[Any]  # T of [S, n, M, ...]
    avail: list[Any]
    world: list[Any]
    note: list[Note]  # T + 1 of [S, n], the last one after the last step
    carries: list[PyTree]  # T/L of [S, n, M, ...]
    before: tuple[Any, Any]  # action and reward that led to the first observation
    action: np.ndarray  # [S, T, n, M]
    first: np.ndarray  # [S, T, n, M]
    reward: np.ndarray  # [S, T, n]
    terminated: np.ndarray
    truncated: np.ndarray
    over: np.ndarray
    valid: np.ndarray | None
    info: dict[str, np.ndarray]

    def keep(self, t: int, seen: Seen, note: Note, kept: tuple[Any, Any, Any]) -> None:
        """What was acted on; `kept` is the part of it that stays on the device."""
        self.obs.append(kept[0])
        self.avail.append(kept[1])
        self.world.append(kept[2])
        self.note.append(note)
        self.first[:, t] = seen.first

    def put(self, t: int, timestep: TimeStep) -> None:
        """What came of it."""
        self.reward[:, t] = timestep.reward
        self.terminated[:, t] = timestep.terminated
        self.truncated[:, t] = timestep.truncated
        self.over[:, t] = timestep.over
        if self.valid is not None:
            self.valid[:, t] = timestep.valid
        for name, values in self.info.items():
            values[:, t] = timestep.info[name]


class Collected(NamedTuple):
    """A rollout as it lies when the last step has been received."""

    tracks: tuple[Track, ...]
    final_value: Any  # [S, T, N] V(final_obs) where a step was truncated; None if that is never asked for
    stream: Stream  # after the last step, but for `episode` and `window`, which `pack` brings up to date


class Draws(NamedTuple):
    """All chance of a rollout, for each group."""

    uniform: tuple[Array, ...]  # [S, T, n, M]
    epsilon: tuple[Array, ...]  # [S, n, 1]


class Cutting(NamedTuple):
    """A truncated step: where it was, and what its value is to be bootstrapped from."""

    seed: int
    step: int
    env: int  # among the N of its seed
    seen: Seen  # of that one environment


class Part(NamedTuple):
    """What one group adds to a rollout, and where it stands then."""

    track: Track
    seen: Seen
    window_carry: PyTree
    cuts: list[Cutting]
