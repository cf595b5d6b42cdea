"""Gradient steps on minibatches: what all algorithms here do, whatever their loss and wherever their data come from."""

from __future__ import annotations

import abc
import dataclasses

import jax
import jax.numpy as jnp
import optax

from pqn import shards
from pqn.algorithms.base import Actor, Hyper, LearnerState, Metrics, Progress, Work, schedules
from pqn.algorithms.packing import Packed, pack
from pqn.algorithms.segments import Segments, pick
from pqn.arrays import at_once
from pqn.config import Config
from pqn.device import unroll
from pqn.errors import ConfigError
from pqn.loops import repeated
from pqn.types import Array, EnvSpec, Policy, PyTree, Rollout


@dataclasses.dataclass(frozen=True)
class Descent(abc.ABC):
    """Epochs of minibatches, each one clipped optimiser step with a learning rate that may fall.

    An algorithm adds its actor and its loss, and says what the minibatches are: `work`. `OnPolicy` takes them from the
    last rollout.
    """

    config: Config
    spec: EnvSpec

    @property
    @abc.abstractmethod
    def actor(self) -> Actor: ...

    @abc.abstractmethod
    def work(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> Work:
        """The minibatches of an update, from what `remember` returned."""

    @abc.abstractmethod
    def loss(
        self, params: PyTree, stats: PyTree, batch: PyTree, hyper: Hyper, fixed: PyTree = ()
    ) -> tuple[Array, tuple[PyTree, Metrics]]:
        """The loss of a minibatch, new running statistics, and metrics; `fixed` is that of `Work`."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """What `learner.batch_statistics` may be, beside `default`."""
        return ()

    def check(self) -> None:
        self.actor.check()
        chosen = self.config.learner.batch_statistics
        if chosen not in ("default", *self.statistics):
            targets = {"joint": "minibatch", "separate": "rollout"}[chosen]
            raise ConfigError(
                f"learner.batch_statistics {chosen} is for algorithms that value successors in a gradient step: dqn, "
                f"pqn-replay, or pqn with learner.targets {targets}; here it is {self.config.algorithm} with "
                f"learner.targets {self.config.learner.targets}; leave it out"
            )

    @property
    def optimizer(self) -> optax.GradientTransformation:
        return optax.scale_by_radam() if self.config.learner.optimizer == "radam" else optax.scale_by_adam()

    @property
    def steps_per_update(self) -> int:
        """K, gradient steps per update."""
        return self.config.learner.epochs * self.config.learner.minibatches

    def init(self, key: Array) -> LearnerState:
        params, stats = self.actor.init(key)
        packed: PyTree = pack(params)
        opt = self.optimizer.init(packed)
        return LearnerState(params, stats, opt, jnp.int32(0), buffer=self.empty_buffer())

    def policy(self, state: LearnerState) -> Policy:
        return Policy(state.params, state.stats)

    def with_policy(self, state: LearnerState, policy: Policy) -> LearnerState:
        return state._replace(params=policy.params, stats=policy.stats)

    def epsilon(self, state: LearnerState, hyper: Hyper) -> Array:
        return hyper.epsilon(state.updates)

    def schedules(self, update: int) -> dict[str, float]:
        return schedules(self.config, update)

    def empty_buffer(self) -> PyTree:
        return ()

    @property
    def buffer_on_host(self) -> bool:
        return False

    def remember(self, buffer: PyTree, rollout: Rollout, key: Array) -> tuple[PyTree, PyTree]:
        return buffer, rollout

    def update(self, state: LearnerState, rollout: Rollout, key: Array, hyper: Hyper) -> tuple[LearnerState, Metrics]:
        buffer, data = self.remember(state.buffer, rollout, key)
        progress, work = self.prepare(state, data, key, hyper)
        progress, metrics = self.descend(progress, work, hyper)
        after, metrics = self.finish(state, progress, work, metrics)
        return after._replace(buffer=buffer), metrics

    def prepare(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> tuple[Progress, Work]:
        work = self.work(state, data, key, hyper)
        return Progress(pack(state.params), state.stats, state.opt), work

    def step_numbers(self, state: LearnerState) -> Array:
        """The number of each gradient step of an update since the start of the run [K]."""
        # Exact up to 2²⁴ gradient steps; beyond, off by no more than a share of 10⁻⁷ of the schedule.
        number = self.steps_per_update
        return state.updates.astype(jnp.float32) * number + jnp.arange(number, dtype=jnp.float32)

    def descend(self, progress: Progress, work: Work, hyper: Hyper) -> tuple[Progress, Metrics]:
        def gradient_step(progress: Progress, xs: tuple[Array, Array]) -> tuple[Progress, Metrics]:
            order, step = xs
            with repeated(self.steps_per_update):
                return self.gradient_step(progress, pick(work.segments, order), step, hyper, work.fixed)

        return jax.lax.scan(gradient_step, progress, (work.orders, work.steps), unroll=unroll(len(work.orders)))

    def finish(
        self, state: LearnerState, progress: Progress, work: Work, metrics: Metrics
    ) -> tuple[LearnerState, Metrics]:
        means: Metrics = at_once(lambda values: jnp.mean(values, axis=1), metrics)
        params = progress.params.unpack()
        after = LearnerState(params, progress.stats, progress.opt, state.updates + 1, work.fixed, state.buffer)
        return after, means | work.metrics

    def gradient_step(
        self, progress: Progress, batch: PyTree, step: Array, hyper: Hyper, fixed: PyTree = ()
    ) -> tuple[Progress, Metrics]:
        """One clipped optimiser step on one minibatch; `step` is its number since the start of the run."""

        def loss(packed: Packed) -> tuple[Array, tuple[PyTree, Metrics]]:
            return self.loss(packed.unpack(), progress.stats, batch, hyper, fixed)

        gradient, (stats, metrics) = jax.grad(loss, has_aux=True)(progress.params)
        gradient = shards.mean(gradient)  # before its norm is taken: every shard must take the same step
        norm = optax.tree.norm(gradient)
        shorten = jnp.minimum(1.0, hyper.max_grad_norm / jnp.maximum(norm, 1e-12))
        direction, opt = self.optimizer.update(optax.tree.scale(shorten, gradient), progress.opt)
        lr = hyper.learning_rate(step, self.steps_per_update)
        after = jax.tree.map(lambda old, change: old - lr * change, progress.params, direction)
        return Progress(after, stats, opt), metrics | {"grad_norm": norm}


class OnPolicy(Descent):
    """Learns from the last rollout and forgets it: each epoch is one pass over its segments, in random order."""

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("joint",) if self.config.learner.targets == "minibatch" else ("separate",)

    @abc.abstractmethod
    def segments(self, rollout: Rollout, hyper: Hyper) -> tuple[Segments, Metrics]:
        """What minibatches are taken from, targets included, and what is to be reported of it."""

    def work(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> Work:
        segments, metrics = self.segments(data, hyper)
        count = segments.action.shape[1]
        epochs, minibatches = self.config.learner.epochs, self.config.learner.minibatches
        # One permutation per epoch, shared by all fields; each gradient step gathers its own share.
        orders = jnp.argsort(jax.random.bits(key, (epochs, count)), axis=1)
        orders = orders.reshape(epochs * minibatches, count // minibatches)
        return Work(segments, orders, self.step_numbers(state), metrics)
