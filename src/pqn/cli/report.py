"""`pqn report RUN… [-o FILE.html]`: write one HTML page about runs, to open or to send."""

from __future__ import annotations

from pqn.cli import options


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "report",
        description="Writes one HTML file that needs nothing else: curves, results, configuration, versions.\n"
        "Several runs, or the directory of a sweep, are compared.",
    )
    parser.add_argument("runs", type=options.path, metavar="RUN", nargs="+", help="run directories, or one of a sweep")
    parser.add_argument(
        "-o", "--out", type=options.path, metavar="FILE", default="report.html", help="default: report.html"
    )
    parser.add_argument("--title", default=None, metavar="TEXT", help="of the page (default: the name of the run)")
    given = parser.parse(argv)

    from pqn.report.html import write_report

    print(write_report(given.runs, given.out, title=given.title, warn=options.warn))
    return 0
