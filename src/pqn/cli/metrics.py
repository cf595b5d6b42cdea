"""`pqn metrics RUN [-o FILE.csv]`: print the metrics of a run as a table, in CSV."""

from __future__ import annotations

from pqn.cli import options
from pqn.runs.directory import RunDir
from pqn.runs.tidy import KINDS, Metrics


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "metrics",
        description="Comma-separated values: a line for each row of metrics.jsonl and each seed, a column for each\n"
        "number. Returns and lengths are means over the episodes that ended.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    parser.add_argument("--kind", choices=KINDS, metavar="|".join(KINDS), help="only these rows (default: all)")
    parser.add_argument("-o", "--out", type=options.path, metavar="FILE", help="write them to a file instead")
    given = parser.parse(argv)
    metrics = Metrics.of(RunDir.open(given.run))
    if given.out:
        print(metrics.to_csv(given.out, given.kind))
    else:
        print(metrics.csv(given.kind), end="")
    return 0
