"""Craftax: an open world with 67 achievements, and its smaller Classic version with 22."""

from __future__ import annotations

from pqn.config import Config, EnvConfig, EvalConfig, LearnerConfig, NetworkConfig

_TABLE = "the paper's hyperparameter table and public configuration"


def _mlp(env: str, total_steps: int) -> Config:
    """One-step Q-learning on 1024 environments: T = 1, one minibatch, no λ."""
    return Config(
        total_steps=total_steps,
        env=EnvConfig(env, num_envs=1024, kwargs={"max_timesteps": 10_000}),
        network=NetworkConfig(hidden=(1024,) * 4, norm="layer", norm_input="batch_renorm"),
        learner=LearnerConfig(
            rollout_steps=1,
            epochs=1,
            minibatches=1,
            lr=1e-4,
            lr_decay=True,
            max_grad_norm=1.0,
            gamma=0.99,
            lam=0.0,
            eps_start=0.1,
            eps_finish=0.005,
            eps_decay=0.2,
        ),
        eval=EvalConfig(num_envs=128),
    )


def _rnn(env: str, total_steps: int) -> Config:
    return Config(
        total_steps=total_steps,
        env=EnvConfig(env, num_envs=1024, kwargs={"max_timesteps": 10_000}),
        network=NetworkConfig(
            hidden=(512,), norm="layer", norm_input="batch_renorm", memory="lstm", memory_size=512, last_action=True
        ),
        learner=LearnerConfig(
            rollout_steps=128,
            epochs=4,
            minibatches=4,
            lr=3e-4,
            lr_decay=True,
            max_grad_norm=0.5,
            gamma=0.99,
            lam=0.5,
            eps_start=1.0,
            eps_finish=0.005,
            eps_decay=0.1,
        ),
        eval=EvalConfig(num_envs=128),
    )


PRESETS = {
    "craftax": (_mlp("Craftax-Symbolic-v1", 1_000_000_000), "Craftax, feed-forward", _TABLE),
    "craftax-rnn": (
        _rnn("Craftax-Symbolic-v1", 1_000_000_000),
        "Craftax with an LSTM, the paper's hardest single-agent result",
        f"{_TABLE}; LayerNorm and a batch-renormalised input as in its norm ablation, where the table says batch norm",
    ),
    "craftax-classic": (
        _mlp("Craftax-Classic-Symbolic-v1", 100_000_000),
        "Craftax-Classic, feed-forward",
        f"{_TABLE} for Craftax, on a tenth of the steps",
    ),
    "craftax-classic-rnn": (
        _rnn("Craftax-Classic-Symbolic-v1", 100_000_000),
        "Craftax-Classic with an LSTM",
        f"{_TABLE} for Craftax, on a tenth of the steps",
    ),
}
