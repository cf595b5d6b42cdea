"""The numbers behind the tables: matrices of seeds × tasks for each method, intervals, and who is better."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pqn.envs.catalog import ATARI_TITLES
from pqn.errors import RunError
from pqn.experiments.chosen import Choice
from pqn.experiments.paper import Arm, Experiment
from pqn.report.atari import human_normalised
from pqn.report.statistics import bootstrap_interval, improvement_interval, iqm, probability_of_improvement

PUBLIC = Path("public") / "public-pqn-h200.jsonl"
_GAMES = {title: game for game, title in ATARI_TITLES.items()}

Chosen = Mapping[Arm, Choice]
Made = TypeVar("Made")


class Estimate(NamedTuple):
    """An interquartile mean with its 95 % interval."""

    value: float
    low: float
    high: float
    seeds: int
    tasks: int = 1


class Public(NamedTuple):
    """What the paper's own code reached in a run on the same model of GPU."""

    value: float | None
    seeds: int
    steps_per_second: float


class Improvement(NamedTuple):
    """How likely one method beats another on a task, averaged over tasks."""

    ours: str
    theirs: str
    probability: float
    low: float
    high: float
    tasks: int


def values(entry: Experiment, choice: Choice) -> np.ndarray:
    """The metric of each seed, as tables show it [S]."""
    return choice.result.per_seed * entry.scale


def estimate_of(entry: Experiment, choice: Choice) -> Estimate:
    """Of one arm."""
    found = values(entry, choice)
    known = found[~np.isnan(found)]
    low, high = bootstrap_interval(known) if len(known) else (math.nan, math.nan)
    return Estimate(float(iqm(known)), float(low), float(high), len(known))


def matrix(entry: Experiment, chosen: Chosen, method: str, tasks: tuple[str, ...]) -> np.ndarray:
    """Seeds × tasks of a method, normalised as the experiment says; NaN fills tasks with fewer seeds."""
    columns = [_normalised(entry, chosen, arm, task) for task in tasks for arm in entry.arms
               if arm.method == method and arm.task == task]  # fmt: skip
    rows = max((len(column) for column in columns), default=0)
    found = np.full((rows, len(columns)), np.nan)
    for place, column in enumerate(columns):
        found[: len(column), place] = column
    return found


def _normalised(entry: Experiment, chosen: Chosen, arm: Arm, task: str) -> np.ndarray:
    found = values(entry, chosen[arm])
    if entry.aggregate == "human":
        return human_normalised(_GAMES[task], found)
    if entry.aggregate == "per_maximum":
        best = max(np.nanmean(values(entry, choice)) for other, choice in chosen.items() if other.task == task)
        return found / best
    return found


def tasks_of(entry: Experiment, chosen: Chosen, *methods: str) -> tuple[str, ...]:
    """The tasks on which all of some methods have results."""
    have = {(arm.method, arm.task) for arm in chosen}
    return tuple(task for task in entry.tasks if all((method, task) in have for method in methods))


def aggregate(entry: Experiment, chosen: Chosen, method: str) -> Estimate | None:
    """The interquartile mean over seeds and tasks, with an interval stratified by task.

    None where there are no two tasks, and where scores are divided by the best of several methods and there is one.
    """
    tasks = tasks_of(entry, chosen, method)
    rivals = {arm.method for arm in chosen}
    if entry.aggregate == "none" or len(tasks) < 2 or (entry.aggregate == "per_maximum" and len(rivals) < 2):
        return None
    found = matrix(entry, chosen, method, tasks)
    low, high = bootstrap_interval(found)
    return Estimate(float(iqm(found)), float(low), float(high), len(found), len(tasks))


def improvements(entry: Experiment, chosen: Chosen) -> list[Improvement]:
    """The first method that has results against each other one, on the tasks that both have."""
    methods = [method for method in entry.methods if tasks_of(entry, chosen, method)]
    found = []
    for other in methods[1:]:
        tasks = tasks_of(entry, chosen, methods[0], other)
        if tasks:
            sign = -1.0 if entry.lower_is_better else 1.0
            ours, theirs = (sign * matrix(entry, chosen, method, tasks) for method in (methods[0], other))
            low, high = improvement_interval(ours, theirs)
            chance = probability_of_improvement(ours, theirs)
            found.append(Improvement(methods[0], other, chance, float(low), float(high), len(tasks)))
    return found


def public_results(out: Path) -> dict[str, Public]:
    """What the paper's own code reached, by the name of its task; of several runs the one with the most steps.

    Raises:
      RunError: the file is damaged.
    """
    return read_public(out, lambda rows: {row["name"]: _public(row) for row in rows})


def read_public(out: Path, made: Callable[[list[dict[str, Any]]], Made]) -> Made:
    """What `made` makes of the rows about the paper's own code, the longest run last; of no rows, where there are none.

    Raises:
      RunError: the file is damaged.
    """
    path = out / PUBLIC
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        return made(sorted(rows, key=lambda row: (row["steps"], row["seeds"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def _public(row: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> Public:
    final = row["test_final"].get("returned_episode_returns")
    value = float(iqm(final["per_seed"])) if final else None
    return Public(value, int(str(row["seeds"])), float(str(row["steps_per_s"])))
