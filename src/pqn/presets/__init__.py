"""Presets: one configuration per published result, each with the source of its numbers and what differs from it.

`…-paper` presets are the published settings, as exactly as the learner can express them, including counting a time
limit as a terminal state. Every experiment of the paper has one. The plain name is what we recommend: it bootstraps at
the time limit, and where a measurement of ours found something better it says how it was found.

Names that begin with another algorithm, as `ppo-craftax` does, are the paper's opponents (files `replay` and `ppo`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pqn.config import ALGORITHMS, Config
from pqn.errors import ConfigError, suggest
from pqn.fields import brief
from pqn.presets import atari, classic, craftax, minatar, multiagent, ppo, recurrent, replay
from pqn.presets.base import Preset

__all__ = ["PRESETS", "VARIANTS", "Preset", "preset", "presets_of"]

PRESETS: dict[str, Preset] = {
    name: dataclasses.replace(entry, config=entry.config.replace(preset=name))
    for family in (classic, minatar, recurrent, craftax, multiagent, atari, replay, ppo)
    for name, entry in family.PRESETS.items()
}

VARIANTS = ("ppo-rnn", "ippo", "mappo", "vdn-replay", "qmix-replay")
"""What an algorithm is called with a certain network, critic or mixer; the names of their presets begin with it."""


def presets_of(algorithm: str) -> dict[str, Preset]:
    """The presets of an algorithm, or of one of its variants.

    Raises:
      ConfigError: there is neither.
    """
    if algorithm in ALGORITHMS:
        return {name: entry for name, entry in PRESETS.items() if entry.config.algorithm == algorithm}
    if algorithm in VARIANTS:
        return {name: entry for name, entry in PRESETS.items() if name.startswith(f"{algorithm}-")}
    known = (*ALGORITHMS, *VARIANTS)
    hint = suggest(str(algorithm), known) or f"; there are {', '.join(known)}"
    raise ConfigError(f"there is no algorithm {brief(algorithm)}{hint}")


def preset(name: str, options: Mapping[str, object] | None = None, /, **top: object) -> Config:
    """The configuration of a preset, with options changed on top.

    Examples:
      >>> preset("cartpole", {"learner.lam": 0.5}, seeds=10).learner.lam
      0.5

    Raises:
      ConfigError: there is no such preset or option; the message suggests the nearest.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"there is no preset {brief(name)}{suggest(str(name), PRESETS)} (`pqn presets` lists them)")
    return PRESETS[name].config.replace(options, **top)
