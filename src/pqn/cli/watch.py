"""`pqn watch RUN`: follow a run that is under way."""

from __future__ import annotations

import sys
from typing import Annotated

from pqn.cli import options
from pqn.fields import Within

CLEAR = "\x1b[H\x1b[2J"  # the cursor to the corner, and nothing on the screen


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "watch",
        description="Shows progress, the last rows and the curve of a run, until it ends or Ctrl-C. It only reads\n"
        "files: the run goes on whatever happens here.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    seconds = options.within(Annotated[float, Within(0.1, 3600.0)])
    parser.add_argument("--every", type=seconds, default=1.0, metavar="S", help="seconds between looks (default: 1)")
    parser.add_argument("--once", action="store_true", help="show the present state and end")
    given = parser.parse(argv)

    from pqn.terminal import columns, showable
    from pqn.watch import live

    dots = showable("⣿─│█", sys.stdout) == "⣿─│█"

    def show(snapshot: live.Snapshot) -> None:
        text = live.screen(snapshot, columns(sys.stdout) - 1, dots)
        if given.once or snapshot.ended:
            print(text if given.once or not sys.stdout.isatty() else CLEAR + text, flush=True)
        else:
            print(CLEAR + text if sys.stdout.isatty() else live.line(snapshot), flush=True)

    if given.once:
        show(live.look(given.run))
        return 0
    try:
        live.follow(given.run, show, given.every)
    except KeyboardInterrupt:  # how one stops watching: no mistake, and the run goes on
        print()
    return 0
