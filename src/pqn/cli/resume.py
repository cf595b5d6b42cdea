"""`pqn resume RUN`: continue a run where it stopped."""

from __future__ import annotations

from pqn.cli import options


def run(argv: list[str]) -> int:
    parser = options.Parser("resume", description="Continues a run from its newest intact checkpoint, to the bit.")
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    parser.add_argument("--env", metavar="NAME", help="module:function, for a run that was trained in code of your own")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)  # before jax is imported: a wrong path is answered at once

    from pqn.cli.show import show_result
    from pqn.progress import Progress
    from pqn.training import resume

    show_result(resume(given.run, env=given.env, progress=Progress(quiet=given.quiet)))
    return 0
