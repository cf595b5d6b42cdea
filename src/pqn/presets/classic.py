"""CartPole and Acrobot."""

from __future__ import annotations

from pqn.config import Config, EnvConfig, LearnerConfig, NetworkConfig

_PUBLIC = "the public configuration of the paper's CartPole and Acrobot runs"


def _paper(env: str) -> Config:
    return Config(
        total_steps=500_000,
        env=EnvConfig(env, num_envs=32),
        network=NetworkConfig(hidden=(256, 256)),
        learner=LearnerConfig(
            rollout_steps=64,
            epochs=4,
            minibatches=16,
            lr=1e-4,
            lr_decay=True,
            max_grad_norm=10.0,
            gamma=0.99,
            lam=0.95,
            eps_start=1.0,
            eps_finish=0.2,
            eps_decay=0.2,
            reward_scale=0.1,
            bootstrap_truncation=False,
        ),
    )


_CARTPOLE = _paper("CartPole-v1").replace({"learner.bootstrap_truncation": True})
_ACROBOT = _paper("Acrobot-v1").replace({"learner.bootstrap_truncation": True})

PRESETS = {
    "cartpole": (_CARTPOLE, "CartPole-v1, solved in seconds on a laptop", _PUBLIC),
    "cartpole-paper": (_paper("CartPole-v1"), "CartPole-v1 as published", _PUBLIC),
    "acrobot": (_ACROBOT, "Acrobot-v1", f"{_PUBLIC}, bootstrapping at the time limit"),
    "acrobot-paper": (_paper("Acrobot-v1"), "Acrobot-v1 as published", _PUBLIC),
}
