"""`pqn resume RUN`: continue a run where it stopped."""

from __future__ import annotations

import os

from pqn.cli import host_options, options, stopping
from pqn.config import Config
from pqn.fields import hints


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "resume",
        description="Continues a run from its newest intact checkpoint, to the bit. With --total-steps it trains on\n"
        "beyond its plan: ε keeps its course, and so does a learning rate that does not end at 0; one that\n"
        "does falls over the longer run instead.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    parser.add_argument("--env", metavar="NAME", help="module:function, for a run that was trained in code of your own")
    options.add_network(parser)
    total = options.within(hints(Config)["total_steps"])
    parser.add_argument("--total-steps", type=total, metavar="N", help="train on to N environment steps per seed")
    stopping.add(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    host_options.add(parser)
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)  # before jax is imported: a wrong path is answered at once

    with host_options.joined(given, {"the run": os.path.realpath(given.run)}) as reports:
        from pqn.cli.show import show_result
        from pqn.progress import Progress
        from pqn.training import resume

        result = resume(
            given.run,
            total_steps=given.total_steps,
            env=given.env,
            network=given.network,
            callbacks=stopping.callbacks(given),
            progress=Progress(quiet=given.quiet),
        )
        if reports:
            show_result(result)
    return 0
