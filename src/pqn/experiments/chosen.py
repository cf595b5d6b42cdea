"""Which result of an arm a table, a figure or a sentence uses. The rule does not look at the score:

1. complete results only; 2. none that results/retired.toml names, with its reason; 3. the largest share of the budget;
4. the most seeds; 5. the newest.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from pqn.errors import RunError, reason
from pqn.experiments.envelope import Envelope, read_arm
from pqn.experiments.paper import Arm, Experiment

RETIRED = "retired.toml"
RULE = (
    "Of several results of an arm the one with the largest share of the budget is used, then the one with the most "
    "seeds, then the newest. Results that were not complete, or that `retired.toml` lists with a reason, are not used. "
    "The score plays no part."
)


class Choice(NamedTuple):
    """The result of an arm that counts, and what was passed over."""

    path: Path
    result: Envelope
    others: tuple[Path, ...]


def retired(out: Path) -> dict[str, str]:
    """Files that are not to be used, relative to `out`, with the reason.

    Raises:
      RunError: the list is damaged.
    """
    path = out / RETIRED
    if not path.exists():
        return {}
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("retired", [])
        return {entry["file"]: entry["reason"] for entry in entries}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(f"{path} is damaged: {why}") from error


def results(arm: Arm, out: Path) -> tuple[list[tuple[Path, Envelope]], list[RunError]]:
    """All results of an arm that can be read, and what is wrong with the others."""
    found = list(read_arm(out, arm.experiment, arm.name))
    good = [(path, result) for path, result in found if isinstance(result, Envelope)]
    return good, [error for _, error in found if isinstance(error, RunError)]


def choose(arm: Arm, out: Path, gone: dict[str, str] | None = None) -> Choice | None:
    """The result that counts; None where there is none."""
    gone = retired(out) if gone is None else gone
    good, _ = results(arm, out)
    usable = [
        (path, result) for path, result in good if result.complete and path.relative_to(out).as_posix() not in gone
    ]
    if not usable:
        return None
    path, result = max(usable, key=lambda each: (each[1].share, len(each[1].seeds), each[1].last.date))
    return Choice(path, result, tuple(other for other, _ in good if other != path))


def choices(entry: Experiment, out: Path) -> dict[Arm, Choice]:
    """The results that count of all arms that have one."""
    gone = retired(out)
    found = {arm: choose(arm, out, gone) for arm in entry.arms}
    return {arm: choice for arm, choice in found.items() if choice is not None}
