"""Figures of learning curves: files for a paper or a README."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pqn.errors import RunError
from pqn.progress import human
from pqn.report.statistics import Statistic, aggregate_curve, iqm
from pqn.report.style import COLOURS, LINES, STYLE, figure_file

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = tuple[str, ArrayLike, ArrayLike]
"""A label, environment steps [P] and returns [P, S] of S seeds."""

MAX_SEED_LINES = 10  # more lines of single seeds cannot be told from each other
MAX_INSIDE = 5  # a longer legend would cover the curves and is drawn outside the axes
MAX_LEGEND = 0.45  # of the figure's width; longer entries get a second line
TICK_DIGITS = 4
LETTER, BOLD, SMALL = 0.086, 0.108, 0.072  # inches that a letter takes: in a label, in a title, in a note


def learning_curves(
    runs: Sequence[Curve],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    xlabel: str = "environment steps",
    ylabel: str = "return (greedy evaluation)",
    reference: Mapping[str, float] | None = None,
    statistic: Statistic = iqm,
    confidence: float = 0.95,
    note: str | None = None,
    size: tuple[float, float] = (6.4, 4.0),
    dpi: int = 200,
) -> Path:
    """Draw learning curves, with a bootstrap band over seeds, into a PNG, SVG or PDF file.

    A single run of at most ten seeds also shows each seed as a thin line; several runs get a legend.

    Args:
        runs: (label, steps [P], returns [P, S]) of each run.
        path: the file; its suffix decides the format. Missing directories are made.
        title: a line above the axes.
        xlabel: what the steps are.
        ylabel: what the returns are.
        reference: horizontal lines to compare with, from label to height.
        statistic: what is drawn as the curve.
        confidence: probability mass of the band.
        note: a small line below the figure; None says what curve and band are, "" says nothing.
        size: inches.
        dpi: resolution of a PNG.

    Returns:
        The path of the file.

    Raises:
        RunError: nothing to draw, an unknown suffix, no matplotlib, or a file that cannot be written.
    """
    if note is None:
        note = describe_curves(runs, statistic, confidence)
    with figure_file(path, size, dpi) as figure:
        axes = figure.subplots()
        _draw(axes, runs, statistic, confidence, reference or {})
        axes.set_xlabel(xlabel)
        axes.set_ylabel(wrapped(ylabel, size[1]))
        if title:
            axes.set_title(wrapped(title, size[0], BOLD))
        handles, labels = axes.get_legend_handles_labels()
        labels = [wrapped(label, MAX_LEGEND * size[0]) for label in labels]
        lines = sum(label.count("\n") + 1 for label in labels)
        if max(lines, len(labels)) > MAX_INSIDE:
            figure.legend(handles, labels, loc="outside right center")
        elif len(labels) > 1:
            axes.legend(handles, labels, loc="best")
        if note:
            figure.supxlabel(wrapped(note, size[0], SMALL), fontsize=8, color="#7A7A7A", x=0.99, ha="right")
    return Path(path)


def curve_grid(
    panels: Mapping[str, Sequence[Curve]],
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    xlabel: str = "environment steps",
    ylabel: str | Mapping[str, str] = "return (greedy evaluation)",
    reference: Mapping[str, Mapping[str, float]] | None = None,
    statistic: Statistic = iqm,
    confidence: float = 0.95,
    title: str | None = None,
    note: str = "",
    panel_size: tuple[float, float] = (3.4, 2.7),
    dpi: int = 200,
) -> Path:
    """Draw one panel of learning curves for each task, in a grid with a common legend.

    Args:
        panels: from a panel's title to its curves; a label has the same colour in every panel.
        path: the file; see `learning_curves`, as for the remaining options.
        columns: panels side by side; None chooses.
        ylabel: what the returns are; or from a panel's title to what is drawn there.
        reference: from a panel's title to its horizontal lines.
        title: a line above all panels.
        note: a small line below them.
        panel_size: inches of one panel.
    """
    if not panels:
        raise RunError("there is nothing to plot: no panel was given")
    columns = columns or min(len(panels), 4 if len(panels) % 4 == 0 else 3)
    rows = math.ceil(len(panels) / columns)
    labels = list(dict.fromkeys(label for runs in panels.values() for label, _, _ in runs))
    handles: dict[str, Artist] = {}
    width = panel_size[0] * columns
    with figure_file(path, (width, panel_size[1] * rows + (0.8 if title else 0.4)), dpi) as figure:
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (name, runs) in zip(grid, panels.items(), strict=False):
            _draw(axes, runs, statistic, confidence, (reference or {}).get(name, {}), labels)
            axes.set_title(wrapped(name, panel_size[0] - 0.6, BOLD))
            if not isinstance(ylabel, str):
                axes.set_ylabel(wrapped(ylabel[name], panel_size[1]))
            handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        below = f"{xlabel}\n{wrapped(note, width, SMALL)}" if note else xlabel
        legend_below = title is not None and len(handles) > 1
        if not legend_below:
            figure.supxlabel(below, fontsize=STYLE["axes.labelsize"])
        if isinstance(ylabel, str):
            figure.supylabel(wrapped(ylabel, panel_size[1] * rows), fontsize=STYLE["axes.labelsize"])
        if title:
            words = wrapped(title, width, BOLD)
            figure.suptitle(words, fontsize=STYLE["axes.titlesize"] + 1, fontweight="bold", x=0.01, ha="left")
        if len(handles) > 1:
            _legend_of_grid(figure, handles, width, below if legend_below else None)
    return Path(path)


def _legend_of_grid(figure: Figure, handles: Mapping[str, Artist], width: float, below: str | None) -> None:
    """The common legend: above the panels, or below them with the label of their axes as its title.

    A label of its own would not do there: matplotlib draws one over the other.
    """
    names = [wrapped(label, 0.9 * width) for label in handles]
    longest = max(len(line) for label in names for line in label.split("\n"))
    columns = max(1, min(len(names), 5, int(width / (longest * LETTER + 0.5))))
    if below is None:
        figure.legend(handles.values(), names, ncols=columns, loc="outside upper right")
    else:
        legend = figure.legend(handles.values(), names, ncols=columns, loc="outside lower center", title=below)
        legend.get_title().set(fontsize=STYLE["axes.labelsize"], multialignment="center")


def wrapped(text: str, inches: float, letter: float | None = None) -> str:
    """Text in lines that are short enough for so many inches; a word that is longer than a line is cut."""
    return textwrap.fill(text, max(8, int((inches - 0.5) / (letter or LETTER))))


def _draw(
    axes: Axes,
    runs: Sequence[Curve],
    statistic: Statistic,
    confidence: float,
    reference: Mapping[str, float],
    labels: Sequence[str] = (),
) -> None:
    """Draw runs and reference lines into one pair of axes."""
    if not runs:
        raise RunError("there is nothing to plot: no run was given")
    curves = [_check(run) for run in runs]
    for index, (label, steps, values) in enumerate(curves):
        place = labels.index(label) if label in labels else index
        colour = COLOURS[place % len(COLOURS)]
        line = LINES[place // len(COLOURS) % len(LINES)]
        band = aggregate_curve(values, statistic, confidence=confidence)
        if values.shape[1] > 1:
            alpha = 0.17 if len(runs) <= 4 else 0.09
            axes.fill_between(steps, band.low, band.high, color=colour, alpha=alpha, linewidth=0)
        if _shows_seeds(runs):
            axes.plot(steps, values, color=colour, alpha=0.28, linewidth=0.7)
        axes.plot(steps, band.center, color=colour, linestyle=line, linewidth=1.9, label=label)
        alone = np.flatnonzero(~np.isnan(band.center))
        if len(alone) == 1:  # a line through one point is invisible
            ends = np.stack([band.center - band.low, band.high - band.center])
            axes.errorbar(steps[alone], band.center[alone], ends[:, alone], fmt="o", color=colour, clip_on=False)
    for index, (label, height) in enumerate(reference.items()):
        style = LINES[1 + index % (len(LINES) - 1)]
        axes.axhline(height, color="#555555", linestyle=style, linewidth=1.1, label=label, zorder=1.5)
    _scale_axes(axes, max(float(steps[-1]) for _, steps, _ in curves))


def _scale_axes(axes: Axes, right: float) -> None:
    """Set limits and ticks for curves that end at step `right`."""
    axes.set_xlim(0, right or 1)
    axes.margins(y=0.05)
    low, high = axes.dataLim.intervaly
    if 0 <= low <= 0.4 * high:  # zero is near enough to show, and it makes heights comparable
        axes.set_ylim(bottom=0)
    axes.locator_params(nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: human(value, TICK_DIGITS))
    if max(map(abs, axes.get_ylim())) >= 1e4:
        axes.yaxis.set_major_formatter(lambda value, _: human(value, TICK_DIGITS))


def _shows_seeds(runs: Sequence[Curve]) -> bool:
    return len(runs) == 1 and np.ndim(runs[0][2]) == 2 and 1 < np.shape(runs[0][2])[1] <= MAX_SEED_LINES


def _check(run: Curve) -> tuple[str, np.ndarray, np.ndarray]:
    label, steps, values = run[0], np.asarray(run[1], float), np.asarray(run[2], float)
    if values.ndim == 1:
        values = values[:, None]
    if steps.ndim != 1 or values.ndim != 2 or len(steps) != len(values):
        raise ValueError(f"{label}: steps must be [P] and values [P, S], not {steps.shape} and {values.shape}")
    if np.isnan(values).all():
        raise RunError(f"there is nothing to plot: {label} has no finished episode yet")
    return label, steps, values


def describe_curves(runs: Sequence[Curve], statistic: Statistic = iqm, confidence: float = 0.95) -> str:
    """Say what curve and band mean; a figure travels without its caption."""
    seeds = sorted({1 if np.ndim(values) == 1 else np.shape(values)[1] for _, _, values in runs})
    if seeds in ([], [1]):
        return ""
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    name = {"iqm": "interquartile mean"}.get(getattr(statistic, "__name__", ""), getattr(statistic, "__name__", ""))
    thin = "; thin lines are seeds" if _shows_seeds(runs) else ""
    return f"{name} of {count} seeds with {100 * confidence:g} % bootstrap interval{thin}"
