"""What the page says about several runs: a table to sort, and how probable it is that one is better than another."""

from __future__ import annotations

import math

from pqn.report.html import comparison
from pqn.report.html.gather import RunRecord
from pqn.report.html.markup import Child, Html, element
from pqn.report.html.tables import NONE, cell, table, value
from pqn.runs.configs import flat


def results(runs: list[RunRecord]) -> list[Child]:
    """The table to sort."""
    options = comparison.varied(runs)
    several = len(comparison.by_environment(runs)) > 1
    # What was reached comes before the options: a screen may not have room for all columns.
    outcomes = ("mean", "IQM", "95 % low", "95 % high", "over run")
    names = ("run", *(("environment",) if several else ()), *outcomes, *options, "seeds", "steps", "steps/s")
    rows = []
    for run in runs:
        chosen = flat(run.config)
        ours = [_option(chosen[name]) for name in options]
        found = comparison.outcome(run)
        counts = [cell(run.config.seeds), cell(run.steps), cell(found.steps_per_second)]
        where = [run.config.env.name] if several else []
        rows.append([run.label, *where, *_outcome(found), *ours, *counts])
    note = (
        "Greedy returns of the last evaluation. IQM: interquartile mean over seeds, with its bootstrap interval. "
        "“Over run”: mean over all evaluations, which is higher for a run that learned earlier."
    )
    return [table(names, rows, "Results of all runs", hidden=True), element("p", note, class_="note")]


def matrix(env: str, runs: list[RunRecord]) -> list[Child]:
    """The probability that a seed of the run in the row ends higher than one of the run in the column."""
    shown = runs[: comparison.MOST_PAIRED]
    head = element("tr", element("td"), [element("th", run.label, scope="col") for run in shown])
    rows = [
        element("tr", element("th", run.label, scope="row"), [_probability(pair) for pair in pairs])
        for run, pairs in zip(shown, comparison.pairs(runs), strict=True)
    ]
    inside = element(
        "table",
        element("caption", f"{env}: probability that the run in the row is better than the run in the column"),
        element("thead", head),
        element("tbody", rows),
        class_="matrix",
    )
    note = (
        "Of a seed of each, drawn at random, by the last greedy evaluation; a draw counts half. "
        "In brackets: 95 % bootstrap interval, which a run of one seed cannot have."
    )
    left = len(runs) - len(shown)
    return [
        element("div", inside, class_="scroll", tabindex="0", role="region", aria_label=f"Improvement in {env}"),
        element("p", note + (f" {left} more runs are not shown." if left else ""), class_="note"),
    ]


def _probability(pair: comparison.Pair | None) -> Html:
    if pair is None:
        return element("td", NONE, class_="number")
    known = "" if math.isnan(pair.low) else f"[{pair.low:.2f}, {pair.high:.2f}]"
    interval = element("span", known, class_="interval")
    return element("td", f"{pair.probability:.2f} ", interval, class_=f"number share-{round(10 * pair.probability)}")


def _option(entry: object) -> Child:
    """The value of an option; a number can be sorted as one."""
    return cell(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else value(entry)


def _outcome(found: comparison.Outcome) -> list[Child]:
    return [cell(entry) for entry in (found.mean, found.iqm, found.low, found.high, found.over_run)]
