"""`pqn stability RUN`: measure how stable TD learning is for a run's network."""

from __future__ import annotations

from typing import Annotated

from pqn.cli import options
from pqn.fields import Within

SEEDS, TRANSITIONS, ITERATIONS = Within(0, 2**16), Within(1, 2**20), Within(1, 10_000)


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "stability",
        description="Measures whether TD learning is stable for a run's network, as the paper defines it: the largest\n"
        "eigenvalue of the symmetrised TD Jacobian, split into its off-policy and its nonlinear part.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory with at least one checkpoint")
    index, some, few = (options.within(Annotated[int, bounds]) for bounds in (SEEDS, TRANSITIONS, ITERATIONS))
    parser.add_argument("--index", type=index, default=0, metavar="N", help="which seed, from 0 (default: 0)")
    parser.add_argument("--transitions", type=some, default=1024, metavar="N", help="to measure on (default: 1024)")
    parser.add_argument(
        "--iterations", type=few, default=40, metavar="N", help="of Lanczos; more are sharper (default: 40)"
    )
    parser.add_argument("--env", metavar="NAME", help="module:function, for a run that was trained in code of your own")
    options.add_network(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of words")
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    directory = RunDir.open(given.run)

    from pqn.progress import Progress
    from pqn.runs.metrics import to_json
    from pqn.theory.explain import explain
    from pqn.theory.monitor import measure_run

    with Progress().working("measuring …"):
        report, step = measure_run(
            given.run,
            given.index,
            given.transitions,
            given.iterations,
            env=given.env,
            network=given.network,
            warn=options.warn,
        )
    content = {"step": step, "index": given.index, **report.to_dict()}
    path = directory.write_json("stability.json", content)
    if given.json:
        print(to_json(content))
        return 0
    print(explain(report))
    print(f"({report.parameters} parameters, {report.transitions} transitions, after {step} steps; written to {path})")
    return 0
