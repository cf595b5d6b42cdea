"""What a command prints at the end of a run."""

from __future__ import annotations

import sys

from pqn.programs.evaluation import say_unfinished
from pqn.progress import clock, human
from pqn.report.terminal_chart import terminal_curve
from pqn.runs.directory import RunDir
from pqn.runs.metrics import Row, curve, read_metrics
from pqn.terminal import columns, showable
from pqn.training import Result


def show_result(result: Result) -> None:
    """The curve, the numbers and where they are."""
    summary = result.summary
    steps, values = curve(read_metrics(RunDir.open(result.run).metrics), "eval")
    if len(steps) > 1:
        print(f"\ngreedy return over {human(summary['steps'])} steps")
        dots = showable("⣿─│", sys.stdout) == "⣿─│"
        print(terminal_curve(steps, values, width=min(72, columns(sys.stdout) - 1), unicode=dots))
    print()
    if summary["eval_return"] is not None:
        print(f"greedy return   {_greedy(summary['eval_return'], summary.get('eval_unfinished'))}")
    print(
        f"speed           {human(summary['steps_per_second'])} steps/s"
        f" ({clock(summary['wall_seconds'])} in all, {summary['compile_seconds']:.1f} s of it compiling)"
    )
    if result.stopped is not None:
        planned = human(summary["requested_steps"])
        print(f"ended early     after {human(summary['steps'])} of {planned} steps: {result.stopped}")
    print(f"run directory   {result.run}")


def _greedy(returns: Row, unfinished: Row | None) -> str:
    """The mean over the episodes that ended, of each seed too where there are several, and how many did not end."""
    said = ""
    if unfinished is not None and unfinished["total"]:
        said = say_unfinished(unfinished["total"], unfinished["episodes"], unfinished["max_steps"])
    if returns["mean"] is None:
        return f"none: {said}"
    each = ["none" if value is None else f"{value:.1f}" for value in returns["per_seed"]]
    seeds = f" (seeds: {', '.join(each)})" if len(each) > 1 else ""
    return f"{returns['mean']:.1f}{seeds}" + (f"; {said}, which no mean includes" if said else "")
