"""The experiments that are not trainings, in the form that results have: final values and curves, for each seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from pqn.experiments import baird, deepsea, lemma
from pqn.experiments.configs import BairdConfig, DeepSeaConfig, LemmaConfig
from pqn.experiments.envelope import Curves, PerSeed
from pqn.experiments.paper import Arm

Tell = Callable[[str], None]
POINTS = 50  # of a curve


class Computed(NamedTuple):
    """What a computation found."""

    final: dict[str, PerSeed]
    curves: dict[str, Curves]
    steps: int
    budget: int
    config: dict[str, object]


def compute(
    arm: Arm, share: float, seeds: int, options: Mapping[str, object] | None = None, progress: Tell | None = None
) -> Computed:
    """Runs Baird's counterexample, the lemma or DeepSea for one arm.

    A share means fewer updates, fewer widths or fewer episodes.
    """
    changes = {**arm.options, **(options or {}), "seeds": seeds}
    if arm.program == "baird":
        return _baird(changes, share, progress)
    if arm.program == "lemma":
        return _lemma(changes, share, progress)
    return _deepsea(changes, share, progress)


def _baird(changes: dict[str, object], share: float, progress: Tell | None) -> Computed:
    whole = dataclasses.replace(BairdConfig(), **changes)
    updates = max(round(whole.updates * share / whole.records), 1) * whole.records
    result = baird.run(dataclasses.replace(whole, updates=updates), progress)
    (kind,), (arm,) = whole.kinds, whole.arms
    return of_baird(result, kind, arm, whole.updates)


def of_baird(result: baird.BairdResult, kind: str, arm: str, budget: int) -> Computed:
    """One learner of a result of Baird's counterexample."""
    curves, updates = result.curves[kind][arm], result.updates()
    final = {
        "converged": (curves.error[:, -1] < baird.CONVERGED).astype(float),
        "diverged": (curves.norm.max(1) / curves.norm[:, 0] > baird.DIVERGED).astype(float),
        "error": curves.error[:, -1],
        "growth": curves.norm.max(1) / curves.norm[:, 0],
    }
    shown = {"log10_error": np.log10(np.maximum(curves.error, 1e-12)).T, "norm": curves.norm.T}
    config = dataclasses.asdict(dataclasses.replace(result.config, arms=(arm,), kinds=(kind,)))
    return Computed(_lists(final), {"run": _curves(updates, shown)}, result.config.updates, budget, config)


def _lemma(changes: dict[str, object], share: float, progress: Tell | None) -> Computed:
    whole = dataclasses.replace(LemmaConfig(), **changes)
    needed = next(i for i, _ in enumerate(whole.widths, 1) if sum(k >= whole.fit_from for k in whole.widths[:i]) >= 2)
    count = max(round(len(whole.widths) * share), needed)
    result = lemma.run(dataclasses.replace(whole, widths=whole.widths[:count]), progress)
    (norm,) = whole.norms
    return of_lemma(result, norm, len(whole.widths))


def of_lemma(result: lemma.LemmaResult, norm: str, budget: int) -> Computed:
    """One norm of a result of the lemma, at the largest width. Slopes are of medians, so all seeds have the same."""
    seeds = result.config.seeds
    final = {name: values[:, -1] for name, values in result.width["random"][norm].items()}
    final |= {f"baird_{name}": values[:, -1] for name, values in result.width["baird"][norm].items()}
    for mdp, norms in result.slopes().items():
        final |= {f"{mdp}_slope_{name}": np.full(seeds, value) for name, value in norms[norm].items()}
    shown = {
        f"log10_{name}": np.log10(np.maximum(result.width["random"][norm][name], 1e-12)).T for name in lemma.PREDICTED
    }
    config = dataclasses.asdict(dataclasses.replace(result.config, norms=(norm,)))
    widths = np.asarray(result.config.widths)
    return Computed(_lists(final), {"run": _curves(widths, shown)}, len(widths), budget, config)


def _deepsea(changes: dict[str, object], share: float, progress: Tell | None) -> Computed:
    whole = dataclasses.replace(DeepSeaConfig(), **changes)
    episodes = max(round(whole.episodes * share / whole.chunk), 1) * whole.chunk
    config = dataclasses.replace(whole, episodes=episodes)
    (norm,) = whole.norms
    return of_deepsea(config, norm, deepsea.run(config, progress).runs[norm], whole.episodes)


def of_deepsea(config: DeepSeaConfig, norm: str, runs: deepsea.DeepSeaRuns, budget: int) -> Computed:
    """One norm of a result of DeepSea. It may have stopped early, with every seed solved; nothing is missing then."""
    given, done = config.episodes, runs.found.shape[1]
    final = {
        "solved_episode": np.array([given if episode is None else episode for episode in runs.solved()], float),
        "solved": np.array([episode is not None for episode in runs.solved()], float),
        "first_treasure": np.array([given if e is None else e for e in runs.first_treasure()], float),
        "last_100_success": runs.found[:, -100:].mean(1),
    }
    places = np.unique(np.linspace(1, done, min(POINTS, done)).astype(int))
    bad = runs.regret()[:, places - 1] / places
    chosen = dataclasses.asdict(dataclasses.replace(config, norms=(norm,)))
    # Solved means that nothing can change any more, so the episodes that were not played count as played.
    return Computed(_lists(final), {"run": _curves(places, {"bad_episodes": bad.T})}, given, budget, chosen)


def _curves(steps: np.ndarray, values: Mapping[str, np.ndarray]) -> Curves:
    return Curves([int(step) for step in steps], [None] * len(steps), {k: _rows(v) for k, v in values.items()})


def _rows(values: np.ndarray) -> list[PerSeed]:
    return [[float(value) for value in row] for row in values]


def _lists(values: Mapping[str, np.ndarray]) -> dict[str, PerSeed]:
    return {name: [float(value) for value in array] for name, array in values.items()}
