"""Algorithm 1 of the paper: act, λ-targets, minibatches, gradient steps.

Nothing here knows whether the network is recurrent, how many agents there are or where the data came from. A rollout
is cut into segments of length L; L = 1 is the feed-forward shuffle over all T·N transitions.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from pqn.arrays import expand
from pqn.config import Config
from pqn.device import unroll
from pqn.errors import ConfigError
from pqn.exploration import greedy_value, linear
from pqn.networks.mixers import QMIX, VDN, Independent
from pqn.networks.qnetwork import QNetwork, kernel_norms
from pqn.returns import lambda_returns
from pqn.types import Array, EnvSpec, Inputs, PyTree, Rollout

Packed = tuple[Array, ...]  # parameters, as `pack` has them
LARGE = 2**17  # numbers in an array
MIXER = "mixer"  # its parameters' name beside those of the network


class Hyper(NamedTuple):
    """Hyperparameters that are traced, not compiled in: a change needs no new compilation, and a sweep is a vmap."""

    lr: Array
    lr_final: Array
    gamma: Array
    lam: Array
    eps_start: Array
    eps_finish: Array
    eps_updates: Array  # updates over which ε falls
    updates: Array  # updates over which the learning rate falls
    reward_scale: Array
    max_grad_norm: Array
    l2_final: Array
    l2_inner: Array

    @staticmethod
    def of(config: Config) -> Hyper:
        return Hyper(*(jnp.asarray(value, jnp.float32) for value in Hyper.numbers(config)))

    @staticmethod
    def numbers(config: Config) -> Hyper:
        """The same as plain numbers, in Python's precision."""
        c, updates = config.learner, config.schedule_updates
        values: tuple[Any, ...] = (
            c.lr,
            0.0 if c.lr_decay else c.lr,
            c.gamma,
            c.lam,
            c.eps_start,
            c.eps_finish,
            c.eps_decay * updates,
            updates,
            c.reward_scale,
            c.max_grad_norm,
            c.l2_final,
            c.l2_inner,
        )
        return Hyper(*values)

    def epsilon(self, update: Any, xp: Any = jnp) -> Any:
        """ε of the rollout after `update` updates."""
        return linear(self.eps_start, self.eps_finish, self.eps_updates, update, xp)

    def learning_rate(self, step: Any, steps_per_update: int, xp: Any = jnp) -> Any:
        """The learning rate of the gradient step after `step` others."""
        return linear(self.lr, self.lr_final, steps_per_update * self.updates, step, xp)


def schedules(config: Config, update: int) -> dict[str, float]:
    """ε and learning rate after `update` updates, for the record: the compiled program's rule, on the host."""
    hyper = Hyper.numbers(config)
    return {"epsilon": float(hyper.epsilon(update, np)), "lr": float(hyper.learning_rate(update, 1, np))}


class LearnerState(NamedTuple):
    """All that learning changes."""

    params: PyTree
    stats: PyTree  # running statistics of batch norms; {} without any
    opt: PyTree  # of the parameters as `pack` has them
    updates: Array  # int32, rollouts learned from so far


class PackedState(NamedTuple):
    """What a gradient step changes, the parameters in a few arrays."""

    params: Packed
    stats: PyTree
    opt: PyTree


class Segments(NamedTuple):
    """A rollout cut into S pieces of length L, ready to be shuffled."""

    inputs: Inputs  # [W + L, S, M, ...] the W steps before the piece only refresh the memory
    avail: Array | None  # [L, S, M, A]
    world: Array | None  # [L, S, W]
    action: Array  # [L, S, M]
    reward: Array  # [L, S]
    discount: Array  # [L, S]
    target: Array  # [L, S] λ-returns from the values the network acted on
    after: Array  # [1, S] the value that follows the piece
    carry: PyTree  # [S, M, ...] recurrent state before the first of the inputs
    valid: Array | None = None  # [L, S] bool; the loss leaves the other steps out. None: all are transitions


class Work(NamedTuple):
    """What is to be learned from one rollout: K = epochs · minibatches gradient steps."""

    segments: Segments
    orders: Array  # [K, B] the segments of each minibatch
    steps: Array  # [K] float32, gradient steps since the start of the run: an int32 would overflow in long ones
    target: Array  # mean of the λ-returns, for the record


@dataclasses.dataclass(frozen=True)
class Learner:
    """The pure functions of PQN for one configuration and one environment."""

    config: Config
    spec: EnvSpec

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a torso that cannot take the environment's observations."""
        torso = self.config.network.torso
        if torso == "mlp":  # takes anything
            return
        try:
            jax.eval_shape(self.init, jax.random.key(0))
        except Exception as error:  # flax, jax and Python each have their own word for shapes that do not fit
            raise ConfigError(
                f"network.torso {torso} cannot take the observations of {self.spec.name}, of shape "
                f"{self.spec.obs_shape}: it wants images, of height, width and channels, that are large enough; "
                "mlp takes any"
            ) from error

    @property
    def network(self) -> QNetwork:
        return QNetwork(self.config.network, self.spec.num_actions)

    @property
    def optimizer(self) -> optax.GradientTransformation:
        return optax.scale_by_radam() if self.config.learner.optimizer == "radam" else optax.scale_by_adam()

    def init(self, key: Array) -> LearnerState:
        """Fresh parameters, statistics and optimiser state."""
        agents = self.spec.num_agents
        obs = jnp.zeros((1, agents, *self.spec.obs_shape), self.spec.obs_dtype)
        inputs = self.inputs(obs, jnp.ones((1, agents), bool), jnp.zeros((1, agents), jnp.int32), jnp.zeros(1))
        inputs = jax.tree.map(lambda x: x[None], inputs)
        variables = self.network.init(key, self.network.initial_carry(1, agents), inputs)
        params = variables["params"] | self._init_mixer(jax.random.fold_in(key, 1))
        opt = self.optimizer.init(pack(params))
        return LearnerState(params, variables.get("batch_stats", {}), opt, jnp.int32(0))

    def inputs(self, obs: Array, first: Array, last_action: Array, last_reward: Array) -> Inputs:
        """What the network reads [N, M, ...]; parts of the past it does not look at are not even stored."""
        network = self.config.network
        reward = jnp.broadcast_to(last_reward[:, None], first.shape)
        return Inputs(obs, first, last_action if network.last_action else None, reward if network.last_reward else None)

    def q_values(self, state: LearnerState, carry: PyTree, inputs: Inputs) -> tuple[PyTree, Array]:
        """One step of acting: inputs [B, M, ...] to the next carry and Q [B, M, A], with running statistics."""
        variables = {"params": state.params, "batch_stats": state.stats}
        out: Any = self.network.apply(variables, carry, jax.tree.map(lambda x: x[None], inputs))
        carry, q = out
        return carry, q[0]

    def value(self, params: PyTree, q: Array, avail: Array | None, world: Array | None) -> Array:
        """V = max_a Q [...], joint over the agents of q [..., M, A]."""
        return self.mix(params, greedy_value(q, avail), world)

    def mix(self, params: PyTree, q: Array, world: Array | None) -> Array:
        """Joint value [...] of the agents' own values [..., M]; as many as agents, [..., M], where none is joint."""
        out: Any = self.mixer.apply({"params": params.get(MIXER, {})}, q, world)
        return out

    def world(self, obs: Array, world: Array | None) -> Array | None:
        """What the mixer reads [N, W], or None: the global state or, where there is none, all that the agents see."""
        if self.config.learner.mixer != "qmix":
            return None
        return obs.reshape(len(obs), -1).astype(jnp.float32) if world is None else world

    def _init_mixer(self, key: Array) -> PyTree:
        agents = self.spec.num_agents
        world = jnp.zeros((1, self.spec.world_size or agents * math.prod(self.spec.obs_shape)))
        params = self.mixer.init(key, jnp.zeros((1, agents)), world).get("params", {})
        return {MIXER: params} if params else {}

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of one environment's value: (), or (M,) where every agent has its own."""
        return (self.spec.num_agents,) if isinstance(self.mixer, Independent) else ()

    @property
    def mixer(self) -> nn.Module:
        config = self.config.learner
        if config.mixer == "qmix":
            return QMIX(config.mixer_size)
        # Alone, an agent is its team: one program, whatever the name.
        return Independent() if config.mixer == "independent" and self.spec.num_agents > 1 else VDN()

    def epsilon(self, state: LearnerState, hyper: Hyper) -> Array:
        return hyper.epsilon(state.updates)

    def update(
        self, state: LearnerState, rollout: Rollout, key: Array, hyper: Hyper
    ) -> tuple[LearnerState, dict[str, Array]]:
        """E epochs of minibatch steps on one rollout. Returns the new state and the means of what was seen."""
        work = self.prepare(state, rollout, key, hyper)
        packed, metrics = self.descend(self.pack(state), state.params, work, hyper)
        return self.finish(state, packed, work, metrics)

    def prepare(self, state: LearnerState, rollout: Rollout, key: Array, hyper: Hyper) -> Work:
        """Targets, segments and the order in which they will be visited."""
        next_values = jnp.concatenate([rollout.value[1:], rollout.last_value[None]])
        targets = lambda_returns(rollout.reward, rollout.discount, next_values, hyper.lam)
        segments = cut(rollout, targets, next_values, self.config.segment_length)
        count = segments.action.shape[1]
        minibatches, epochs = self.config.learner.minibatches, self.config.learner.epochs
        # One permutation per epoch, shared by all fields; each gradient step gathers its own share.
        orders = jnp.argsort(jax.random.bits(key, (epochs, count)), axis=1)
        orders = orders.reshape(epochs * minibatches, count // minibatches)
        # Exact up to 2²⁴ gradient steps; beyond, off by no more than a share of 10⁻⁷ of the schedule.
        per_update = epochs * minibatches
        steps = state.updates.astype(jnp.float32) * per_update + jnp.arange(per_update, dtype=jnp.float32)
        return Work(segments, orders, steps, mean(targets, rollout.valid))

    def pack(self, state: LearnerState) -> PackedState:
        return PackedState(pack(state.params), state.stats, state.opt)

    def descend(
        self, packed: PackedState, params: PyTree, work: Work, hyper: Hyper
    ) -> tuple[PackedState, dict[str, Array]]:
        """The gradient steps of `work`, or of a part of them; `params` only lends its structure. Metrics are [K]."""

        def gradient_step(c: PackedState, xs: tuple[Array, Array]) -> tuple[PackedState, dict[str, Array]]:
            order, step = xs
            return self.gradient_step(c, params, pick(work.segments, order), step, hyper)

        return jax.lax.scan(gradient_step, packed, (work.orders, work.steps), unroll=unroll(len(work.orders)))

    def finish(
        self, state: LearnerState, packed: PackedState, work: Work, metrics: dict[str, Array]
    ) -> tuple[LearnerState, dict[str, Array]]:
        """The state after the update, and the means of the metrics of its gradient steps [K]."""
        metrics = {name: jnp.mean(value) for name, value in metrics.items()} | {"target": work.target}
        params = unpack(packed.params, state.params)
        return LearnerState(params, packed.stats, packed.opt, state.updates + 1), metrics

    def gradient_step(
        self, state: PackedState, params: PyTree, batch: Segments, step: Array, hyper: Hyper
    ) -> tuple[PackedState, dict[str, Array]]:
        """One clipped, decayed optimiser step on one minibatch; `params` only lends its structure."""

        def loss(packed: Packed) -> tuple[Array, tuple[PyTree, dict[str, Array]]]:
            return self.loss(unpack(packed, params), state.stats, batch, hyper)

        gradient, (stats, metrics) = jax.grad(loss, has_aux=True)(state.params)
        norm = optax.tree.norm(gradient)
        shorten = jnp.minimum(1.0, hyper.max_grad_norm / jnp.maximum(norm, 1e-12))
        out: Any = self.optimizer.update(optax.tree.scale(shorten, gradient), state.opt)
        direction, opt = out
        lr = hyper.learning_rate(step, self.config.learner.epochs * self.config.learner.minibatches)
        after = jax.tree.map(lambda old, change: old - lr * change, state.params, direction)
        return PackedState(after, stats, opt), metrics | {"grad_norm": norm}

    def loss(
        self, params: PyTree, stats: PyTree, batch: Segments, hyper: Hyper
    ) -> tuple[Array, tuple[PyTree, dict[str, Array]]]:
        """½ (R_t − Q(s_t, a_t))², averaged over the minibatch, plus the optional ℓ2 terms; new statistics and metrics.

        The targets are constants: no gradient flows through them (semi-gradient), and there is no target network.
        """
        (_, q), mutated = self.network.apply(
            {"params": params, "batch_stats": stats}, batch.carry, batch.inputs, train=True, mutable=["batch_stats"]
        )
        config = self.config.learner
        q = q[config.burn_in :]
        taken = jnp.arange(q.shape[-1]) == batch.action[..., None]  # not an index: its gradient would be a scatter
        chosen = jnp.sum(jnp.where(taken, q, 0.0), axis=-1)  # [L, B, M]
        if batch.avail is not None:  # an agent that cannot act adds as little to the prediction as to the target
            chosen = jnp.where(jnp.any(batch.avail, axis=-1), chosen, 0.0)
        chosen = self.mix(params, chosen, batch.world)  # [L, B]
        target = batch.target if config.targets == "rollout" else self.fresh_targets(params, q, batch, hyper)
        counts = self.counts(batch, chosen)
        extra: Any = 0.0
        if config.l2_final or config.l2_inner:  # static: the terms cost a pass over the weights
            final, inner = kernel_norms(params)
            extra = hyper.l2_final * final + hyper.l2_inner * inner

        def total(values: Array) -> Array:
            return 0.5 * mean(jnp.square(target - values), counts) + extra

        # Sums for the record are taken of a copy. Otherwise the compiler lets one kernel compute them and the error of
        # each sample, on one multiprocessor, and everything after it waits for that.
        seen = jax.lax.stop_gradient(jax.lax.optimization_barrier(chosen))
        metrics = {"loss": total(seen), "q": mean(seen, counts)}
        return total(chosen), (mutated.get("batch_stats", {}), metrics)

    def counts(self, batch: Segments, values: Array) -> Array | None:
        """Which of the values [L, B] or, of agents one by one, [L, B, M] the loss looks at; None: all of them."""
        if values.ndim < batch.action.ndim or batch.avail is None:
            return batch.valid
        acting = jnp.any(batch.avail, axis=-1)  # the others have nothing to learn
        return acting if batch.valid is None else acting & batch.valid[..., None]

    def fresh_targets(self, params: PyTree, q: Array, batch: Segments, hyper: Hyper) -> Array:
        """λ-returns [L, B] from the present network's own values of the segment; constants for the gradient."""
        values = jax.lax.stop_gradient(self.value(params, q, batch.avail, batch.world))
        next_values = jnp.concatenate([values[1:], batch.after])
        return lambda_returns(batch.reward, batch.discount, next_values, hyper.lam)


def pack(params: PyTree) -> Packed:
    """The parameters as a few arrays: all small ones in a vector, and each large one as it is.

    Clipping and optimising one vector instead of a tree of small arrays takes fewer kernels, and their number is what a
    small network's gradient step costs on an accelerator. A large matrix in it would have to be copied out of it.
    """
    leaves = jax.tree.leaves(params)
    small = [leaf.reshape(-1) for leaf in leaves if leaf.size < LARGE]
    return (jnp.concatenate(small), *(leaf for leaf in leaves if leaf.size >= LARGE))


def unpack(packed: Packed, params: PyTree) -> PyTree:
    """What `pack` was given; `params` only lends its structure."""
    leaves, structure = jax.tree.flatten(params)
    sizes = [leaf.size for leaf in leaves if leaf.size < LARGE]
    ends = list(itertools.accumulate(sizes))
    small, large = iter(jnp.split(packed[0], ends[:-1])), iter(packed[1:])
    parts = [next(small).reshape(leaf.shape) if leaf.size < LARGE else next(large) for leaf in leaves]
    return jax.tree.unflatten(structure, parts)


def cut(rollout: Rollout, targets: Array, next_values: Array, length: int) -> Segments:
    """Cuts [T, N] into S = (T/L)·N segments: [L, S]. The carry was kept W steps before segment starts, [T/L, N]."""

    def fold(x: Array) -> Array:  # [T, N, ...] -> [L, T/L · N, ...]
        steps, envs = x.shape[:2]
        x = x.reshape(steps // length, length, envs, *x.shape[2:])
        return jnp.moveaxis(x, 1, 0).reshape(length, -1, *x.shape[3:])

    def fold_with_window(window: Array, x: Array) -> Array:  # [W, N, ...], [T, N, ...] -> [W + L, T/L · N, ...]
        if not len(window):
            return fold(x)
        line = jnp.concatenate([window, x])
        reach = len(window) + length
        return jnp.concatenate([line[start : start + reach] for start in range(0, len(x), length)], axis=1)

    return Segments(
        inputs=jax.tree.map(fold_with_window, rollout.window, rollout.inputs),
        avail=jax.tree.map(fold, rollout.avail),
        world=jax.tree.map(fold, rollout.world),
        action=fold(rollout.action),
        reward=fold(rollout.reward),
        discount=fold(rollout.discount),
        target=fold(targets),
        after=fold(next_values)[-1:],
        carry=jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollout.carry),
        valid=jax.tree.map(fold, rollout.valid),
    )


def mean(x: Array, counts: Array | None) -> Array:
    """Mean over the entries that count; `counts` may lack the last axes of x."""
    if counts is None:
        return jnp.mean(x)
    counts = jnp.broadcast_to(expand(counts, x), x.shape)
    return jnp.sum(jnp.where(counts, x, 0.0)) / jnp.maximum(jnp.sum(counts), 1)


def pick(segments: Segments, order: Array) -> Segments:
    """The segments numbered in `order` [B], of [L, S, ...] fields and an [S, ...] carry."""
    timed = jax.tree.map(lambda x: x[:, order], segments._replace(carry=()))
    return timed._replace(carry=jax.tree.map(lambda x: x[order], segments.carry))
