"""`pqn runs [DIR…]`: list runs, how far they came and how they ended."""

from __future__ import annotations

import sys

from pqn.cli import options
from pqn.progress import human
from pqn.runs.json_text import to_json
from pqn.runs.listing import RunInfo, list_runs
from pqn.runs.tidy import as_csv
from pqn.terminal import columns, cut

HEADER = ("name", "preset", "env", "algorithm", "steps", "status", "greedy return", "date", "path")


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "runs",
        description="Lists the runs below some directories, the oldest first. A run that cannot be read is listed as\n"
        "broken, with the reason. Nothing of a run is executed.",
    )
    parser.add_argument(
        "directories", type=options.path, metavar="DIR", nargs="*", help="where to look (default: runs)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print comma-separated values, with every column")
    form.add_argument("--json", action="store_true", help="print a JSON list of objects")
    given = parser.parse(argv)
    found = [info for directory in given.directories or ["runs"] for info in list_runs(directory)]
    lines = [info.to_dict() for info in found]
    if given.json:
        print(to_json(lines, indent=1))
    elif given.csv:
        print(as_csv(lines, list(RunInfo.__dataclass_fields__)), end="")
    elif not found:
        print("there are no runs")
    else:
        _table(found)
    return 0


def _table(found: list[RunInfo]) -> None:
    rows = [HEADER, *(_row(info) for info in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row, info in zip(rows, [None, *found], strict=True):
        line = "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip()
        print(cut(line, columns(sys.stdout)) if sys.stdout.isatty() else line)
        if info is not None and info.reason:
            print(f"  {info.reason}")


def _row(info: RunInfo) -> tuple[str, ...]:
    steps = (
        "" if info.steps is None or info.total_steps is None else f"{human(info.steps)} of {human(info.total_steps)}"
    )
    returned = "" if info.eval_return is None else f"{info.eval_return:.1f}"
    date = (info.date or "").replace("T", " ")[:16]
    words = (info.preset, info.env, info.algorithm)
    return (info.name, *(word or "" for word in words), steps, info.status, returned, date, str(info.path))
