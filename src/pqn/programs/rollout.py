"""Collecting a rollout: T steps of N environments under the current ε-greedy policy, inside one compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.algorithms.pqn import Hyper, Learner, LearnerState
from pqn.arrays import expand
from pqn.envs.contract import JaxEnv
from pqn.exploration import epsilon_greedy
from pqn.programs.health import Fault, first, not_finite
from pqn.types import Array, EnvSpec, EpisodeStats, Inputs, PyTree, Rollout, TimeStep


class Stream(NamedTuple):
    """Where collection stands between two steps: the environments and what the agents see of them."""

    env: PyTree
    inputs: Inputs  # [N, M, ...]
    avail: Array | None
    world: Array | None  # [N, W] global state, where the mixer reads it
    carry: PyTree  # [N, M, ...] recurrent state
    episode: EpisodeStats
    window: Inputs  # [W, N, M, ...] the last W (burn-in) steps
    window_carry: PyTree  # recurrent state before them; () when W is 0, where it would be `carry` itself


class Finished(NamedTuple):
    """Sums over the episodes that ended in a rollout; a mean over them is never biased by open episodes."""

    episodes: Array
    ret: Array
    length: Array
    info: dict[str, Array]
    fault: Array | None = None  # int32 `health.Fault` of the environments; None: not looked at (here)


class Cut(NamedTuple):
    """Truncated episodes waiting for their bootstrap value: K slots for each environment, filled in order of time."""

    used: Array  # [N] slots filled so far
    carry: PyTree  # [K, N, M, ...]
    inputs: Inputs  # [K, N, M, ...] the true final observation
    avail: Array | None  # [K, N, M, A]
    world: Array | None  # [K, N, W]


class StepRecord(NamedTuple):
    """What one step leaves behind, stacked over time by the scan."""

    inputs: Inputs
    avail: Array | None
    world: Array | None
    action: Array
    reward: Array  # raw
    done: Array  # terminated or truncated
    bootstrap: Array | None  # [N] truncated and to be bootstrapped
    slot: Array | None  # [N] which slot of `Cut` holds the final observation
    value: Array
    valid: Array | None = None  # [N] see `TimeStep.valid`
    unannounced: Array | None = None  # [N] truncated although the spec says that this never happens


def start(env: JaxEnv, learner: Learner, key: Array) -> Stream:
    """Resets the environments."""
    state, timestep = env.reset(key)
    shape = (env.num_envs, env.spec.num_agents)
    episode = EpisodeStats(jnp.zeros(env.num_envs), jnp.zeros(env.num_envs))
    inputs = observe(learner, timestep, jnp.zeros(shape, jnp.int32))
    carry = learner.network.initial_carry(*shape)
    burn_in = learner.config.learner.burn_in
    # Nothing came before: the window repeats the first observation, and `first` clears the memory at each of them.
    window = jax.tree.map(lambda x: jnp.broadcast_to(x, (burn_in, *x.shape)), inputs)
    world = learner.world(timestep.obs, timestep.world)
    return Stream(state, inputs, timestep.avail, world, carry, episode, window, carry if burn_in else ())


def observe(learner: Learner, timestep: TimeStep, action: Array) -> Inputs:
    """What the network reads of a time step that `action` led to."""
    return learner.inputs(timestep.obs, timestep.first, action, timestep.reward)


def collect(
    env: JaxEnv, learner: Learner, state: LearnerState, stream: Stream, key: Array, hyper: Hyper
) -> tuple[Stream, Rollout, Finished]:
    """Steps the environments T times. Parameters are constant within a rollout."""
    steps, length = learner.config.learner.rollout_steps, learner.config.segment_length
    burn_in = learner.config.learner.burn_in
    epsilon = learner.epsilon(state, hyper)
    shape = (steps // length, length, env.num_envs, env.spec.num_agents)
    uniform = jax.random.uniform(key, shape)  # every exploration draw of the rollout at once
    cut = _no_cuts(env, learner, stream)

    def step(c: tuple, uniform: Array) -> tuple[tuple, StepRecord]:
        stream, finished, cut = c
        carry, q = learner.q_values(state, stream.carry, stream.inputs)
        action = epsilon_greedy(uniform, q, stream.avail, epsilon)
        env_state, timestep = env.step(stream.env, action)
        done = timestep.terminated | timestep.truncated
        cut, bootstrap, slot = _note_cuts(learner, cut, timestep, action, carry)
        value = learner.value(state.params, q, stream.avail, stream.world)
        record = StepRecord(
            inputs=stream.inputs,
            avail=stream.avail,
            world=stream.world,
            action=action,
            reward=timestep.reward,
            done=done,
            bootstrap=bootstrap,
            slot=slot,
            value=value,
            valid=timestep.valid,
            unannounced=None if env.spec.truncates else timestep.truncated,
        )
        episode, finished = count_episodes(stream.episode, finished, timestep)
        inputs = observe(learner, timestep, action)
        stream = stream._replace(env=env_state, inputs=inputs, avail=timestep.avail, carry=carry, episode=episode)
        stream = stream._replace(world=learner.world(timestep.obs, timestep.world))
        return (stream, finished, cut), record

    def segment(c: tuple, uniform: Array) -> tuple[tuple, tuple[PyTree, StepRecord]]:
        before = c[0].window_carry if burn_in else c[0].carry
        pieces = []
        if length > burn_in:
            c, records = jax.lax.scan(step, c, uniform[: length - burn_in], unroll=length == 1)
            pieces.append(records)
        if burn_in:  # the next segment's memory starts from here
            c = (c[0]._replace(window_carry=c[0].carry), *c[1:])
            c, records = jax.lax.scan(step, c, uniform[length - burn_in :])
            pieces.append(records)
        return c, (before, jax.tree.map(lambda *x: jnp.concatenate(x), *pieces))

    c = (stream, none_finished(env, stream), cut)
    (stream, finished, cut), (carries, records) = jax.lax.scan(segment, c, uniform)
    records = jax.tree.map(lambda x: x.reshape(steps, *x.shape[2:]), records)
    last_value, cut_values = _bootstrap_values(learner, state, stream, cut)
    final_value = None
    if cut_values is not None and records.slot is not None:
        slot = expand(records.slot, cut_values)
        final_value = jnp.take_along_axis(cut_values, slot, axis=0, mode="clip")  # [K, N], [T, N] -> [T, N]
    rollout = assemble(records, carries, stream.window, last_value, final_value, hyper)
    finished = jax.tree.map(jnp.sum, finished)._replace(fault=diagnose(env.spec, records, stream, cut))
    return stream._replace(window=last_steps(records, burn_in)), rollout, finished


def diagnose(spec: EnvSpec, records: StepRecord, stream: Stream, cut: Cut | None) -> Array:
    """The promise that the environments broke in a rollout, as a `health.Fault`; `stream` is that after it."""
    final = (None, None) if cut is None else (cut.inputs.obs, cut.world)
    seen = (records.inputs.obs, records.world, stream.inputs.obs, stream.world, *final)
    faults = [(Fault.REWARD, not_finite(records.reward)), (Fault.OBSERVATION, not_finite(*seen))]
    if cut is not None:  # a truncation without a slot has been given another one's value
        slots = jax.tree.leaves(cut.inputs)[0].shape[0]
        faults.append((Fault.TRUNCATED_EARLY, jnp.any(cut.used > slots)))
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
    like = lambda x: expand(x, records.value)  # noqa: E731  an agent axis where values have one
    reward = like(hyper.reward_scale * records.reward)
    if final_value is not None and records.bootstrap is not None:
        reward = reward + jnp.where(like(records.bootstrap), hyper.gamma * final_value, 0.0)
    ends = records.done if records.valid is None else records.done | ~records.valid
    discount = like(jnp.where(ends, 0.0, hyper.gamma))
    return Rollout(
        inputs=records.inputs,
        avail=records.avail,
        world=records.world,
        action=records.action,
        reward=reward,
        discount=discount,
        value=records.value,
        last_value=last_value,
        carry=carries,
        window=window,
        valid=records.valid,
    )


def slots_needed(spec: EnvSpec, steps: int) -> int:
    """K: how often one environment can be truncated within `steps` steps.

    Each truncation but the first needs a whole episode of `max_episode_steps` before it; without that promise every
    step might be one. A usual time limit is longer than a rollout, so K = 1: one extra batch of N forward passes.
    """
    if spec.max_episode_steps is None:
        return steps
    return 1 + (steps - 1) // spec.max_episode_steps


def _no_cuts(env: JaxEnv, learner: Learner, stream: Stream) -> Cut | None:
    config = learner.config.learner
    if not (env.spec.truncates and config.bootstrap_truncation):
        return None
    slots = slots_needed(env.spec, config.rollout_steps)
    blank = lambda x: jnp.zeros((slots, *x.shape), x.dtype)  # noqa: E731
    kept = (stream.carry, stream.inputs, stream.avail, stream.world)
    return Cut(jnp.zeros(env.num_envs, jnp.int32), *jax.tree.map(blank, kept))


def _note_cuts(
    learner: Learner, cut: Cut | None, timestep: TimeStep, action: Array, carry: PyTree
) -> tuple[Cut | None, Array | None, Array | None]:
    """Keeps the final observation, and the memory with which to read it, of every episode truncated at this step."""
    if cut is None:
        return None, None, None
    truncated = timestep.truncated
    final = timestep._replace(obs=timestep.final_obs, first=jnp.zeros_like(timestep.first))
    world = learner.world(final.obs, timestep.final_world)
    new = (carry, observe(learner, final, action), timestep.final_avail, world)
    slots = jnp.arange(jax.tree.leaves(cut.inputs)[0].shape[0])
    here = (slots[:, None] == cut.used) & truncated  # [K, N]

    def keep(old: Array, new: Array) -> Array:
        return jnp.where(here.reshape(here.shape + (1,) * (new.ndim - 1)), new, old)

    kept = jax.tree.map(keep, (cut.carry, cut.inputs, cut.avail, cut.world), new)
    return Cut(cut.used + truncated, *kept), truncated, cut.used


def _bootstrap_values(
    learner: Learner, state: LearnerState, stream: Stream, cut: Cut | None
) -> tuple[Array, Array | None]:
    """V(s_T) [N] and V of the final observations [K, N], in one forward pass."""
    if cut is None:
        _, q = learner.q_values(state, stream.carry, stream.inputs)
        return learner.value(state.params, q, stream.avail, stream.world), None
    both = lambda last, cuts: jnp.concatenate([last[None], cuts]).reshape(-1, *last.shape[1:])  # noqa: E731
    last = (stream.carry, stream.inputs, stream.avail, stream.world)
    carry, inputs, avail, world = jax.tree.map(both, last, (cut.carry, cut.inputs, cut.avail, cut.world))
    _, q = learner.q_values(state, carry, inputs)
    values = learner.value(state.params, q, avail, world)
    values = values.reshape(-1, stream.inputs.obs.shape[0], *values.shape[1:])  # [1 + K, N]
    return values[0], values[1:]


def none_finished(env: JaxEnv, stream: Stream) -> Finished:
    names = jax.eval_shape(env.step, stream.env, jax.ShapeDtypeStruct(stream.inputs.first.shape, jnp.int32))[1].info
    zero = jnp.zeros(env.num_envs)
    return Finished(zero, zero, zero, dict.fromkeys(names, zero))


def count_episodes(episode: EpisodeStats, finished: Finished, timestep: TimeStep) -> tuple[EpisodeStats, Finished]:
    """Adds the step to the open episodes and moves those that ended into the sums, per environment."""
    done = timestep.over
    ret, length = episode.ret + timestep.reward, episode.length + (1 if timestep.valid is None else timestep.valid)
    total = timestep.info.get("return", ret)
    ended = lambda sums, value: sums + jnp.where(done, value, 0.0)  # noqa: E731
    finished = Finished(
        finished.episodes + done,
        ended(finished.ret, total),
        ended(finished.length, length),
        {name: ended(finished.info[name], value) for name, value in timestep.info.items()},
    )
    return EpisodeStats(jnp.where(done, 0.0, ret), jnp.where(done, 0.0, length)), finished
