"""`pqn plot RUN… [-o FILE.png]`: draw the learning curves of runs."""

from __future__ import annotations

from pathlib import Path

from pqn.cli import options
from pqn.errors import ConfigError
from pqn.report.atari import atari_game, human_normalised
from pqn.runs import files
from pqn.runs.metrics import curve, read_metrics
from pqn.runs.opened import OpenedRun, open_run


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
    opened_runs = [open_run(name, options.warn) for name in given.runs]
    for name, opened in zip(given.runs, opened_runs, strict=True):
        directory = opened.directory
        steps, values = curve(read_metrics(directory.metrics), which, points=100, metric=given.metric)
        if not len(steps):
            raise ConfigError(f"{name} has no {which} rows to plot{'' if given.train else '; try --train'}")
        if given.human:
            values = human_normalised(atari_game(directory), values)
        curves.append((_label(opened, opened_runs), steps, values))

    from pqn.report.figures import learning_curves

    out = Path(given.out) if given.out else Path(given.runs[0]) / "curve.png"
    if not given.out:
        files.is_file(out)  # drawn into the run itself, and not where a link in it leads
    what = "human-normalised score in %" if given.human else given.metric
    ylabel = f"{what} ({'training' if given.train else 'greedy evaluation'})"
    learning_curves(curves, out, title=given.title, ylabel=ylabel)
    print(out)
    return 0


def _label(opened: OpenedRun, others: list[OpenedRun]) -> str:
    """The preset, with the environment where that is another than a run of the same preset has, or not the preset's
    at all; with the directory where two runs share both."""
    same = [other for other in others if other.config.preset == opened.config.preset]
    names = {other.config.env.name for other in same}
    strange = opened.config.env.name.startswith("python:") or len(names) > 1
    label = f"{opened.config.preset} on {opened.config.env.name}" if strange else opened.config.preset
    alike = [other for other in same if other.config.env.name == opened.config.env.name]
    return (label if len(alike) == 1 else opened.path.name).replace("$", r"\$")  # to matplotlib, $ is mathematics
