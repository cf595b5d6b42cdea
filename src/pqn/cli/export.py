"""`pqn export RUN [--format onnx] [-o DIR]`: write a trained agent as ONNX, StableHLO or safetensors, with a card."""

from __future__ import annotations

from pqn.cli import options
from pqn.options import Seed

FORMATS = "onnx, stablehlo or safetensors"


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "export",
        description="Writes the agent of a run for other programs. Masks and memory are inputs and outputs, the batch\n"
        "has any size, and the file is compared with the agent before it is written.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    add_format(parser)
    parser.add_argument("-o", "--out", type=options.path, metavar="DIR", help="a folder (default: RUN/export)")
    options.add_network(parser)
    options.add_checkpoint(parser)
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)

    from pqn.export.run import export_run
    from pqn.progress import Progress

    with Progress().working("exporting …"):
        exported = export_run(
            given.run,
            given.format,
            given.out,
            given.train_seed,
            network=given.network,
            checkpoint=given.checkpoint,
            warn=options.warn,
        )
    for written in exported.written.values():
        told = "" if written.difference is None else f"   differs from JAX by at most {written.difference:.1e}"
        print(f"{written.file}{told}")
    for name in exported.names[len(exported.written) :]:
        print(exported.folder / name)
    return 0


def add_format(parser: options.Parser) -> None:
    """The options that say what is exported."""
    parser.add_argument(
        "--format",
        type=lambda text: [name for name in text.split(",") if name],
        default=["safetensors"],
        metavar="NAME",
        help=f"{FORMATS}; several with commas (default: safetensors)",
    )
    seed = options.within(Seed)
    parser.add_argument("--train-seed", type=seed, metavar="N", help="which of the run's seeds (default: its first)")
