"""What an algorithm is to the rest of the package: `Algorithm`, its `Actor`, its state and its hyperparameters.

A program collects rollouts with the actor and hands them to `update`. It knows nothing else about any algorithm.
"""

from __future__ import annotations

from collections import namedtuple
from types import ModuleType
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.packing import Packed
from pqn.algorithms.schedules import shape_of
from pqn.config import Config
from pqn.fields import hints, split
from pqn.types import Array, Draw, EnvSpec, Inputs, Note, Policy, PyTree, Rollout, Seen

Metrics = dict[str, Array]  # name -> what an update reports

TRACED = {
    name if group == "learner" else f"{group}_{name}": (group, name)
    for group in ("learner", "target", "ppo")
    for name, hint in hints(hints(Config)[group]).items()
    if split(hint)[0] is float
}
"""The name of each traced hyperparameter, and the option that it is."""

DERIVED = (
    "lr_final",  # the learning rate at the end of its schedule
    "eps_updates",  # updates over which ε falls
    "updates",  # updates over which the learning rate falls
    "lr_shape",  # how the learning rate falls, see `schedules`
    "eps_shape",  # how ε falls
)


class Hyper(namedtuple("Hyper", (*TRACED, *DERIVED))):
    """Hyperparameters that are traced, not compiled in: a change needs no new compilation, and a sweep is a vmap.

    Every option of the group `learner` that is a number with a fraction is one, under its own name. Those of the groups
    `target` and `ppo` have the group's name in front: `ppo_clip`.
    """

    __slots__ = ()

    @staticmethod
    def of(config: Config) -> Hyper:
        return jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), Hyper.numbers(config))

    @staticmethod
    def numbers(config: Config) -> Hyper:
        """The same as plain numbers, in Python's precision."""
        learner, updates = config.learner, config.schedule_updates
        traced = {name: getattr(getattr(config, group), option) for name, (group, option) in TRACED.items()}
        if learner.eps_schedule == "constant":
            traced["eps_finish"] = learner.eps_start
        return Hyper(
            **traced,
            lr_final=learner.lr if learner.lr_course == "constant" else learner.lr_finish,
            # Points are shares of the whole schedule.
            eps_updates=(1.0 if learner.eps_schedule == "piecewise" else learner.eps_decay) * updates,
            updates=updates,
            lr_shape=shape_of(learner.lr_course, learner.lr_points),
            eps_shape=shape_of(learner.eps_schedule, learner.eps_points),
        )

    def epsilon(self, update: Array | float, xp: ModuleType = jnp) -> Array:
        """ε of the rollout after `update` updates."""
        return self.eps_shape.at(self.eps_start, self.eps_finish, self.eps_updates, update, xp)

    def learning_rate(self, step: Array | float, steps_per_update: int, xp: ModuleType = jnp) -> Array:
        """The learning rate of the gradient step after `step` others."""
        return self.lr_shape.at(self.lr, self.lr_final, steps_per_update * self.updates, step, xp)


def schedules(config: Config, update: int) -> dict[str, float]:
    """ε and learning rate after `update` updates, for the record: the compiled program's rule, on the host."""
    hyper = Hyper.numbers(config)
    return {"epsilon": float(hyper.epsilon(update, np)), "lr": float(hyper.learning_rate(update, 1, np))}


class LearnerState(NamedTuple):
    """All that learning changes."""

    params: PyTree
    stats: PyTree  # running statistics of batch norms; {} without any
    opt: PyTree  # the optimiser's, of the parameters as `Packed`
    updates: Array  # int32, rollouts learned from so far
    target: PyTree = ()  # a target network, for the algorithms that have one
    buffer: PyTree = ()  # past steps, for the algorithms that learn from them; only `remember` reads it


PER_SHARD = frozenset({"buffer"})
"""Fields of a learner's state of which each shard has its own. The others are the same on all
shards (see `pqn.shards`), and a program that would make them differ is refused before it is compiled."""


class Progress(NamedTuple):
    """What one gradient step changes."""

    params: Packed
    stats: PyTree
    opt: PyTree


class Work(NamedTuple):
    """What is to be learned from one rollout: K gradient steps."""

    segments: PyTree  # `Segments`, or what others make minibatches of: [L, S, ...] and a carry [S, ...]
    orders: Array  # [K, B] the segments of each minibatch
    steps: Array  # [K] float32, gradient steps since the start of the run: an int32 would overflow in long ones
    metrics: Metrics  # what is known before the first gradient step
    fixed: PyTree = ()  # what the loss reads and no gradient step changes: `LearnerState.target` after this update

    def part(self, start: Array, count: int) -> Work:
        """`count` of its gradient steps, from number `start` on."""
        orders, steps = (jax.lax.dynamic_slice_in_dim(x, start, count) for x in (self.orders, self.steps))
        return self._replace(orders=orders, steps=steps)


class Actor(Protocol):
    """How an algorithm acts: pure functions of a `Policy`. Leaves have the axes [N, M, ...], or any B for N."""

    @property
    def config(self) -> Config: ...

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of one environment's value: (), or (M,) where every agent has its own."""
        ...

    @property
    def scores_are(self) -> str:
        """What `scores` are, for people: "Q-values"."""
        ...

    def check(self) -> None:
        """Raises `ConfigError` where the network cannot take the environment's observations."""
        ...

    def init(self, key: Array) -> Policy:
        """Fresh parameters and statistics."""
        ...

    def initial_carry(self, *shape: int) -> PyTree:
        """Recurrent state at the start of an episode, of [*shape] agents; () for feed-forward networks."""
        ...

    def inputs(self, obs: Array, first: Array, last_action: Array, last_reward: Array) -> Inputs:
        """What the network reads; parts of the past that it does not read are None, and not stored."""
        ...

    def world(self, obs: Array, world: Array | None) -> Array | None:
        """What is read of the global state [N, W], or None."""
        ...

    def scores(self, policy: Policy, carry: PyTree, inputs: Inputs) -> tuple[PyTree, Array]:
        """The carry after `inputs`, and what the actions [N, M, A] are ranked by: Q-values, for one."""
        ...

    def act(self, policy: Policy, carry: PyTree, seen: Seen, draw: Draw) -> tuple[PyTree, Array, Note]:
        """The carry after what was seen, actions [N, M], and what learning will need of this step."""
        ...

    def value(self, policy: Policy, carry: PyTree, seen: Seen) -> Array:
        """V of what was seen [N], where nobody acts on it."""
        ...


class Algorithm(Protocol):
    """How an algorithm learns: pure functions for one configuration and one environment."""

    @property
    def config(self) -> Config: ...

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def actor(self) -> Actor: ...

    def check(self) -> None:
        """Raises `ConfigError` where the algorithm cannot learn in this environment."""
        ...

    def init(self, key: Array) -> LearnerState:
        """Fresh parameters, statistics and optimiser state."""
        ...

    def policy(self, state: LearnerState) -> Policy:
        """What acting needs of the state."""
        ...

    def with_policy(self, state: LearnerState, policy: Policy) -> LearnerState:
        """A fresh state that starts from other weights: those of a run that has been trained."""
        ...

    def epsilon(self, state: LearnerState, hyper: Hyper) -> Array:
        """How much the next rollout explores; `Draw.epsilon`."""
        ...

    def schedules(self, update: int) -> dict[str, float]:
        """What follows a schedule, after `update` updates, for the record."""
        ...

    def empty_buffer(self) -> PyTree:
        """`LearnerState.buffer` at the start of a run; () for algorithms without one."""
        ...

    @property
    def buffer_on_host(self) -> bool:
        """Whether the buffer is in the host's memory, where `remember` then has to be called."""
        ...

    def update(self, state: LearnerState, rollout: Rollout, key: Array, hyper: Hyper) -> tuple[LearnerState, Metrics]:
        """Learns from one rollout: `remember`, `prepare`, `descend`, `finish`."""
        ...

    # The same in four parts. Where simulators step meanwhile, the gradient steps are queued a few at a time.

    def remember(self, buffer: PyTree, rollout: Rollout, key: Array) -> tuple[PyTree, PyTree]:
        """The buffer after a rollout, and what is to be learned from: the rollout itself, or a sample of the buffer."""
        ...

    def prepare(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> tuple[Progress, Work]:
        """Where the gradient steps start, and what they are; `data` is what `remember` returned."""
        ...

    def descend(self, progress: Progress, work: Work, hyper: Hyper) -> tuple[Progress, Metrics]:
        """The gradient steps of `work`, or of a `part` of it. Metrics are [K]."""
        ...

    def finish(
        self, state: LearnerState, progress: Progress, work: Work, metrics: Metrics
    ) -> tuple[LearnerState, Metrics]:
        """The state after the update, buffer excepted, and the means of the metrics of all its gradient steps [K]."""
        ...
