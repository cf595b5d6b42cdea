"""How the plan of a run was changed while it was under way: each change is recorded in its config.json.

    "history": [{"update": 10, "step": 640, "options": {"total_steps": [640, 1280]}}]

Update 10 was the last one under the old plan. A checkpoint holds the configuration that it was trained with; that of an
older one is compared with the configuration of its time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from pqn.config import Config
from pqn.errors import ConfigError
from pqn.runs.configs import differences

OPTIONS = ("total_steps", "learner.schedule_steps", "learner.eps_decay", "learner.eps_points")
"""What a change of the plan may change."""
MOST_CHANGES = 1000


class Change(NamedTuple):
    """A change of the plan."""

    update: int
    """The last update under the old plan."""
    step: int
    """The same in environment steps, per seed."""
    options: dict[str, tuple[object, object]]
    """Name of an option -> its old and its new value."""

    def to_dict(self) -> dict[str, object]:
        return self._asdict()


def change(before: Config, after: Config, update: int) -> Change:
    """The change from one plan to another after `update` updates."""
    options = {name: (old, new) for name, (new, old) in differences(after, before).items()}
    return Change(update, update * before.steps_per_update, options)


def at(config: Config, history: Sequence[Change], update: int) -> Config:
    """The configuration that was in force until `update`: every change since then is taken back."""
    for later in reversed(history):
        if later.update >= update:
            config = config.replace({name: old for name, (old, _) in later.options.items()})
    return config


def rewound(history: Sequence[Change], update: int) -> list[Change]:
    """The history of a run that goes on from an older checkpoint than the one it was changed at: changed there."""
    return [
        later._replace(update=update, step=later.step * update // later.update) if later.update > update else later
        for later in history
    ]


def parse(data: object, config: Config) -> tuple[Change, ...]:
    """The history in a configuration file; none where it has none.

    Raises:
      ValueError: with the rest of a sentence.
    """
    if data is None:
        return ()
    if not isinstance(data, list) or len(data) > MOST_CHANGES:
        raise ValueError("its history is not a list of changes")
    changes = tuple(_parse(entry) for entry in data)
    if any(later.update < earlier.update for earlier, later in itertools.pairwise(changes)):
        raise ValueError("its history is not in order")
    try:
        at(config, changes, -1)  # every old value must be one
    except (ConfigError, TypeError, ValueError) as error:
        raise ValueError(f"its history has an old value that cannot be: {error}") from error
    return changes


def _parse(entry: object) -> Change:
    if not isinstance(entry, dict) or entry.keys() != {"update", "step", "options"}:
        raise ValueError("its history has an entry that is no change")
    update, step, options = entry["update"], entry["step"], entry["options"]
    if not all(type(count) is int and count >= 0 for count in (update, step)) or not isinstance(options, dict):
        raise ValueError("its history has an entry that is no change")
    if not options.keys() <= {*OPTIONS}:
        raise ValueError(f"its history says that an option was changed which is none of {', '.join(OPTIONS)}")
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in options.values()):
        raise ValueError("its history has an entry that is no change")
    return Change(update, step, {name: (old, new) for name, (old, new) in options.items()})
