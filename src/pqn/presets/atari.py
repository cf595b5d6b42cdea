"""Atari: one rule for all 57 games, `atari-pong` to `atari-zaxxon`."""

from __future__ import annotations

from pqn.config import Config, EnvConfig, EvalConfig, LearnerConfig, NetworkConfig
from pqn.envs.atari_games import ATARI_57, title

GROUP = "atari-GAME"
_TABLE = (
    "the paper's hyperparameter table and public configuration, for the 200M frames of its Atari-10 results (that "
    "configuration's own default is 1e7 steps); bootstrapping at the time limit"
)


def paper(game: str) -> Config:
    """The published setting: 50 million steps of four frames, the Nature network with LayerNorm."""
    return Config(
        total_steps=50_000_000,
        env=EnvConfig(f"atari:{game}", num_envs=128, kwargs={"protocol": "paper"}),
        network=NetworkConfig(torso="nature", hidden=(512,), init="he_normal"),
        learner=LearnerConfig(
            rollout_steps=32,
            epochs=2,
            minibatches=32,
            lr=2.5e-4,
            lr_decay=False,
            max_grad_norm=10.0,
            gamma=0.99,
            lam=0.65,
            eps_start=1.0,
            eps_finish=0.001,
            eps_decay=0.1,
        ),
        # Eight games as in the paper, which steps them beside the training; a game lasts up to 27 000 steps.
        eval=EvalConfig(num_envs=8),
    )


PRESETS = {f"atari-{game}": (paper(game), f"Atari {title(game)}", _TABLE) for game in ATARI_57}
