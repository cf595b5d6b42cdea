"""Collecting a rollout: T steps of N environments under the current ε-greedy policy, inside one compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.algorithms.base import Actor, Algorithm, Hyper, LearnerState
from pqn.arrays import expand
from pqn.config import Config
from pqn.envs.contract import JaxEnv
from pqn.programs.episodes import Finished, count_episodes
from pqn.programs.health import Fault, first, not_finite
from pqn.types import (
    Array,
    Draw,
    EnvSpec,
    EpisodeStats,
    Inputs,
    Note,
    Policy,
    PyTree,
    Rollout,
    Seen,
    TimeStep,
)


class Stream(NamedTuple):
    """Where collection stands between two steps: the environments and what the agents see of them."""

    env: PyTree
    inputs: Inputs  # [N, M, ...]
    avail: Array | None
    world: Array | None  # [N, W] global state, where a mixer reads it
    carry: PyTree  # [N, M, ...] recurrent state
    episode: EpisodeStats
    window: Inputs  # [W, N, M, ...] the last W (burn-in) steps
    window_carry: PyTree  # recurrent state before them; () when W is 0, where it would be `carry` itself

    @property
    def seen(self) -> Seen:
        return Seen(self.inputs, self.avail, self.world)


class TruncatedEnds(NamedTuple):
    """The ends of truncated episodes, which wait for their values: K slots for each environment, in order of time."""

    used: Array  # [N] slots filled so far
    carry: PyTree  # [K, N, M, ...]
    seen: Seen  # [K, N, M, ...] the true final observation


class Collecting(NamedTuple):
    """What changes from step to step."""

    stream: Stream
    finished: Finished
    ends: TruncatedEnds | None  # None: values of truncated episodes are not asked for


class StepRecord(NamedTuple):
    """What one step leaves behind, stacked over time by the scan."""

    inputs: Inputs
    avail: Array | None
    world: Array | None
    action: Array
    reward: Array  # raw
    done: Array  # terminated or truncated
    bootstrap: Array | None  # [N] truncated and to be bootstrapped
    slot: Array | None  # [N] which slot of `TruncatedEnds` holds the final observation
    note: Note
    valid: Array | None = None  # [N] see `TimeStep.valid`
    unannounced: Array | None = None  # [N] truncated although the spec says that this never happens


def start(env: JaxEnv, actor: Actor, key: Array) -> Stream:
    """Resets the environments."""
    state, timestep = env.reset(key)
    shape = (env.num_envs, env.spec.num_agents)
    episode = EpisodeStats(jnp.zeros(env.num_envs), jnp.zeros(env.num_envs))
    seen = observe(actor, timestep, jnp.zeros(shape, jnp.int32))
    carry = actor.initial_carry(*shape)
    burn_in = actor.config.learner.burn_in
    return Stream(state, *seen, carry, episode, first_window(seen.inputs, burn_in), carry if burn_in else ())


def first_window(inputs: Inputs, burn_in: int) -> Inputs:
    """The window [W, N, M, ...] before the first rollout, from the first inputs [N, M, ...].

    Nothing came before: the window repeats the first observation, and `first` clears the memory at each of them.
    """
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (burn_in, *x.shape)), inputs)


def observe(actor: Actor, timestep: TimeStep, action: Array) -> Seen:
    """What the agents see of a time step that `action` led to."""
    inputs = actor.inputs(timestep.obs, timestep.first, action, timestep.reward)
    return Seen(inputs, timestep.avail, actor.world(timestep.obs, timestep.world))


def exploration_draws(config: Config, key: Array, num_envs: int, num_agents: int) -> Array:
    """Every exploration draw of a rollout at once, [T/L, L, N, M]."""
    steps, length = config.learner.rollout_steps, config.segment_length
    return jax.random.uniform(key, (steps // length, length, num_envs, num_agents))


def collect(
    env: JaxEnv, algorithm: Algorithm, state: LearnerState, stream: Stream, key: Array, hyper: Hyper
) -> tuple[Stream, Rollout, Finished]:
    """Steps the environments T times. Parameters are constant within a rollout."""
    config, actor, policy = algorithm.config, algorithm.actor, algorithm.policy(state)
    steps, length, burn_in = config.learner.rollout_steps, config.segment_length, config.learner.burn_in
    epsilon = algorithm.epsilon(state, hyper)
    uniform = exploration_draws(config, key, env.num_envs, env.spec.num_agents)

    def step(c: Collecting, uniform: Array) -> tuple[Collecting, StepRecord]:
        stream, finished, ends = c
        carry, action, note = actor.act(policy, stream.carry, stream.seen, Draw(uniform, epsilon))
        env_state, timestep = env.step(stream.env, action)
        ends, bootstrap, slot = _keep_ends(actor, ends, timestep, action, carry)
        record = StepRecord(
            *stream.seen,
            action=action,
            reward=timestep.reward,
            done=timestep.terminated | timestep.truncated,
            bootstrap=bootstrap,
            slot=slot,
            note=note,
            valid=timestep.valid,
            unannounced=None if env.spec.truncates else timestep.truncated,
        )
        episode, finished = count_episodes(stream.episode, finished, timestep)
        seen = observe(actor, timestep, action)
        stream = stream._replace(env=env_state, **seen._asdict(), carry=carry, episode=episode)
        return Collecting(stream, finished, ends), record

    def window(c: Collecting, uniform: Array) -> tuple[Collecting, StepRecord]:  # memory may be warmed up from here on
        return jax.lax.scan(step, c._replace(stream=c.stream._replace(window_carry=c.stream.carry)), uniform)

    def segment(c: Collecting, uniform: Array) -> tuple[Collecting, tuple[PyTree, StepRecord]]:
        before = c.stream.window_carry if burn_in else c.stream.carry
        if not burn_in:
            c, records = jax.lax.scan(step, c, uniform, unroll=length == 1)
        elif length % burn_in == 0:  # then one loop does: its body, an environment, is compiled once
            c, records = jax.lax.scan(window, c, uniform.reshape(-1, burn_in, *uniform.shape[1:]))
            records = jax.tree.map(lambda x: x.reshape(length, *x.shape[2:]), records)
        else:
            c, earlier = jax.lax.scan(step, c, uniform[: length - burn_in])
            c, last = window(c, uniform[length - burn_in :])
            records = jax.tree.map(lambda *x: jnp.concatenate(x), earlier, last)
        return c, (before, records)

    c = Collecting(stream, none_finished(env, stream), _no_ends(env, actor, stream))
    (stream, finished, ends), (carries, records) = jax.lax.scan(segment, c, uniform)
    records = jax.tree.map(lambda x: x.reshape(steps, *x.shape[2:]), records)
    last_value, final_value = _bootstrap_values(actor, policy, stream, ends, records)
    rollout = assemble(records, carries, stream.window, last_value, final_value, hyper)
    rollout = rollout._replace(last_seen=stream.seen if config.keeps_last_seen else None)
    finished = finished.over_environments()._replace(fault=diagnose(env.spec, records, stream, ends))
    return stream._replace(window=last_steps(records, burn_in)), rollout, finished


def diagnose(spec: EnvSpec, records: StepRecord, stream: Stream, ends: TruncatedEnds | None) -> Array:
    """The promise that the environments broke in a rollout, as a `health.Fault`; `stream` is that after it."""
    final = (None, None) if ends is None else (ends.seen.inputs.obs, ends.seen.world)
    seen = (records.inputs.obs, records.world, stream.inputs.obs, stream.world, *final)
    faults = [(Fault.REWARD, not_finite(records.reward)), (Fault.OBSERVATION, not_finite(*seen))]
    if ends is not None:  # a truncation without a slot has been given another one's value
        faults.append((Fault.TRUNCATED_EARLY, jnp.any(ends.used > _slots(ends))))
    if records.unannounced is not None:
        faults.append((Fault.TRUNCATED_UNANNOUNCED, jnp.any(records.unannounced)))
    return first(faults)


def last_steps(records: StepRecord, burn_in: int) -> Inputs:
    """What the next rollout's first segment is warmed up with [W, N, M, ...]."""
    return jax.tree.map(lambda x: x[len(x) - burn_in :], records.inputs)


def assemble(
    records: StepRecord, carries: PyTree, window: Inputs, last_value: Array, final_value: Array | None, hyper: Hyper
) -> Rollout:
    """Folds γ·V(final_obs) into the reward of truncated steps, so that the learner sees rewards and discounts only.

    `final_value` [T, N] matters where `records.bootstrap`. A step that is no transition has a discount of 0 as well;
    the loss leaves it out.
    """
    value = records.note.value
    reward = expand(hyper.reward_scale * records.reward, value)
    if final_value is not None and records.bootstrap is not None:
        reward = reward + jnp.where(expand(records.bootstrap, value), hyper.gamma * final_value, 0.0)
    ends = records.done if records.valid is None else records.done | ~records.valid
    discount = expand(jnp.where(ends, 0.0, hyper.gamma), value)  # with an agent axis where values have one
    return Rollout(
        inputs=records.inputs,
        avail=records.avail,
        world=records.world,
        action=records.action,
        reward=reward,
        discount=discount,
        value=value,
        last_value=last_value,
        carry=carries,
        window=window,
        valid=records.valid,
        extra=records.note.extra,
        truncated=records.bootstrap,
    )


def slots_needed(spec: EnvSpec, steps: int) -> int:
    """K: how often one environment can be truncated within `steps` steps.

    Each truncation but the first needs a whole episode of `max_episode_steps` before it; without that promise every
    step might be one. A usual time limit is longer than a rollout, so K = 1: one extra batch of N forward passes.
    """
    if spec.max_episode_steps is None:
        return steps
    return 1 + (steps - 1) // spec.max_episode_steps


def _no_ends(env: JaxEnv, actor: Actor, stream: Stream) -> TruncatedEnds | None:
    config = actor.config.learner
    if not (env.spec.truncates and config.bootstrap_truncation):
        return None
    slots = slots_needed(env.spec, config.rollout_steps)
    blank = jax.tree.map(lambda x: jnp.zeros((slots, *x.shape), x.dtype), (stream.carry, stream.seen))
    return TruncatedEnds(jnp.zeros(env.num_envs, jnp.int32), *blank)


def _slots(ends: TruncatedEnds) -> int:
    return ends.seen.inputs.obs.shape[0]


def _keep_ends(
    actor: Actor, ends: TruncatedEnds | None, timestep: TimeStep, action: Array, carry: PyTree
) -> tuple[TruncatedEnds | None, Array | None, Array | None]:
    """Keeps the final observation, and the memory with which to read it, of every episode truncated at this step."""
    if ends is None:
        return None, None, None
    truncated = timestep.truncated
    final = timestep._replace(
        obs=timestep.final_obs,
        first=jnp.zeros_like(timestep.first),
        avail=timestep.final_avail,
        world=timestep.final_world,
    )
    here = (jnp.arange(_slots(ends))[:, None] == ends.used) & truncated  # [K, N]

    def keep(old: Array, new: Array) -> Array:
        return jnp.where(here.reshape(here.shape + (1,) * (new.ndim - 1)), new, old)

    kept = jax.tree.map(keep, (ends.carry, ends.seen), (carry, observe(actor, final, action)))
    return TruncatedEnds(ends.used + truncated, *kept), truncated, ends.used


def _bootstrap_values(
    actor: Actor, policy: Policy, stream: Stream, ends: TruncatedEnds | None, records: StepRecord
) -> tuple[Array, Array | None]:
    """V(s_T) [N] and V(final_obs) at the truncated steps [T, N], in one forward pass."""
    if ends is None or records.slot is None:
        return actor.value(policy, stream.carry, stream.seen), None

    def both(last: Array, ends: Array) -> Array:  # [N, ...], [K, N, ...] -> [(1 + K)·N, ...]
        return jnp.concatenate([last[None], ends]).reshape(-1, *last.shape[1:])

    carry, seen = jax.tree.map(both, (stream.carry, stream.seen), (ends.carry, ends.seen))
    values = actor.value(policy, carry, seen)
    values = values.reshape(-1, len(stream.inputs.obs), *values.shape[1:])  # [1 + K, N]
    slot = expand(records.slot, values)
    return values[0], jnp.take_along_axis(values[1:], slot, axis=0, mode="clip")  # [K, N], [T, N] -> [T, N]


def none_finished(env: JaxEnv, stream: Stream) -> Finished:
    names = jax.eval_shape(env.step, stream.env, jax.ShapeDtypeStruct(stream.inputs.first.shape, jnp.int32))[1].info
    zero = jnp.zeros(env.num_envs)
    return Finished(zero, zero, zero, dict.fromkeys(names, zero))
