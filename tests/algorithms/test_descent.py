"""Gradient steps: which minibatches, in which order, with which statistics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, tiny

from pqn.algorithms.base import Algorithm, Hyper, LearnerState
from pqn.algorithms.pqn import PQN
from pqn.programs import rollout
from pqn.types import EnvSpec, Policy, Rollout


@pytest.fixture(scope="module")
def learning() -> tuple[Algorithm, LearnerState, Rollout, Hyper]:
    """An algorithm, its state, and a rollout to learn from."""
    program = build(tiny({"network.norm": "batch", "learner.lr": 0.01}))
    state = program.init_one(jnp.int32(0))

    def collect(state):
        return rollout.collect(program.env, program.algorithm, state.learner, state.stream, state.key, program.hyper)

    _, data, _ = jax.jit(collect)(state)
    return program.algorithm, state.learner, data, program.hyper


@pytest.mark.parametrize(("name", "first"), [("adam", [1.0, 1.0]), ("radam", [0.5, 0.25])])
def test_the_optimiser_is_the_one_that_is_named(name, first):
    """Adam's first step has the same length in all directions; RAdam's is the gradient."""
    optimizer = PQN(tiny({"learner.optimizer": name}), EnvSpec("none", (1,), np.dtype("float32"), 2)).optimizer
    gradient = jnp.array([0.5, 0.25])
    np.testing.assert_allclose(optimizer.update(gradient, optimizer.init(gradient))[0], first, rtol=1e-4)


def test_every_epoch_is_an_order_of_its_own_of_all_segments(learning):
    algorithm, state, data, hyper = learning
    _, work = algorithm.prepare(state, data, jax.random.key(1), hyper)
    epochs = np.reshape(work.orders, (2, 64))
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(64))
        assert (epoch != np.arange(64)).mean() > 0.5
    assert (epochs[0] != epochs[1]).mean() > 0.5


def test_gradient_steps_are_counted_since_the_start_of_the_run(learning):
    algorithm, state, data, hyper = learning
    _, work = algorithm.prepare(state._replace(updates=jnp.int32(5)), data, jax.random.key(1), hyper)
    np.testing.assert_array_equal(work.steps, 5 * 8 + np.arange(8))


def test_an_update_in_parts_is_the_update(learning):
    """As where simulators step meanwhile: prepare, some gradient steps, the others, finish."""
    algorithm, state, data, hyper = learning
    key = jax.random.key(1)

    def in_parts(state, data):
        progress, work = algorithm.prepare(state, data, key, hyper)
        metrics = []
        for start, count in ((0, 3), (3, 5)):
            progress, part = algorithm.descend(progress, work.part(jnp.int32(start), count), hyper)
            metrics.append(part)
        return algorithm.finish(state, progress, work, jax.tree.map(lambda *x: jnp.concatenate(x), *metrics))

    def at_once(state, data):
        return algorithm.update(state, data, key, hyper)

    results = jax.jit(at_once)(state, data), jax.jit(in_parts)(state, data)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *results)


def test_statistics_move_and_acting_reads_them(learning):
    algorithm, state, data, hyper = learning
    after, _ = jax.jit(algorithm.update)(state, data, jax.random.key(1), hyper)
    assert all((a != b).any() for a, b in zip(*map(jax.tree.leaves, (state.stats, after.stats)), strict=True))
    inputs = jax.tree.map(lambda x: x[0], data.inputs)
    policy = algorithm.policy(after)
    jax.tree.map(np.testing.assert_array_equal, policy, Policy(after.params, after.stats))
    _, now = algorithm.actor.scores(policy, (), inputs)
    _, before = algorithm.actor.scores(policy._replace(stats=state.stats), (), inputs)
    assert not np.allclose(now, before, atol=1e-3)


def test_an_update_is_counted_and_reported_as_the_mean_of_its_steps(learning):
    algorithm, state, data, hyper = learning
    progress, work = algorithm.prepare(state, data, jax.random.key(1), hyper)
    after, metrics = algorithm.finish(state, progress, work, {"loss": jnp.array([1.0, 2.0, 6.0])})
    assert int(after.updates) == int(state.updates) + 1
    assert float(metrics["loss"]) == 3.0
    np.testing.assert_array_equal(metrics["target"], work.metrics["target"])
