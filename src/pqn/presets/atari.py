"""Atari: one rule for all 57 games, `atari-pong` to `atari-zaxxon`, and `atari-pong-paper` to `atari-zaxxon-paper`."""

from __future__ import annotations

from pqn.config import Config
from pqn.envs.catalog import ATARI_57, ATARI_TITLES
from pqn.options import EnvConfig, EvalConfig, LearnerConfig, NetworkConfig
from pqn.presets.base import BOOTSTRAPS, Preset

_TABLE = (
    "the paper's table of hyperparameters and public configuration, for the 200M frames of its Atari-10 results (its "
    "Atari-57 scores are after 400M: --total-steps 100000000; the public configuration's own default is 1e7 steps)"
)
_DEVIATIONS = (
    "games run in ale-py with same-step resets (there: EnvPool, whose reset takes a step of its own, which the public "
    "script learns from as if it were a transition; docs/atari.md)",
    "the final evaluation plays whole games (there: only the eight games beside the training)",
)


def _paper(game: str) -> Config:
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
            bootstrap_truncation=False,
        ),
        # Eight games as in the paper, which steps them beside the training; a game lasts up to 27 000 steps.
        eval=EvalConfig(num_envs=8),
    )


PRESETS = {
    f"atari-{game}": Preset(
        _paper(game).replace({"learner.bootstrap_truncation": True}),
        f"Atari {ATARI_TITLES[game]}",
        _TABLE,
        (BOOTSTRAPS, *_DEVIATIONS),
        "atari-GAME",
    )
    for game in ATARI_57
} | {
    f"atari-{game}-paper": Preset(
        _paper(game), f"Atari {ATARI_TITLES[game]} as published", _TABLE, _DEVIATIONS, "atari-GAME-paper"
    )
    for game in ATARI_57
}
