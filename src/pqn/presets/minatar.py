"""MinAtar: five Atari games reduced to 10×10 grids."""

from __future__ import annotations

from pqn.config import Config
from pqn.options import EnvConfig, LearnerConfig, NetworkConfig
from pqn.presets.base import BOOTSTRAPS, TRUE_LAMBDA, Preset

_GAMES = {
    "asterix": "Asterix-MinAtar",
    "breakout": "Breakout-MinAtar",
    "freeway": "Freeway-MinAtar",
    "spaceinvaders": "SpaceInvaders-MinAtar",
    "seaquest": "Seaquest-MinAtar",
}
COMPARED = {name: env for name, env in _GAMES.items() if name != "seaquest"}
"""The games of the paper."""
_PUBLIC = "the public configuration of the paper's MinAtar runs (the paper has no table for them)"
_PLANES = "observations are 0 and 1 (the public script divides them by 255, as if they were pixels)"


def _paper(env: str) -> Config:
    return Config(
        total_steps=10_000_000,
        env=EnvConfig(env, num_envs=128),
        network=NetworkConfig(torso="minatar", hidden=(128,), init="he_normal"),
        learner=LearnerConfig(
            rollout_steps=32,
            epochs=2,
            minibatches=32,
            lr=5e-4,
            lr_decay=True,
            max_grad_norm=10.0,
            gamma=0.99,
            lam=0.65,
            eps_start=1.0,
            eps_finish=0.05,
            eps_decay=0.1,
            bootstrap_truncation=False,
        ),
    )


PRESETS: dict[str, Preset] = {}
for _name, _env in _GAMES.items():
    _published, _title = _paper(_env), f"MinAtar {_env.removesuffix('-MinAtar')}"
    _source = _PUBLIC if _name != "seaquest" else f"{_PUBLIC}, which have no Seaquest"
    PRESETS[f"minatar-{_name}"] = Preset(
        _published.replace({"learner.bootstrap_truncation": True}),
        _title,
        _source,
        (BOOTSTRAPS, TRUE_LAMBDA, _PLANES),
    )
    PRESETS[f"minatar-{_name}-paper"] = Preset(_published, f"{_title} as published", _source, (TRUE_LAMBDA, _PLANES))
