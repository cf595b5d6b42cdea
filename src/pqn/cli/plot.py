"""`pqn plot RUN… [-o FILE.png]`: draw the learning curves of runs, or any other metric."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pqn.cli import options
from pqn.errors import ConfigError, RunError
from pqn.report.atari import atari_game, human_normalised
from pqn.runs import files
from pqn.runs.columns import KINDS, metric_curve
from pqn.runs.metrics import read_metrics
from pqn.runs.opened import OpenedRun, open_run

POINTS = 100  # of a curve; neighbouring training rows are pooled
GREEDY = {"eval": "greedy evaluation"}  # what a kind of rows is called in a figure


class Line(NamedTuple):
    """One metric of one run."""

    task: str
    metric: str
    axis: str  # what the values are
    label: str
    steps: np.ndarray
    values: np.ndarray


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "plot",
        description="IQM over seeds with a 95 % bootstrap band. Several runs of a task compare; several tasks, and\n"
        "several metrics, are drawn side by side.",
    )
    parser.add_argument("runs", type=options.path, metavar="RUN", nargs="+", help="run directories")
    parser.add_argument(
        "-o", "--out", type=options.path, metavar="FILE", help="png, svg or pdf (default: RUN/curve.png)"
    )
    parser.add_argument("--train", action="store_true", help="training returns instead of greedy evaluations")
    parser.add_argument(
        "--metric",
        type=_names,
        default=["return"],
        metavar="NAME",
        help="return, length, loss, q, lr, …, or one of the environment's own, such as win; several with commas",
    )
    parser.add_argument("--labels", type=_names, metavar="TEXT", help="names of the runs, with commas between them")
    parser.add_argument("--human", action="store_true", help="Atari: in %% of a human player instead of raw scores")
    parser.add_argument("--title", default=None, metavar="TEXT", help="title of the figure (default: the task)")
    given = parser.parse(argv)
    opened = [open_run(name, options.warn) for name in given.runs]
    labels = given.labels or [_label(each, opened) for each in opened]
    if len(labels) != len(opened):
        raise ConfigError(f"--labels has {len(labels)} names for {len(opened)} runs; give one for each, with commas")
    lines = [
        _line(run, label, metric, given.train, given.human)
        for metric in given.metric
        for run, label in zip(opened, labels, strict=True)
    ]
    out = Path(given.out) if given.out else Path(given.runs[0]) / "curve.png"
    if not given.out:
        files.is_file(out)  # drawn into the run itself, and not where a link in it leads
    draw(lines, out, given.title)
    print(out)
    return 0


def draw(lines: list[Line], out: Path, title: str | None) -> None:
    """One pair of axes for each task and metric."""
    from pqn.report.figures import curve_grid, describe_curves, learning_curves

    tasks, metrics = ({getattr(line, name): None for line in lines} for name in ("task", "metric"))
    panels: dict[str, list[Line]] = {}
    for line in lines:
        several = [line.task] * (len(tasks) > 1) + [line.metric] * (len(metrics) > 1)
        panels.setdefault(_plain(": ".join(several)), []).append(line)
    curves = {name: [(line.label, line.steps, line.values) for line in group] for name, group in panels.items()}
    above = title or (next(iter(tasks)) if len(tasks) == 1 else None)
    heading = None if above is None else _plain(above)
    axes = {name: group[0].axis for name, group in panels.items()}
    if len(panels) == 1:
        learning_curves(curves[""], out, title=heading, ylabel=axes[""])
        return
    note = describe_curves([curve for group in curves.values() for curve in group])
    curve_grid(curves, out, ylabel=axes, title=heading, note=note)


def _line(run: OpenedRun, label: str, metric: str, train: bool, human: bool) -> Line:
    directory = run.directory
    rows = read_metrics(directory.metrics)
    try:
        kind, steps, values = metric_curve(rows, metric, "train" if train else None, POINTS)
    except RunError as error:
        raise RunError(f"{run.path}: {error}") from error
    if not len(steps):
        raise ConfigError(f"{run.path} has no {kind} rows to plot{'' if train else '; try --train'}")
    if human:
        values = human_normalised(atari_game(directory), values)
    what = "human-normalised score in %" if human else metric
    return Line(
        run.config.env.name,
        metric,
        f"{what} ({GREEDY.get(kind) or KINDS.get(kind, kind)})",
        _plain(label),
        steps,
        values,
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # to matplotlib, $ is mathematics


def _label(opened: OpenedRun, others: list[OpenedRun]) -> str:
    """The preset, with the environment where that is another than a run of the same preset has, or not the preset's
    at all; with the directory where two runs share both."""
    same = [other for other in others if other.config.preset == opened.config.preset]
    names = {other.config.env.name for other in same}
    strange = opened.config.env.name.startswith("python:") or len(names) > 1
    label = f"{opened.config.preset} on {opened.config.env.name}" if strange else opened.config.preset
    alike = [other for other in same if other.config.env.name == opened.config.env.name]
    return label if len(alike) == 1 else opened.path.name
