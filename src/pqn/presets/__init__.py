"""Presets: one tuned configuration per published result, each with the source of its numbers.

`…-paper` presets are the published settings to the letter, including counting a time limit as a terminal state. Where a
measurement of ours found something better, the plain name has it and says how it was found.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pqn.config import Config
from pqn.errors import ConfigError, suggest
from pqn.presets import atari, classic, craftax, minatar, multiagent, recurrent


@dataclasses.dataclass(frozen=True)
class Preset:
    """A configuration, what it is for, and where its numbers come from."""

    config: Config
    description: str
    source: str
    group: str = ""
    """Presets that differ in a name only have a group, and are listed as one."""


PRESETS: dict[str, Preset] = {
    name: Preset(config.replace(preset=name), description, source, getattr(family, "GROUP", ""))
    for family in (classic, minatar, recurrent, craftax, multiagent, atari)
    for name, (config, description, source) in family.PRESETS.items()
}


def preset(name: str, options: dict[str, Any] | None = None, /, **top: Any) -> Config:
    """The configuration of a preset, with options changed on top.

    >>> preset("cartpole", {"learner.lam": 0.5}, seeds=10).learner.lam
    0.5

    Raises:
      ConfigError: there is no such preset or option; the message suggests the nearest.
    """
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name!r}{suggest(name, PRESETS)} (`pqn presets` lists them)")
    return PRESETS[name].config.replace(options, **top)
