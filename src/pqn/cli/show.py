"""How the end of a run looks on the terminal."""

from __future__ import annotations

from pqn.metrics import curve, read_metrics
from pqn.progress import clock, human
from pqn.report.figures import terminal_curve
from pqn.runs import RunDir
from pqn.training import Result


def show_result(result: Result) -> None:
    """The curve, the numbers and where they are."""
    summary = result.summary
    steps, values = curve(read_metrics(RunDir.open(result.run).metrics), "eval")
    if len(steps) > 1:
        print(f"\ngreedy return over {human(summary['steps'])} steps")
        print(terminal_curve(steps, values))
    print()
    if summary["eval_return"] is not None:
        per_seed = summary["eval_return"]["per_seed"]
        seeds = f" (seeds: {', '.join(f'{value:.1f}' for value in per_seed)})" if len(per_seed) > 1 else ""
        print(f"greedy return   {summary['eval_return']['mean']:.1f}{seeds}")
    print(
        f"speed           {human(summary['steps_per_second'])} steps/s"
        f" ({clock(summary['wall_seconds'])} in all, {summary['compile_seconds']:.1f} s of it compiling)"
    )
    print(f"run directory   {result.run}")
