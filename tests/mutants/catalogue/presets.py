"""Presets: numbers that are not those of the paper."""

from __future__ import annotations

from ..mutation import mutation

MARL = "presets/multiagent.py"
TABLE = "presets/test_preset_table.py::test_numbers_are_those_of_the_table"

MUTATIONS = [
    mutation(
        "preset-smax-lambda",
        MARL,
        "lam=0.85,",
        "lam=0.5,",
        "SMAX trains with another λ than published.",
        f"{TABLE}[smax-2s3z]",
    ),
    mutation(
        "preset-smax-lr",
        MARL,
        "lr=2.5e-4,",
        "lr=5e-4,",
        "SMAX trains with another learning rate.",
        f"{TABLE}[smax-2s3z]",
    ),
    mutation(
        "preset-smax-reward-scale",
        MARL,
        "reward_scale=10.0,",
        "reward_scale=1.0,",
        "SMAX trains on rewards ten times smaller than published.",
        f"{TABLE}[smax-2s3z]",
    ),
    mutation(
        "preset-overcooked-lr",
        MARL,
        "lr=7.5e-5,",
        "lr=5e-4,",
        "Overcooked trains with another learning rate.",
        f"{TABLE}[overcooked-cramped_room]",
    ),
    mutation(
        "preset-overcooked-shaping",
        MARL,
        "SHAPING = 2_500_000",
        "SHAPING = 5_000_000",
        "Overcooked's shaping fades over the whole run.",
        f"{TABLE}[overcooked-cramped_room]",
    ),
    mutation(
        "preset-hanabi-lr",
        MARL,
        "lr=3e-4,",
        "lr=5e-4,",
        "Hanabi trains with another learning rate.",
        f"{TABLE}[hanabi]",
    ),
    mutation(
        "preset-craftax-clip",
        "presets/craftax.py",
        "max_grad_norm=0.5,",
        "max_grad_norm=1.0,",
        "Craftax with memory clips gradients elsewhere.",
        f"{TABLE}[craftax-rnn]",
    ),
    mutation(
        "preset-craftax-lambda",
        "presets/craftax.py",
        "lam=0.5,",
        "lam=0.95,",
        "Craftax with memory trains with another λ than published.",
        f"{TABLE}[craftax-rnn]",
    ),
    mutation(
        "preset-atari-epsilon",
        "presets/atari.py",
        "eps_finish=0.001,",
        "eps_finish=0.01,",
        "Atari explores ten times as much as published.",
        f"{TABLE}[atari-pong]",
    ),
    mutation(
        "preset-minatar-lambda",
        "presets/minatar.py",
        "lam=0.65,",
        "lam=0.95,",
        "MinAtar trains with another λ than published.",
        f"{TABLE}[minatar-breakout-paper]",
    ),
    mutation(
        "preset-classic-epochs",
        "presets/classic.py",
        "epochs=4,",
        "epochs=2,",
        "CartPole and Acrobot learn half as often from a rollout.",
        f"{TABLE}[acrobot-paper]",
    ),
]
