"""Tables of the theory's experiments, for docs/theory.md: more quantities of an arm than the experiment's metric."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pqn.experiments.chosen import choose
from pqn.experiments.envelope import Envelope
from pqn.experiments.paper import Arm, experiment

LOST = 1e6  # beyond this a norm or an error only says that the run is lost


def baird_table(out: Path) -> str:
    """For each learner, with expected / sampled updates: how many seeds diverged and converged, and the medians."""
    lines = [
        "| learner | diverged (norm grew more than 100 times) | converged (error below 0.01) | median growth of the "
        "norm | median final error |",
        "|---|---|---|---|---|",
    ]
    by_method: dict[str, dict[str, Envelope]] = {}
    for arm, result in _results("baird", out):
        by_method.setdefault(arm.method, {})[arm.task.partition(" ")[0]] = result
    for method, found in by_method.items():
        pair = [found[kind] for kind in ("expected", "sampled") if kind in found]
        cells = [
            " / ".join(_count(result, "diverged") for result in pair),
            " / ".join(_count(result, "converged") for result in pair),
            " / ".join(_median(result, "growth") for result in pair),
            " / ".join(_median(result, "error") for result in pair),
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    seeds = {len(result.seeds) for found in by_method.values() for result in found.values()}
    return "\n".join([*lines, "", f"*Expected / sampled updates, {_few(seeds)} seeds.*"])


def lemma_table(out: Path) -> str:
    """For each norm, on random chains / on Baird's: the slopes against width, and the terms at the largest width."""
    lines = [
        "| | slope of the M block (predicted −1) | slope of the nonlinear term (predicted −½) | w block, largest seed "
        "| eigenvalue with ℓ2, largest seed |",
        "|---|---|---|---|---|",
    ]
    seeds, widths = set(), set()
    for arm, result in _results("lemma", out):
        seeds.add(len(result.seeds))
        widths.add(max(result.curves["run"].steps))
        slopes = [
            " / ".join(f"{_value(result, f'{mdp}_slope_{name}'):.2f}" for mdp in ("random", "baird"))
            for name in ("off_M", "nonlinear")
        ]
        terms = [
            " / ".join(f"{_value(result, f'{prefix}{name}'):.3g}" for prefix in ("", "baird_"))
            for name in ("off_w", "regularised")
        ]
        lines.append(f"| {arm.method} | {' | '.join([*slopes, *terms])} |".replace("-0.00", "0.00").replace("-", "−"))
    caption = f"*Random chains / Baird's, {_few(seeds)} seeds; terms at width {_few(widths)}.*"
    return "\n".join([*lines, "", caption])


def deepsea_table(out: Path) -> str:
    """For each norm and depth: how many seeds solved it, and the median episode at which they did."""
    found = {(arm.method, arm.task): result for arm, result in _results("deepsea", out)}
    tasks, methods = experiment("deepsea").tasks, experiment("deepsea").methods
    lines = [f"| seeds that solved it, median episode | {' | '.join(tasks)} |", "|---" * (len(tasks) + 1) + "|"]
    for method in methods:
        cells = [
            f"{_count(found[method, task], 'solved')}, {np.median(found[method, task].per_seed):.0f}"
            if (method, task) in found
            else "–"
            for task in tasks
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    episodes = {result.steps for result in found.values()}
    seeds = {len(result.seeds) for result in found.values()}
    return "\n".join([*lines, "", f"*{_few(seeds)} seeds, up to {_few(episodes)} episodes.*"])


def _results(name: str, out: Path) -> list[tuple[Arm, Envelope]]:
    chosen = [(arm, choose(arm, out)) for arm in experiment(name).arms]
    return [(arm, choice.result) for arm, choice in chosen if choice is not None]


def _count(result: Envelope, metric: str) -> str:
    return f"{int(np.sum(np.array(result.final[metric], float)))} of {len(result.seeds)}"


def _median(result: Envelope, metric: str) -> str:
    value = float(np.median(np.array(result.final[metric], float)))
    return "lost" if value >= LOST else f"{value:.3g}".replace("-", "−")


def _value(result: Envelope, metric: str) -> float:
    return float(np.max(np.array(result.final[metric], float)))


def _few(numbers: set[int]) -> str:
    return " to ".join(str(number) for number in dict.fromkeys((min(numbers), max(numbers)))) if numbers else "no"
