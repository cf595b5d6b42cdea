"""Craftax: an open world with 67 achievements, and its smaller Classic version with 22."""

from __future__ import annotations

from pqn.config import Config
from pqn.options import EnvConfig, EvalConfig, LearnerConfig, NetworkConfig
from pqn.presets.base import BOOTSTRAPS, NO_PAST_ACTION, RENORM, TARGETS_ONCE, Preset

_FULL, _CLASSIC = "Craftax-Symbolic-v1", "Craftax-Classic-Symbolic-v1"
_MLP_SOURCE = "the public configuration of Craftax without memory (the paper has no table for it)"
_RNN_SOURCE = "the paper's table of Craftax RNN, which its public configuration repeats"

# Optimistic resets as published: 64 fresh worlds at every step for 1024 environments.
_RESETS = {"reset_ratio": 16, "reset_every": 1}
# craftax's own limit is 100 000 steps in the full game. Public evaluations take 10 000 steps.
_PAPER = {"env.kwargs": _RESETS, "learner.bootstrap_truncation": False, "eval.max_steps": 10_000}
_OURS = {"env.kwargs": {"max_timesteps": 10_000}}


def _mlp(env: str, total_steps: int) -> Config:
    """One-step Q-learning on 1024 environments: T = 1, one minibatch, no λ."""
    return Config(
        total_steps=total_steps,
        env=EnvConfig(env, num_envs=1024),
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
    """An LSTM on whole rollouts. What the table and the public code call batch norm is batch renormalisation."""
    return Config(
        total_steps=total_steps,
        env=EnvConfig(env, num_envs=1024),
        network=NetworkConfig(
            hidden=(512,),
            norm="batch_renorm",
            norm_input="batch_renorm",
            memory="lstm",
            memory_size=512,
            last_action=True,
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


_LAYER_NORM = {"network.norm": "layer"}
LIMIT = "episodes end after 10 000 steps (there: craftax's own limit, 100 000)"
POOLS = "256 new worlds every 16 steps (there: 64 at every step)"
_STATISTICS = (
    "targets and input statistics come from the steps as they were acted on (there: from one training pass over "
    "observations and their successors together)"
)
_NORM = "LayerNorm inside the network; with a normalised input the paper's norm ablation found the two similar"
_LAST_STEP = "the last step of a rollout has a loss, with a target from the value it was acted on (there: none)"
_MLP_DEVIATIONS = (BOOTSTRAPS, POOLS, _STATISTICS, RENORM)
_RNN_DEVIATIONS = (BOOTSTRAPS, POOLS, _NORM, TARGETS_ONCE, _LAST_STEP, NO_PAST_ACTION, RENORM)
_TENTH = "another game, Craftax-Classic, and a tenth of the steps"

PRESETS = {
    "craftax": Preset(
        _mlp(_FULL, 1_000_000_000).replace(_OURS), "Craftax, feed-forward", _MLP_SOURCE, (LIMIT, *_MLP_DEVIATIONS)
    ),
    "craftax-paper": Preset(
        _mlp(_FULL, 1_000_000_000).replace(_PAPER),
        "Craftax, feed-forward, as published",
        _MLP_SOURCE,
        (_STATISTICS, RENORM),
    ),
    "craftax-rnn": Preset(
        _rnn(_FULL, 1_000_000_000).replace(_OURS | _LAYER_NORM),
        "Craftax with an LSTM, the paper's hardest single-agent result",
        _RNN_SOURCE,
        (LIMIT, *_RNN_DEVIATIONS),
    ),
    "craftax-rnn-paper": Preset(
        _rnn(_FULL, 1_000_000_000).replace(_PAPER | {"learner.targets": "minibatch"}),
        "Craftax with an LSTM, as published",
        _RNN_SOURCE,
        (_LAST_STEP, NO_PAST_ACTION, RENORM),
    ),
    "craftax-classic": Preset(
        _mlp(_CLASSIC, 100_000_000).replace(_OURS),
        "Craftax-Classic, feed-forward",
        _MLP_SOURCE,
        (_TENTH, *_MLP_DEVIATIONS),
    ),
    "craftax-classic-rnn": Preset(
        _rnn(_CLASSIC, 100_000_000).replace(_OURS | _LAYER_NORM),
        "Craftax-Classic with an LSTM",
        _RNN_SOURCE,
        (_TENTH, *_RNN_DEVIATIONS),
    ),
}
