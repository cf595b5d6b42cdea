"""`pqn plot RUN… [-o FILE.png]`."""

from __future__ import annotations

from pathlib import Path

from pqn.cli import options
from pqn.errors import ConfigError
from pqn.metrics import curve, read_metrics
from pqn.report.atari import atari_game, human_normalised
from pqn.runs import RunDir


def run(argv: list[str]) -> int:
    parser = options.Parser("plot", description="IQM over seeds with a 95 % bootstrap band; several runs compare.")
    parser.add_argument("runs", type=options.path, metavar="RUN", nargs="+", help="run directories")
    parser.add_argument(
        "-o", "--out", type=options.path, metavar="FILE", help="png, svg or pdf (default: RUN/curve.png)"
    )
    parser.add_argument("--train", action="store_true", help="training returns instead of greedy evaluations")
    parser.add_argument("--metric", default="return", metavar="NAME", help="one of the environment's own, such as win")
    parser.add_argument("--human", action="store_true", help="Atari: in %% of a human player instead of raw scores")
    parser.add_argument("--title", default=None, metavar="TEXT", help="title of the figure")
    given = parser.parse(argv)
    which = "train" if given.train else "eval"
    curves = []
    for name in given.runs:
        directory = RunDir.open(name)
        steps, values = curve(read_metrics(directory.metrics), which, points=100, metric=given.metric)
        if not len(steps):
            raise ConfigError(f"{name} has no {which} rows to plot{'' if given.train else '; try --train'}")
        if given.human:
            values = human_normalised(atari_game(directory), values)
        curves.append((_label(directory, given.runs), steps, values))

    from pqn.report.figures import learning_curves

    out = Path(given.out) if given.out else Path(given.runs[0]) / "curve.png"
    what = "human-normalised score in %" if given.human else given.metric
    ylabel = f"{what} ({'training' if given.train else 'greedy evaluation'})"
    learning_curves(curves, out, title=given.title, ylabel=ylabel)
    print(out)
    return 0


def _label(directory: RunDir, names: list[str]) -> str:
    """The preset, with the directory where two runs share one."""
    preset = directory.read_json("config.json")["preset"]
    others = [RunDir.open(name).read_json("config.json")["preset"] for name in names]
    return preset if others.count(preset) == 1 else directory.path.name
