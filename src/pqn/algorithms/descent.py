"""Gradient steps on minibatches: what all algorithms here do with a rollout, whatever their loss is."""

from __future__ import annotations

import abc
import dataclasses

import jax
import jax.numpy as jnp
import optax

from pqn.algorithms.base import Actor, Hyper, LearnerState, Metrics, Progress, Work
from pqn.algorithms.packing import Packed, pack
from pqn.algorithms.segments import Segments, pick
from pqn.config import Config
from pqn.device import unroll
from pqn.types import Array, EnvSpec, Policy, PyTree, Rollout


@dataclasses.dataclass(frozen=True)
class Descent(abc.ABC):
    """Epochs of minibatches, each one clipped optimiser step with a learning rate that may fall.

    An algorithm adds its actor, its segments and its loss.
    """

    config: Config
    spec: EnvSpec

    @property
    @abc.abstractmethod
    def actor(self) -> Actor: ...

    @abc.abstractmethod
    def segments(self, rollout: Rollout, hyper: Hyper) -> tuple[Segments, Metrics]:
        """What minibatches are taken from, targets included, and what is to be reported of it."""

    @abc.abstractmethod
    def loss(
        self, params: PyTree, stats: PyTree, batch: Segments, hyper: Hyper
    ) -> tuple[Array, tuple[PyTree, Metrics]]:
        """The loss of a minibatch, new running statistics, and metrics."""

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
        return LearnerState(params, stats, self.optimizer.init(packed), jnp.int32(0))

    def policy(self, state: LearnerState) -> Policy:
        return Policy(state.params, state.stats)

    def with_policy(self, state: LearnerState, policy: Policy) -> LearnerState:
        return state._replace(params=policy.params, stats=policy.stats)

    def epsilon(self, state: LearnerState, hyper: Hyper) -> Array:
        return hyper.epsilon(state.updates)

    def update(self, state: LearnerState, rollout: Rollout, key: Array, hyper: Hyper) -> tuple[LearnerState, Metrics]:
        progress, work = self.prepare(state, rollout, key, hyper)
        progress, metrics = self.descend(progress, work, hyper)
        return self.finish(state, progress, work, metrics)

    def prepare(self, state: LearnerState, rollout: Rollout, key: Array, hyper: Hyper) -> tuple[Progress, Work]:
        segments, metrics = self.segments(rollout, hyper)
        count = segments.action.shape[1]
        epochs, minibatches = self.config.learner.epochs, self.config.learner.minibatches
        # One permutation per epoch, shared by all fields; each gradient step gathers its own share.
        orders = jnp.argsort(jax.random.bits(key, (epochs, count)), axis=1)
        orders = orders.reshape(epochs * minibatches, count // minibatches)
        # Exact up to 2²⁴ gradient steps; beyond, off by no more than a share of 10⁻⁷ of the schedule.
        number = self.steps_per_update
        steps = state.updates.astype(jnp.float32) * number + jnp.arange(number, dtype=jnp.float32)
        return Progress(pack(state.params), state.stats, state.opt), Work(segments, orders, steps, metrics)

    def descend(self, progress: Progress, work: Work, hyper: Hyper) -> tuple[Progress, Metrics]:
        def gradient_step(progress: Progress, xs: tuple[Array, Array]) -> tuple[Progress, Metrics]:
            order, step = xs
            return self.gradient_step(progress, pick(work.segments, order), step, hyper)

        return jax.lax.scan(gradient_step, progress, (work.orders, work.steps), unroll=unroll(len(work.orders)))

    def finish(
        self, state: LearnerState, progress: Progress, work: Work, metrics: Metrics
    ) -> tuple[LearnerState, Metrics]:
        means = {name: jnp.mean(value) for name, value in metrics.items()}
        after = LearnerState(progress.params.unpack(), progress.stats, progress.opt, state.updates + 1)
        return after, means | work.metrics

    def gradient_step(self, progress: Progress, batch: Segments, step: Array, hyper: Hyper) -> tuple[Progress, Metrics]:
        """One clipped optimiser step on one minibatch; `step` is its number since the start of the run."""

        def loss(packed: Packed) -> tuple[Array, tuple[PyTree, Metrics]]:
            return self.loss(packed.unpack(), progress.stats, batch, hyper)

        gradient, (stats, metrics) = jax.grad(loss, has_aux=True)(progress.params)
        norm = optax.tree.norm(gradient)
        shorten = jnp.minimum(1.0, hyper.max_grad_norm / jnp.maximum(norm, 1e-12))
        direction, opt = self.optimizer.update(optax.tree.scale(shorten, gradient), progress.opt)
        lr = hyper.learning_rate(step, self.steps_per_update)
        after = jax.tree.map(lambda old, change: old - lr * change, progress.params, direction)
        return Progress(after, stats, opt), metrics | {"grad_norm": norm}
