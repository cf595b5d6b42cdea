"""The parts of pages: tables of results in the paper's layout, and numbers as they are written."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from pqn.experiments import numbers
from pqn.experiments.chosen import Choice
from pqn.experiments.numbers import Chosen, Estimate
from pqn.experiments.paper import Experiment

NOTHING = "–"


def results_table(entry: Experiment, out: Path, chosen: Chosen) -> str:
    """Tasks in rows; ours, the opponents, the paper's code and the paper in columns."""
    methods = [method for method in entry.methods if any(arm.method == method for arm in chosen)]
    public = numbers.public_results(out)
    coded = {task: found for task in entry.tasks if (found := public.get(public_name(entry, task) or ""))}
    has_code = any(found.value is not None for found in coded.values())
    paper = {arm.task: arm.paper for arm in reversed(entry.arms) if arm.paper is not None}
    heads = [entry.unit, *methods, *(["the paper's code"] if has_code else []), *(["the paper"] if paper else [])]
    lines = [row(heads), "|" + "---|" * len(heads)]
    by_place = {(arm.method, arm.task): choice for arm, choice in chosen.items()}
    for task in entry.tasks:
        if not any((method, task) in by_place for method in methods):
            continue
        cells = [task] + [cell(entry, by_place.get((method, task))) for method in methods]
        if has_code:
            code = coded.get(task)
            value = None if code is None or code.value is None else code.value * entry.scale
            cells.append(
                NOTHING if code is None or value is None else f"{number_text(value, entry.digits)} ({code.seeds})"
            )
        if paper:
            cells.append(NOTHING if task not in paper else number_text(paper[task], entry.digits))
        lines.append(row(cells))
    totals = [numbers.aggregate(entry, chosen, method) for method in methods]
    if any(total is not None for total in totals):
        shown = [NOTHING if total is None else f"{estimate_text(total, 2)} ({total.tasks} tasks)" for total in totals]
        lines.append(row([unit(entry, True), *shown, *[NOTHING] * (len(heads) - 1 - len(methods))]))
    return "\n".join(lines)


def cell(entry: Experiment, choice: Choice | None) -> str:
    if choice is None:
        return NOTHING
    found = numbers.values(entry, choice)
    count = int(np.sum(~np.isnan(found)))
    share = "" if choice.result.share == 1.0 else f", at {percent(choice.result.share)}"
    if entry.shown == "count":
        return f"{int(np.nansum(found))} of {count}{share}"
    return f"{estimate_text(numbers.estimate_of(entry, choice), entry.digits)} ({count}{share})"


def caption(entry: Experiment, chosen: Chosen) -> str:
    if entry.shown == "count":
        return f"*Number of {entry.unit}, of {counted(chosen)}.*"
    return (
        f"*{entry.unit[0].upper()}{entry.unit[1:]} at the end of the run: interquartile mean over seeds and its 95 % "
        "bootstrap interval, stratified by task where there are several; in parentheses the number of seeds "
        f"({seeds(chosen)}) and, where it is not all, the share of the budget.*"
    )


def drawn(entry: Experiment, chosen: Chosen) -> dict[str, list[tuple[str, list[int], np.ndarray]]]:
    """The panels of the experiment's figure: for each task the curve of each method."""
    metric = entry.curve or entry.metric
    panels: dict[str, list[tuple[str, list[int], np.ndarray]]] = {}
    for arm, choice in chosen.items():
        for name in ("greedy", "run"):
            curves = choice.result.curves.get(name)
            if curves is not None and metric in curves.values and len(curves.steps) > 1:
                values = curves.array(metric) * (1.0 if entry.curve else entry.scale)
                if np.isfinite(values).any():
                    panels.setdefault(arm.task, []).append((arm.method, curves.steps, values))
    return {f"{task}, {_seeds_of(curves)}": curves for task, curves in panels.items()}


def _seeds_of(curves: list[tuple[str, list[int], np.ndarray]]) -> str:
    """`10 seeds`: a figure travels without its caption."""
    found = sorted({values.shape[1] for _, _, values in curves})
    told = " to ".join(str(count) for count in dict.fromkeys((found[0], found[-1])))
    return f"{told} seed" if told == "1" else f"{told} seeds"


def improvement_table(entry: Experiment, chosen: Chosen) -> str:
    found = numbers.improvements(entry, chosen) if entry.shown == "iqm" else []
    if not found:
        return ""
    lines = ["## Probability of improvement", "", "| | probability [95 %] | tasks |", "|---|---|---|"]
    for each in found:
        chance = f"{each.probability:.2f} [{each.low:.2f}, {each.high:.2f}]"
        lines.append(row([f"{each.ours} better than {each.theirs}", chance, str(each.tasks)]))
    lines += ["", f"*That a run of the one is better than a run of the other on a task; {counted(chosen)}.*"]
    return "\n".join(lines)


def unit(entry: Experiment, together: bool) -> str:
    words = {"human": "human-normalised score", "per_maximum": "return divided by the best mean of the layout"}
    return words.get(entry.aggregate, entry.unit) if together else entry.unit


def public_name(entry: Experiment, task: str) -> str | None:
    return next((arm.public for arm in entry.arms if arm.task == task and arm.public is not None), None)


def shares(chosen: Chosen) -> str:
    found = sorted({choice.result.share for choice in chosen.values()})
    return " to ".join(percent(share) for share in dict.fromkeys((found[0], found[-1]))) if found else NOTHING


def seeds(chosen: Chosen) -> str:
    found = sorted({len(choice.result.seeds) for choice in chosen.values()})
    return " to ".join(str(count) for count in dict.fromkeys((found[0], found[-1]))) if found else NOTHING


def counted(chosen: Chosen) -> str:
    """`1 seed`, `3 to 10 seeds`."""
    told = seeds(chosen)
    return f"{told} seed" if told == "1" else f"{told} seeds"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def estimate_text(found: Estimate, digits: int) -> str:
    if math.isnan(found.value):
        return "no finished episode"
    if found.seeds < 2:
        return number_text(found.value, digits)
    return f"{number_text(found.value, digits)} [{number_text(found.low, digits)}, {number_text(found.high, digits)}]"


def number_text(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
