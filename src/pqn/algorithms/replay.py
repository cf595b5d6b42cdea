"""Learning from a buffer of past steps instead of from the last rollout: what the algorithms that do so have in common.

The buffer keeps the newest steps of every environment in their order. A minibatch is made of sequences of it, of

    W steps that refresh a recurrent memory   +   L steps with a loss   +   n steps that only give values to the targets

A step whose true successor is not in the buffer (the end of a truncated episode, whose last observation is not kept)
has no loss, and a return that reaches it ends there, with its value.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flashbax.buffers import trajectory_buffer
from flashbax.buffers.trajectory_buffer import TrajectoryBufferState

from pqn.algorithms.acting import QActor
from pqn.algorithms.base import Hyper, LearnerState, Metrics, Progress, Work
from pqn.algorithms.descent import Descent
from pqn.algorithms.pqn import l2_penalty, taken
from pqn.algorithms.segments import counted, mean
from pqn.arrays import expand
from pqn.config import sequence_length, sequences_of, steps_to_sample
from pqn.device import device_memory, machine_memory, size
from pqn.errors import ConfigError
from pqn.types import Array, Inputs, PyTree, Rollout

SHARE_OF_DEVICE = 0.7  # that a buffer may take of a device's memory: rollouts, networks and gradients need the rest


class Steps(NamedTuple):
    """What the buffer keeps of each step: [N, time, ...] in the buffer, [W + L + n, S, ...] in a sample."""

    inputs: Inputs
    avail: Array | None
    world: Array | None
    action: Array
    reward: Array  # scaled
    ended: Array  # bool: the task ended the episode with this step
    usable: Array  # bool: it is a transition, and its successor is the step after it, or it ended the episode


class Sequences(NamedTuple):
    """S samples of the buffer, without the steps before the loss except among the inputs."""

    inputs: Inputs  # [W + L + n, S, M, ...]
    avail: Array | None  # [L + n, S, M, A]
    world: Array | None  # [L + n, S, W]
    action: Array  # [L + n, S, M]
    reward: Array  # [L + n, S]
    ended: Array  # [L + n, S]
    usable: Array  # [L + n, S]
    carry: PyTree  # [S, M, ...] the memory before the first input: empty

    def head(self, length: int) -> Sequences:
        """The steps with a loss."""
        timed = jax.tree.map(lambda x: x[:length], self._replace(inputs=(), carry=()))
        return timed._replace(inputs=self.inputs, carry=self.carry)

    @property
    def valid(self) -> Array:
        """Which steps [L + n, S] the loss looks at; see `counted`."""
        return self.usable if self.usable.ndim == 2 else self.usable[..., 0]


class Replay(Descent):
    """Samples sequences from a buffer. A subclass says what the steps are worth and what the targets are."""

    @property
    def actor(self) -> QActor:
        return QActor(self.config, self.spec)

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("joint", "separate")

    @abc.abstractmethod
    def values(self, params: PyTree, q: Array, batch: Sequences, fixed: PyTree) -> Array:
        """V of each step [L + n, B], joint over agents, from the network's own Q-values [L + n, B, M, A] or others."""

    @abc.abstractmethod
    def targets(self, rewards: Array, discounts: Array, values: Array, hyper: Hyper) -> Array:
        """The targets [L, B] of the first steps of [L + n, B]."""

    def error(self, difference: Array) -> Array:
        return 0.5 * jnp.square(difference)

    # --- the buffer -----------------------------------------------------------------------------------------------

    @property
    def sequence(self) -> int:
        """W + L + n, steps in a sample; n is 1 unless `target.n_step` says otherwise."""
        return sequence_length(self.config)

    @property
    def filling_updates(self) -> int:
        """Updates that only fill the buffer."""
        config = self.config
        needed = max(-(-config.replay.start // config.env.num_envs), steps_to_sample(config))
        return -(-needed // config.learner.rollout_steps) - 1

    def check(self) -> None:
        super().check()
        config, needed = self.config, self.buffer_bytes
        where, has = ("machine", machine_memory()) if self.buffer_on_host else ("device", device_memory())
        if needed > has:
            raise ConfigError(
                f"replay.size {config.replay.size} needs a buffer of {needed / 2**30:.1f} GB"
                f"{f' for {config.seeds} seeds' if config.seeds > 1 else ''}, and this {where} has {has / 2**30:.1f} "
                f"GB of memory; a replay.size well below {int(config.replay.size * has / needed)} fits"
            )

    @property
    def buffer_bytes(self) -> int:
        """Of all seeds."""
        return self.config.seeds * self.config.shards * size(jax.eval_shape(self.empty_buffer))

    @property
    def buffer_on_host(self) -> bool:
        place = self.config.replay.place
        return place == "host" or (place == "auto" and self.buffer_bytes > SHARE_OF_DEVICE * device_memory())

    def empty_buffer(self) -> TrajectoryBufferState:
        config, agents = self.config, self.spec.num_agents
        values = self.actor.value_shape
        step = Steps(
            inputs=self.actor.blank_inputs(1),
            avail=jnp.zeros((1, agents, self.spec.num_actions), bool) if self.spec.masked else None,
            world=jnp.zeros((1, self.actor.world_size)) if config.learner.mixer == "qmix" else None,
            action=jnp.zeros((1, agents), jnp.int32),
            reward=jnp.zeros((1, *values)),
            ended=jnp.zeros((1, *values), bool),
            usable=jnp.zeros((1, *values), bool),
        )
        one = jax.tree.map(lambda x: x[0], step)
        envs = config.env.num_envs // config.shards  # each shard has a buffer of its own environments
        return trajectory_buffer.init(one, envs, config.replay.size // config.env.num_envs)

    def add(self, buffer: TrajectoryBufferState, rollout: Rollout) -> TrajectoryBufferState:
        """The buffer after a rollout [T, N, ...]."""
        usable = jnp.ones(rollout.action.shape[:2], bool) if rollout.valid is None else rollout.valid
        usable = usable if rollout.truncated is None else usable & ~rollout.truncated
        steps = Steps(
            inputs=rollout.inputs,
            avail=rollout.avail,
            world=rollout.world,
            action=rollout.action,
            reward=rollout.reward,
            ended=rollout.discount == 0.0,
            usable=jnp.broadcast_to(expand(usable, rollout.reward), rollout.reward.shape),
        )
        return trajectory_buffer.add(buffer, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), steps))

    def sample(self, buffer: TrajectoryBufferState, key: Array) -> tuple[Steps, Array]:
        """Sequences [W + L + n, K·B, ...], and which of them each minibatch has, [K, B]."""
        count, (old, new) = self.steps_per_update, sequences_of(self.config)
        parts, orders = [], []
        if old:
            drawn = trajectory_buffer.sample(buffer, key, count * old, self.sequence, period=1).experience
            parts.append(drawn)
            orders.append(jnp.arange(count * old).reshape(count, old))
        if new:
            parts.append(self.newest(buffer, jax.random.fold_in(key, 1), count * new))
            orders.append(count * old + jnp.arange(count * new).reshape(count, new))
        sequences = jax.tree.map(lambda *x: jnp.swapaxes(jnp.concatenate(x), 0, 1), *parts)
        return sequences, jnp.concatenate(orders, axis=1)

    def newest(self, buffer: TrajectoryBufferState, key: Array, count: int) -> Steps:
        """Sequences [count, W + L + n, ...] that end in the last T steps."""
        envs, length = buffer.experience.action.shape[:2]
        back = jax.random.randint(key, (count,), 0, self.config.learner.rollout_steps)
        env = jax.random.randint(jax.random.fold_in(key, 1), (count,), 0, envs)
        start = buffer.current_index - self.sequence - back
        time = (start[:, None] + jnp.arange(self.sequence)) % length
        return jax.tree.map(lambda x: x[env[:, None], time], buffer.experience)

    # --- an update ------------------------------------------------------------------------------------------------

    def remember(self, buffer: PyTree, rollout: Rollout, key: Array) -> tuple[PyTree, PyTree]:
        buffer = self.add(buffer, rollout)
        return buffer, self.sample(buffer, key)

    def work(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> Work:
        steps, orders = data
        steps = steps._replace(usable=steps.usable & (steps.ended | expand(continued(steps.inputs), steps.usable)))
        burn_in = self.config.learner.burn_in
        timed = jax.tree.map(lambda x: x[burn_in:], steps._replace(inputs=()))._asdict()
        carry = self.actor.initial_carry(steps.action.shape[1], self.spec.num_agents)
        sequences = Sequences(**timed | {"inputs": steps.inputs, "carry": carry})
        return Work(sequences, orders, self.step_numbers(state), {})

    def loss(
        self, params: PyTree, stats: PyTree, batch: PyTree, hyper: Hyper, fixed: PyTree = ()
    ) -> tuple[Array, tuple[PyTree, Metrics]]:
        """The error of Q(s_t, a_t) against the targets, which are constants, averaged over the minibatch."""
        # One pass over states and their successors, so that both have the same batch statistics (as in CrossQ).
        joint, variables = self.config.joint_statistics, {"params": params, "batch_stats": stats}
        (_, q), mutated = self.actor.network.apply(
            variables, batch.carry, batch.inputs if joint else self.learned(batch), train=True, mutable=["batch_stats"]
        )
        q = q[self.config.learner.burn_in :]
        says = q if joint else self.acting(variables, batch)
        values = jax.lax.stop_gradient(self.values(params, says, batch, fixed))
        # Where the successor is unknown, a return ends with the value of the step itself.
        rewards = jnp.where(batch.usable, batch.reward, values)
        discounts = jnp.where(batch.usable & ~batch.ended, hyper.gamma, 0.0)
        target = self.targets(rewards, discounts, values, hyper)
        batch = batch.head(len(target))
        chosen = self.actor.mix(params, taken(q[: len(target)], batch), batch.world)
        counts = counted(batch, chosen)
        loss = mean(self.error(target - chosen), counts) + l2_penalty(self.config.learner, params, hyper)
        metrics = {"loss": loss, "q": mean(chosen, counts), "target": mean(target, counts)}
        return loss, (mutated.get("batch_stats", {}), jax.lax.stop_gradient(metrics))

    def learned(self, batch: Sequences) -> Inputs:
        """The inputs of the steps with a loss, and of those before them."""
        steps = self.config.learner.burn_in + self.config.segment_length
        return jax.tree.map(lambda x: x[:steps], batch.inputs)

    def acting(self, variables: PyTree, batch: Sequences) -> Array:
        """Q-values [L + n, B, M, A] as the network would act on them: with running statistics."""
        out: PyTree = self.actor.network.apply(variables, batch.carry, batch.inputs)
        return out[1][self.config.learner.burn_in :]

    def finish(
        self, state: LearnerState, progress: Progress, work: Work, metrics: Metrics
    ) -> tuple[LearnerState, Metrics]:
        """As always, but nothing is learned while the buffer fills, when a sample has steps that never were."""
        after, means = super().finish(state, progress, work, metrics)
        learns = state.updates >= self.filling_updates

        def kept(new: PyTree, old: PyTree) -> PyTree:
            return jax.tree.map(lambda a, b: jnp.where(learns, a, b), new, old)

        after = after._replace(
            params=kept(after.params, state.params),
            stats=kept(after.stats, state.stats),
            opt=kept(after.opt, state.opt),
        )
        return after, {name: jnp.where(learns, value, 0.0) for name, value in means.items()}


def continued(inputs: Inputs) -> Array:
    """Where [time, S] the step after is of the same episode.

    It is not if a run was resumed with simulators that could not be saved, so that they started new episodes.
    """
    starts = jnp.all(inputs.first[1:], axis=-1)
    return ~jnp.concatenate([starts, jnp.zeros_like(starts[:1])])
