"""`pqn push RUN REPO`: upload an exported agent, its card and its video to the Hugging Face Hub."""

from __future__ import annotations

from pqn.cli import options
from pqn.cli.export import add_format


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "push",
        description="Exports the agent of a run and uploads that, its model card and its video, and nothing else.\n"
        "The token is that of the Hugging Face client: `hf auth login`, or HF_TOKEN.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    parser.add_argument("repository", metavar="REPO", help="owner/name; made where it does not exist")
    add_format(parser)
    parser.add_argument(
        "--video", type=options.path, metavar="FILE", help="to add (default: what `pqn video RUN` left in the run)"
    )
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    options.add_network(parser)
    options.add_checkpoint(parser)
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)

    from pqn.export.hub import push_run
    from pqn.progress import Progress

    with Progress().working("pushing …"):
        address, names = push_run(
            given.run,
            given.repository,
            given.format,
            given.train_seed,
            network=given.network,
            checkpoint=given.checkpoint,
            video=given.video,
            private=given.private,
            warn=options.warn,
        )
    print("\n".join(f"  {name}" for name in names))
    print(address)
    return 0
