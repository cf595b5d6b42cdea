"""From the steps of all groups to the rollout that an algorithm learns from, for one seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from pqn.algorithms.base import Actor, Hyper
from pqn.programs import rollout
from pqn.programs.episodes import Finished, count_episodes
from pqn.programs.simulators.groups import Group, Layout
from pqn.programs.simulators.records import Collected, GroupSteps, Outcomes
from pqn.types import EpisodeStats, Inputs, Rollout

Tree = TypeVar("Tree")


class AfterRollout(NamedTuple):
    """What follows from a rollout."""

    episode: EpisodeStats  # [N] the open episodes after it
    window: Inputs  # [W, N, M, ...] its last W (burn-in) steps
    finished: Finished  # sums over the episodes that ended in it


def join_groups(actor: Actor, layout: Layout, collected: Collected, hyper: Hyper) -> tuple[Rollout, AfterRollout]:
    """The rollout of the training environments, and what follows from it."""
    stream, groups = collected.stream, collected.groups
    records = join_train([_records(actor, layout, steps) for steps in groups], layout.groups, axis=1)
    carries = join_train([_stacked(steps.carries) for steps in groups], layout.groups, axis=1)
    last_value = join_train([steps.note[-1].value for steps in groups], layout.groups, axis=0)
    data = rollout.assemble(records, carries, stream.window, last_value, collected.final_value, hyper)
    if actor.config.keeps_last_seen:
        seen = [observed.seen(actor) for observed in stream.observed]
        data = data._replace(last_seen=join_train(seen, layout.groups, axis=0))
    outcomes = join_train([steps.outcomes() for steps in groups], layout.groups, axis=1)
    episode, finished = _count(stream.episode, outcomes)
    window = rollout.last_steps(records, layout.burn_in)
    return data, AfterRollout(episode, window, finished.over_environments())


def join_train(parts: Sequence[Tree], groups: Sequence[Group], axis: int) -> Tree:
    """The training environments of all groups; they come first along `axis` in the part of each group."""

    def train(part: Tree, group: Group) -> Tree:
        return jax.tree.map(lambda x: jax.lax.slice_in_dim(x, 0, group.num_train, axis=axis), part)

    trains = [train(part, group) for part, group in zip(parts, groups, strict=True)]
    return jax.tree.map(lambda *x: jnp.concatenate(x, axis=axis), *trains)


def _stacked(trees: Sequence[Tree]) -> Tree:
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def _records(actor: Actor, layout: Layout, steps: GroupSteps) -> rollout.StepRecord:
    """The steps of a group as the compiled program records them, [T, n, ...]."""
    last_action = jnp.concatenate([steps.last_action[None], steps.action[:-1]])
    last_reward = jnp.concatenate([steps.last_reward[None], steps.reward[:-1]])
    obs = _stacked(steps.obs)
    return rollout.StepRecord(
        inputs=jax.vmap(actor.inputs)(obs, jnp.asarray(steps.first), last_action, last_reward),
        avail=_stacked(steps.avail),
        world=jax.vmap(actor.world)(obs, _stacked(steps.world)),
        action=jnp.asarray(steps.action),
        reward=jnp.asarray(steps.reward),
        done=jnp.asarray(steps.terminated | steps.truncated),
        bootstrap=jnp.asarray(steps.truncated) if layout.bootstraps else None,
        slot=None,
        note=_stacked(steps.note[:-1]),
        valid=None if steps.valid is None else jnp.asarray(steps.valid),
    )


def _count(episode: EpisodeStats, outcomes: Outcomes) -> tuple[EpisodeStats, Finished]:
    """The open episodes after the outcomes [T, N], and sums for each environment over those that ended."""

    def step(c: tuple[EpisodeStats, Finished], outcome: Outcomes) -> tuple[tuple[EpisodeStats, Finished], None]:
        return count_episodes(*c, outcome.timestep()), None

    zero = jnp.zeros(outcomes.reward.shape[1:])
    none = Finished(zero, zero, zero, dict.fromkeys(outcomes.info, zero))
    return jax.lax.scan(step, (episode, none), outcomes)[0]
