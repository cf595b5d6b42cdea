"""Every experiment of the paper, main text and appendix, as data."""

from __future__ import annotations

from pqn.errors import ConfigError, suggest
from pqn.experiments.paper import atari, single, teams, theory
from pqn.experiments.paper.base import Arm, Experiment, Published, estimate

__all__ = ["EXPERIMENTS", "Arm", "Experiment", "Published", "estimate", "experiment", "find_arms"]

EXPERIMENTS: dict[str, Experiment] = {
    entry.name: entry for family in (theory, single, atari, teams) for entry in family.EXPERIMENTS
}


def experiment(name: str) -> Experiment:
    """An experiment by its name.

    Raises:
      ConfigError: there is none; the message suggests the nearest.
    """
    if name not in EXPERIMENTS:
        raise ConfigError(
            f"there is no experiment {name!r}{suggest(name, EXPERIMENTS)} (`pqn reproduce --list` lists them)"
        )
    return EXPERIMENTS[name]


def find_arms(entry: Experiment, names: list[str] | None) -> tuple[Arm, ...]:
    """Some arms of an experiment by their names, or all.

    Raises:
      ConfigError: there is no such arm.
    """
    if not names:
        return entry.arms
    known = {arm.name: arm for arm in entry.arms}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{entry.name} has no arm {name!r}{suggest(name, known)} (`pqn reproduce {entry.name} --dry-run` lists "
                "them)"
            )
    return tuple(known[name] for name in names)
