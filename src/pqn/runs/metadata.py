"""The metadata of a run and of its checkpoints: each function checks one entry and returns it.

All raise ValueError with the rest of a sentence, such as "it does not say how long the run took".
"""

from __future__ import annotations

import math

import numpy as np

from pqn.config import Config
from pqn.runs import files
from pqn.runs.configs import is_text
from pqn.runs.leaves import Contents

# The parts of a state, of either kind of program: nothing else belongs in a checkpoint.
# Older versions called `greedy` `beside`.
_PARTS = {"learner", "stream", "key", "whole", "greedy", "beside", "envs"}


def counters(contents: Contents, config: Config) -> tuple[int, int]:
    """Updates and environment steps. There are several copies of each, which must agree."""
    meta, leaves = contents.metadata, contents.leaves
    unknown = sorted({name.partition("/")[0] for name in leaves} - _PARTS)
    if unknown:
        raise ValueError(f"it holds {unknown[0]!r}, which is no part of a run's state")
    if max(len(config.network.hidden), config.network.memory_layers) > len(leaves):
        raise ValueError("its configuration has more layers than it has arrays")
    update, counted = meta.get("update"), contents.arrays.get("learner/updates")
    if counted is None or counted.shape != (config.seeds,) or counted.dtype != np.int32:
        raise ValueError(f"it has no counter of updates for each of {config.seeds} seeds")
    if type(update) is not int or any(counted != update):
        raise ValueError(f"it says update {update!r:.30}, and its arrays are of update {counted[0]}")
    if not 0 <= update <= config.updates:
        raise ValueError(f"it says update {update}, and its configuration ends at {config.updates}")
    if meta.get("step") != update * config.steps_per_update:
        raise ValueError(f"it says {meta.get('step')!r:.30} steps after {update} updates")
    return update, update * config.steps_per_update


def seconds(data: object) -> dict[str, float]:
    """How long the run had taken: "wall" and "train"."""
    if not isinstance(data, dict) or not all(_is_duration(data.get(name)) for name in ("wall", "train")):
        raise ValueError("it does not say how long the run took")
    return {name: float(data[name]) for name in ("wall", "train")}


def returns(data: object, seeds: int) -> np.ndarray | None:
    """[S, E] of the last evaluation; NaN where an episode did not end, None where there was no evaluation."""
    if data is None:
        return None
    try:
        found = np.array(data, np.float64)  # None becomes NaN
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(0)
    if found.ndim != 2 or len(found) != seeds:
        raise ValueError(f"it has no returns for each of {seeds} seeds")
    return found


def rows(data: object) -> dict[str, int] | None:
    """How many rows of each kind the metrics had; None: not recorded."""
    if data is None:
        return None
    if not isinstance(data, dict) or not all(type(count) is int and count >= 0 for count in data.values()):
        raise ValueError("it does not count the rows of the metrics")
    return data


def identifier(value: object) -> str | None:
    """The id of a run; None for a run that is older than ids."""
    if value is None:
        return None
    if not isinstance(value, str) or not (is_text(value) and value.isalnum()):
        raise ValueError("it has no proper id of the run")
    return value


def origin(data: object) -> str | None:
    """The name of the run whose weights a run started from; None where it started from fresh ones."""
    if data is None:
        return None
    path = data.get("path") if isinstance(data, dict) else None
    if not isinstance(path, str):
        raise ValueError("it does not say from which weights the run started")
    return files.shown(path)


def versions(data: object) -> dict[str, str | None]:
    """Versions of packages by their names."""
    if not isinstance(data, dict) or not all(v is None or is_text(v) for v in (*data, *data.values())):
        raise ValueError("it does not list versions")
    return data


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
