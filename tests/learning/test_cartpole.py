"""The promise of the README: the default preset solves CartPole. So do the algorithms that PQN is compared with."""

from __future__ import annotations

import pytest

import pqn
from pqn.config import Config
from pqn.progress import Progress

BASELINES = {
    "dqn": {
        "total_steps": 100_000,
        "env.num_envs": 8,
        "network.hidden": (64, 64),
        "network.norm": "layer",
        "learner.rollout_steps": 8,
        "learner.epochs": 1,
        "learner.minibatches": 8,
        "learner.optimizer": "adam",
        "learner.max_grad_norm": 10.0,
        "learner.lr": 1e-3,
        "learner.gamma": 0.98,
        "learner.eps_finish": 0.04,
        "learner.eps_decay": 0.2,
        "replay.size": 20_000,
        "replay.start": 1000,
        "replay.batch": 128,
        "target.interval": 8,
        "target.double": True,
        "target.n_step": 5,
        "target.loss": "huber",
    },
    "ppo": {
        "total_steps": 100_000,
        "env.num_envs": 8,
        "network.hidden": (64, 64),
        "network.activation": "tanh",
        "network.init": "orthogonal",
        "network.norm": "none",
        "learner.rollout_steps": 32,
        "learner.epochs": 20,
        "learner.minibatches": 1,
        "learner.lr": 1e-3,
        "learner.gamma": 0.98,
        "learner.lam": 0.8,
    },
}


def test_cartpole_is_solved(tmp_path):
    result = pqn.train(pqn.preset("cartpole", seeds=3), out=tmp_path / "run", progress=Progress(quiet=True))
    assert result.summary["eval_return"]["mean"] >= 475


@pytest.mark.parametrize("algorithm", BASELINES)
def test_cartpole_is_solved_by_the_baselines(algorithm, tmp_path):
    options = BASELINES[algorithm] | {"env.name": "CartPole-v1", "eval.count": 1, "eval.num_envs": 16}
    config = Config().replace(options, algorithm=algorithm, seeds=2).validate()
    result = pqn.train(config, out=tmp_path / "run", progress=Progress(quiet=True))
    assert result.summary["eval_return"]["mean"] >= 475
