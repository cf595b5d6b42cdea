"""What the page says about several runs: a table to sort, and how probable it is that one is better than another."""

from __future__ import annotations

from pqn.report.html import comparison
from pqn.report.html.gather import RunRecord
from pqn.report.html.markup import Child, Html, element
from pqn.report.html.tables import NONE, cell, table, value
from pqn.runs.configs import flat


def results(runs: list[RunRecord]) -> list[Child]:
    """The table to sort."""
    options = comparison.varied(runs)
    names = (
        "run",
        "environment",
        *options,
        "seeds",
        "steps",
        "mean",
        "IQM",
        "95 % low",
        "95 % high",
        "over run",
        "steps/s",
    )
    rows = []
    for run in runs:
        chosen = flat(run.config)
        ours = [_option(chosen[name]) for name in options]
        counts = [cell(run.config.seeds), cell(run.steps)]
        rows.append([run.label, run.config.env.name, *ours, *counts, *_outcome(comparison.outcome(run))])
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
        "In brackets: 95 % bootstrap interval."
    )
    left = len(runs) - len(shown)
    return [
        element("div", inside, class_="scroll", tabindex="0", role="region", aria_label=f"Improvement in {env}"),
        element("p", note + (f" {left} more runs are not shown." if left else ""), class_="note"),
    ]


def _probability(pair: comparison.Pair | None) -> Html:
    if pair is None:
        return element("td", NONE, class_="number")
    interval = element("span", f"[{pair.low:.2f}, {pair.high:.2f}]", class_="interval")
    return element("td", f"{pair.probability:.2f} ", interval, class_=f"number share-{round(10 * pair.probability)}")


def _option(entry: object) -> Child:
    """The value of an option; a number can be sorted as one."""
    return cell(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else value(entry)


def _outcome(found: comparison.Outcome) -> list[Child]:
    numbers = (found.mean, found.iqm, found.low, found.high, found.over_run, found.steps_per_second)
    return [cell(entry) for entry in numbers]
