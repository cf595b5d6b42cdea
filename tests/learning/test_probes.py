"""PQN on tasks whose answer is known: each probe isolates one thing a learner can get wrong."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import tabular

GAMMA = 0.9


def check(program, q, wanted, atol):
    env = program.env.env
    rows = env.acting[:, None] & env.legal
    np.testing.assert_allclose(q[rows], np.asarray(wanted)[rows], atol=atol)


@pytest.mark.parametrize("env", ["one-step", "two-step", "action-matters", "match", "masked"])
def test_deterministic_probes(env):
    program, q = tabular(env, 200)
    check(program, q, program.env.env.optimal_q(GAMMA), atol=2e-3)


def test_observed_reward():
    """Not one-hot: the observation is the number itself, so a linear network must find slope 1."""
    program, q = tabular("observed-reward", 200)
    check(program, q, program.env.env.optimal_q(GAMMA), atol=2e-3)


@pytest.mark.parametrize("lam", [0.0, 0.9])
def test_truncation_bootstraps(lam):
    """Reward 1 for ever, cut every 5 steps: V = 1/(1 − γ), whatever λ; rollouts of 8 hold up to two cuts."""
    program, q = tabular("endless", 800, {"learner.lam": lam, "learner.lr": 0.1})
    check(program, q, program.env.env.optimal_q(GAMMA), atol=2e-2)


@pytest.mark.parametrize("lam", [0.0, 0.9])
def test_truncation_as_termination(lam):
    """The published setting undervalues: the closed form for this mistake is matched, too."""
    options = {"learner.lam": lam, "learner.bootstrap_truncation": False, "learner.rollout_steps": 10}
    program, q = tabular("endless", 800, options)
    check(program, q, program.env.env.unbootstrapped_q(GAMMA, lam), atol=0.1)
    assert q.max() < 0.8 / (1 - GAMMA)


def test_terminated_and_truncated_are_told_apart():
    program, q = tabular("end-or-truncation", 400)
    check(program, q, program.env.env.optimal_q(GAMMA), atol=1e-2)


def test_random_length():
    program, q = tabular("random-length", 600, {"learner.lr": 0.02, "env.num_envs": 64, "total_steps": 600 * 512})
    check(program, q, program.env.env.optimal_q(GAMMA), atol=0.06)


def test_gridworld_matches_value_iteration():
    options = {"learner.lr": 0.01, "env.num_envs": 128, "learner.minibatches": 8, "total_steps": 1500 * 1024}
    program, q = tabular("gridworld", 1500, options)
    check(program, q, program.env.env.optimal_q(GAMMA), atol=0.03)


def test_special_case_one_env_one_step_one_minibatch():
    """T = 1, N = 1, λ = 0 is Watkins' Q-learning."""
    options = {"env.num_envs": 1, "learner.rollout_steps": 1, "learner.epochs": 1, "learner.minibatches": 1}
    program, q = tabular("two-step", 1, options | {"total_steps": 2000, "learner.lr": 0.02})
    check(program, q, program.env.env.optimal_q(GAMMA), atol=2e-3)
