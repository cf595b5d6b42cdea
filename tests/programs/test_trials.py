"""Trials on the axis of seeds: each gives, to the bit, what it would give alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

from pqn.algorithms.base import TRACED, Hyper
from pqn.programs.trials import TrialsProgram, shape_of

OPTIONS = {
    "learner.lr": (1e-3, 3e-3, 1e-2),
    "learner.lr_finish": (1e-4, 1e-3, 2e-3),
    "learner.max_grad_norm": (10.0, 0.1, 1.0),
    "learner.gamma": (0.99, 0.9, 0.5),
    "learner.lam": (0.95, 0.5, 0.1),
    "learner.eps_start": (1.0, 0.8, 0.6),
    "learner.eps_finish": (0.2, 0.1, 0.3),
    "learner.eps_decay": (0.2, 0.5, 0.9),
    "learner.reward_scale": (1.0, 0.1, 2.0),
    "learner.l2_final": (0.1, 0.2, 0.3),
    "learner.l2_inner": (0.3, 0.1, 0.2),
}
CONFIGS = [tiny({name: values[trial] for name, values in OPTIONS.items()}, seeds=2, seed=5) for trial in range(3)]


def same(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        is_key = jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
        np.testing.assert_array_equal(*((jax.random.key_data(x) if is_key else x) for x in (a, b)))


@pytest.fixture(scope="module")
def alone():
    """The states of each trial by itself, after four updates and after six."""
    program = build(CONFIGS[0])
    chunk = jax.jit(program._chunk)
    start, found = jax.jit(jax.vmap(program.init_one))(program.seeds), []
    for config in CONFIGS:
        four = chunk(start, Hyper.of(config), jnp.int32(4))[0]
        found.append((four, chunk(four, Hyper.of(config), jnp.int32(2))[0]))
    return found


def test_every_traced_option_differs_here():
    of_pqn = {f"{group}.{name}" for group, name in TRACED.values() if group == "learner"}
    assert set(OPTIONS) >= of_pqn - {"learner.eps_decay"}
    assert len({shape_of(config) for config in CONFIGS}) == 1


def test_trials_in_one_program_are_the_trials_alone(alone):
    """Also those that are left when others are taken out."""
    program = TrialsProgram(CONFIGS, build(CONFIGS[0]).make_env)
    assert program.seeds.tolist() == [5, 6, 5, 6, 5, 6]
    state = run_updates(program, 4)
    for trial, (four, _) in enumerate(alone):
        same(jax.tree.map(lambda x, trial=trial: x[2 * trial : 2 * trial + 2], state), four)
    smaller, state = program.narrowed([2], state)
    assert smaller.seeds.tolist() == [5, 6]
    same(run_updates(smaller, 2, state), alone[2][1])


def test_what_is_compiled_in_is_not_shared():
    base = tiny()
    same_program = [base, base.replace({"learner.lr": 0.5, "learner.lam": 0.1})]
    assert len({shape_of(config) for config in same_program}) == 1
    others = [{"learner.epochs": 1}, {"network.hidden": (8,)}, {"learner.lr_decay": False}, {"learner.l2_final": 0.1}]
    for options in others:  # the last: without ℓ2 the program has no such term at all
        assert shape_of(base.replace(options)) != shape_of(base), options
