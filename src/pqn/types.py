"""The few records that every part of the code exchanges.

Axis letters mean one thing everywhere: S seeds, T time, N environments, M agents, A actions, L segment length,
B segments in a minibatch. Single-agent tasks have M = 1: the agent axis is always there.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

Array = jax.Array
PyTree = Any


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What the learner must know about an environment before it compiles anything."""

    name: str
    obs_shape: tuple[int, ...]
    """Shape of one agent's observation, without the [N, M] in front."""
    obs_dtype: np.dtype
    """The dtype observations are *stored* in; bool and uint8 stay so until they enter the network."""
    num_actions: int
    num_agents: int = 1
    max_episode_steps: int | None = None
    """No episode is longer than this; None without that promise. In JAX, where `truncates`, none is truncated before it
    either, and `Autoreset` keeps the promise for a `SingleEnv`. Without `truncates`, episodes must end by themselves.
    """
    truncates: bool = False
    """Whether `truncated` can ever be true. False saves the bookkeeping of `final_obs`."""
    world_size: int = 0
    """Length of the global state `TimeStep.world`; 0 where there is none beyond what the agents see."""
    masked: bool = False
    """Whether `avail` carries a mask of legal actions; otherwise `avail` is None and every action is legal."""


class TimeStep(NamedTuple):
    """The outcome of one step of N environments, under *same-step autoreset*.

    Where an episode ends, `reward`, `terminated` and `truncated` belong to the episode that ended while `obs` is
    already the first observation of the next one, so that no transition is ever fake. The true successor, from
    which a truncated episode must bootstrap, is `final_obs`.
    """

    obs: Array  # [N, M, *obs_shape] what the agents act on next
    first: Array  # [N, M] bool: `obs` starts an episode, so memory must be cleared before it is read
    reward: Array  # [N] float32, team reward of the step just taken (0 after a reset)
    terminated: Array  # [N] bool: the task ended the episode; the successor is worth 0
    truncated: Array  # [N] bool: a limit cut the episode short; never true together with `terminated`
    final_obs: Array | None = None  # [N, M, *obs_shape]; meaningful where `truncated`; None if spec.truncates is False
    avail: Array | None = None  # [N, M, A] bool, legal actions for `obs`; None if spec.masked is False. An agent that
    # has none (dead, or not at turn) contributes nothing to the joint value
    final_avail: Array | None = None  # [N, M, A] legal actions for `final_obs`; None unless both exist
    world: Array | None = None  # [N, W] float32, global state at `obs`, for mixers; None if spec.world_size is 0
    final_world: Array | None = None  # [N, W] global state at `final_obs`; None unless both exist
    ended: Array | None = None  # [N] bool: a whole game ended with this step, for statistics and evaluation only;
    # None: wherever an episode did. They differ where a lost life ends an episode for the learner but not the game
    info: dict[str, Array] = {}  # noqa: RUF012  name -> [N] float32, averaged over episodes at their last step;
    # the name "return" replaces the learner's own sum of rewards (for shaped or clipped rewards)
    valid: Array | None = None  # [N] bool: false where a simulator that can only reset in its *next* step did so,
    # ignoring the action: that step is no transition. Its `obs` starts the episode, and the step before it ended with
    # the true final observation in `obs`. None: every step is a transition, as the contract wants it

    @property
    def over(self) -> Array:
        """[N] bool: the games, which is to say the episodes that statistics speak of, that ended with this step."""
        return self.terminated | self.truncated if self.ended is None else self.ended


class Inputs(NamedTuple):
    """What a Q-network reads at one time step; leaves are [T, B, M, ...]."""

    obs: Array
    first: Array
    last_action: Array | None = None  # int32, action taken before `obs`; ignored where `first`
    last_reward: Array | None = None  # float32, reward received with `obs`; ignored where `first`


class Seen(NamedTuple):
    """What the agents know when they act."""

    inputs: Inputs  # [N, M, ...]
    avail: Array | None = None  # [N, M, A]
    world: Array | None = None  # [N, W] global state, where a mixer reads it


class Draw(NamedTuple):
    """The randomness of one step of acting. It is drawn outside, so that a whole rollout needs one call."""

    uniform: Array  # [N, M] from [0, 1)
    epsilon: Array | float  # how much to explore; 0 is greedy


class Note(NamedTuple):
    """What an algorithm notes when it acts, because learning will need it."""

    value: Array  # [N] V(s_t), joint over agents; [N, M] where agents learn independently
    extra: PyTree = ()  # whatever else one algorithm wants


class Policy(NamedTuple):
    """The arrays that acting needs: no optimiser, no counters."""

    params: PyTree
    stats: PyTree  # running statistics of batch norms; {} without any


class Rollout(NamedTuple):
    """T steps of N environments under the current policy: all the data that PQN keeps."""

    inputs: Inputs  # [T, N, M, ...]
    avail: Array | None  # [T, N, M, A]
    world: Array | None  # [T, N, W] global state, where the mixer reads it
    action: Array  # [T, N, M] int32
    reward: Array  # [T, N] scaled, with γ·V(final_obs) folded in where the step was truncated
    discount: Array  # [T, N] γ, or 0 where the episode ended with this step
    value: Array  # [T, N] max_a Q(s_t, a), joint over agents; [T, N, M] where they learn independently, and then
    # reward and discount have an agent axis too
    last_value: Array  # [N] V(s_T)
    carry: PyTree  # [T/L, N, ...] recurrent state W steps before each segment; () for feed-forward networks
    window: Inputs  # [W, N, M, ...] the W (burn-in) steps before the rollout
    valid: Array | None = None  # [T, N] bool, see `TimeStep.valid`
    extra: PyTree = ()  # [T, N, ...] see `Note.extra`
    truncated: Array | None = None  # [T, N] bool, where γ·V(final_obs) is part of the reward; None: nowhere
    last_seen: Seen | None = None  # [N, M, ...] after the last step; None: gradient steps do not value successors


class EpisodeStats(NamedTuple):
    """Running return of the open episodes, so that only finished episodes are ever averaged."""

    ret: Array  # [N]
    length: Array  # [N]
