"""`pqn resume RUN`: continue a run where it stopped."""

from __future__ import annotations

import os

from pqn.cli import host_options, options


def run(argv: list[str]) -> int:
    parser = options.Parser("resume", description="Continues a run from its newest intact checkpoint, to the bit.")
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    parser.add_argument("--env", metavar="NAME", help="module:function, for a run that was trained in code of your own")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    host_options.add(parser)
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)  # before jax is imported: a wrong path is answered at once

    with host_options.joined(given, {"the run": os.path.realpath(given.run)}) as reports:
        from pqn.cli.show import show_result
        from pqn.progress import Progress
        from pqn.training import resume

        result = resume(given.run, env=given.env, progress=Progress(quiet=given.quiet))
        if reports:
            show_result(result)
    return 0
