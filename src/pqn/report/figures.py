"""Figures of learning curves: files for a paper or a README, and a small chart for the terminal.

Matplotlib is imported when a file is drawn and never before, and is used without pyplot: no window, no global state,
the same bytes for the same numbers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pqn.errors import RunError, reason
from pqn.report.statistics import Statistic, aggregate_curve, iqm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = tuple[str, ArrayLike, ArrayLike]
"""A label, environment steps [P] and returns [P, S] of S seeds."""

SUFFIXES = (".png", ".svg", ".pdf")
MAX_SEED_LINES = 10  # more single seeds than this are a thicket, not information
MAX_INSIDE = 5  # a longer legend would cover the curves and goes beside the axes

# Okabe and Ito's colours, told apart by colour-blind readers too; the line style tells when they run out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A7A7A")
LINES = ("-", "--", "-.", ":")
INK, FAINT = "#262626", "#E4E4E4"

STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same picture on every machine
    "font.size": 10,
    "axes.labelsize": 10.5,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelpad": 6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8C8C8C",
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "text.color": INK,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": "#8C8C8C",
    "ytick.color": "#8C8C8C",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "ytick.major.size": 0,
    "xtick.major.size": 3.5,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.borderpad": 0.3,
    "legend.fontsize": 9.5,
    "legend.handlelength": 1.6,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "path",
    "svg.hashsalt": "pqn",  # otherwise matplotlib draws random identifiers
    "pdf.fonttype": 42,
    "path.simplify": True,
}


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
        note = _describe(runs, statistic, confidence)
    with _figure(path, size, dpi) as figure:
        axes = figure.subplots()
        _draw(axes, runs, statistic, confidence, reference or {})
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if title:
            axes.set_title(title)
        entries = len(runs) + len(reference or {})
        if entries > MAX_INSIDE:
            figure.legend(loc="outside right center")
        elif entries > 1:
            axes.legend(loc="best")
        if note:
            figure.supxlabel(note, fontsize=8, color="#7A7A7A", x=0.99, ha="right")
    return Path(path)


def curve_grid(
    panels: Mapping[str, Sequence[Curve]],
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    xlabel: str = "environment steps",
    ylabel: str = "return (greedy evaluation)",
    reference: Mapping[str, Mapping[str, float]] | None = None,
    statistic: Statistic = iqm,
    confidence: float = 0.95,
    panel_size: tuple[float, float] = (3.4, 2.7),
    dpi: int = 200,
) -> Path:
    """Draw one panel of learning curves for each task, in a grid with a common legend.

    Args:
        panels: from a panel's title to its curves; a label has the same colour in every panel.
        path: the file; see `learning_curves`, as for the remaining options.
        columns: panels side by side; None chooses.
        reference: from a panel's title to its horizontal lines.
        panel_size: inches of one panel.
    """
    if not panels:
        raise RunError("there is nothing to plot: no panel was given")
    columns = columns or min(len(panels), 4 if len(panels) % 4 == 0 else 3)
    rows = math.ceil(len(panels) / columns)
    labels = list(dict.fromkeys(label for runs in panels.values() for label, _, _ in runs))
    handles: dict[str, Any] = {}
    with _figure(path, (panel_size[0] * columns, panel_size[1] * rows + 0.4), dpi) as figure:
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (title, runs) in zip(grid, panels.items(), strict=False):
            _draw(axes, runs, statistic, confidence, (reference or {}).get(title, {}), labels)
            axes.set_title(title)
            handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.supxlabel(xlabel, fontsize=STYLE["axes.labelsize"])
        figure.supylabel(ylabel, fontsize=STYLE["axes.labelsize"])
        if len(handles) > 1:
            figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=min(len(handles), 5))
    return Path(path)


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
    axes.xaxis.set_major_formatter(lambda value, _: human(value))
    if max(map(abs, axes.get_ylim())) >= 1e4:
        axes.yaxis.set_major_formatter(lambda value, _: human(value))


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


def _describe(runs: Sequence[Curve], statistic: Statistic, confidence: float) -> str:
    """Say what curve and band mean; a figure travels without its caption."""
    seeds = sorted({1 if np.ndim(values) == 1 else np.shape(values)[1] for _, _, values in runs})
    if seeds in ([], [1]):
        return ""
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    name = {"iqm": "interquartile mean"}.get(getattr(statistic, "__name__", ""), getattr(statistic, "__name__", ""))
    thin = "; thin lines are seeds" if _shows_seeds(runs) else ""
    return f"{name} of {count} seeds with {100 * confidence:g} % bootstrap interval{thin}"


@contextmanager
def _figure(path: str | os.PathLike[str], size: tuple[float, float], dpi: int) -> Iterator[Figure]:
    """Give a figure to draw on, in our style, and write it to the file afterwards."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RunError(f"cannot draw {path}: the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RunError("drawing figures needs matplotlib: pip install 'pqn-jax[report]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's own style must not change what a published figure looks like
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        # The date in a file would make two equal figures differ.
        metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=dpi, metadata=metadata)
        except OSError as error:
            raise RunError(f"cannot write the figure {path}: {reason(error)}") from error


def human(value: float) -> str:
    """Write a number for an axis: 0, 250k, 1.5M, 2B."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.99999:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}" if value else "0"  # -0.0 too


# --------------------------------------------------------------------------------------------------------- terminal

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # bits of a braille cell, row by column


def terminal_curve(
    steps: ArrayLike,
    values: ArrayLike,
    *,
    width: int = 72,
    height: int = 10,
    statistic: Statistic = iqm,
    unicode: bool = True,
) -> str:
    """Draw the learning curve over seeds as text.

    Args:
        steps: [P]
        values: [P], or [P, S] whose statistic over seeds is drawn.
        width: columns that no line exceeds.
        height: lines of the drawing; one more carries the axis and one its labels.
        unicode: braille dots and box lines, or plain ASCII where the terminal has no more.

    Returns:
        Lines joined by newlines, without one at the end. "" when there is no score to draw.
    """
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    center = np.asarray(statistic(values, axis=-1) if values.ndim == 2 else values)
    known = np.isfinite(center) & np.isfinite(steps) if center.size else np.zeros(0, bool)
    if not known.any():
        return ""
    x, y = steps[known], center[known]
    low, high, ticks = _scale(float(y.min()), float(y.max()), height)
    left = max(len(label) for label in ticks.values())
    columns = max(4, width - left - 2)
    across, down = (2, 4) if unicode else (1, 1)
    right = float(x.max()) or 1.0
    dots = np.zeros((height * down, columns * across), bool)
    rows = _trace(x / right, (y - low) / (high - low), *dots.shape)
    for column, (top, bottom) in rows.items():
        dots[top : bottom + 1, column] = True
    if len(x) == 1:  # one dot is easily missed
        row, column = np.argwhere(dots)[0]
        dots[max(0, row - 1) : row + 1, max(0, column - 1) : column + 1] = True
    corner, wall, floor, tick = ("└", "│", "─", "┤") if unicode else ("+", "|", "-", "+")
    lines = [
        f"{ticks.get(row, ''):>{left}} {tick if row in ticks else wall}{cells}".rstrip()
        for row, cells in enumerate(_cells(dots, height, columns, unicode))
    ]
    lines.append(" " * (left + 1) + corner + floor * columns)
    end, name = human(right), " environment steps"
    labels = f"0{end:>{columns - 1}}" if columns < len(end + name) + 4 else f"0{end + name:>{columns - 1}}"
    return "\n".join([*lines, " " * (left + 2) + labels])


def _scale(low: float, high: float, height: int) -> tuple[float, float, dict[int, str]]:
    """Choose round ends of the value axis, and the labels of some rows (0 is the top one)."""
    if 0 <= low <= 0.4 * high and high > 0:
        low = 0.0
    if high - low <= 1e-9 * max(1.0, abs(high)):  # a flat line runs through the middle
        room = 0.5 if abs(high) < 10 else 0.05 * abs(high)
        low, high = low - room, high + room
    power = 10.0 ** math.floor(math.log10(high - low))
    best = None
    for step in (size * power for size in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5, 5)):
        first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
        if 2 <= last - first <= max(2, (height - 1) // 2):  # else the labels stand too close
            waste = (last - first) * step / (high - low)
            if best is None or waste < best[0]:
                best = waste, step, first, last
    _, step, first, last = best or (1, high - low, low / (high - low), high / (high - low))
    marks = np.linspace(first, last, round(last - first) + 1) * step
    rows = {round((last * step - mark) / ((last - first) * step) * (height - 1)): mark for mark in marks}
    labels = {row: human(mark) if abs(mark) >= 1e4 else f"{mark + 0.0:.5g}" for row, mark in rows.items()}
    return first * step, last * step, labels


def _trace(x: np.ndarray, y: np.ndarray, rows: int, columns: int) -> dict[int, tuple[int, int]]:
    """Return the dots, from top to bottom, that a line through the points covers in each column; x, y in [0, 1]."""
    at = np.arange(columns) / max(1, columns - 1)
    inside = (at >= x.min() - 0.5 / columns) & (at <= x.max() + 0.5 / columns)
    level = np.interp(at, x, y)
    covered: dict[int, tuple[int, int]] = {}
    previous = None
    for column in np.flatnonzero(inside):
        # Values between two columns count too, or a narrow dip of a long curve would go unseen.
        near = np.abs(x - at[column]) <= 0.5 / columns
        heights = [level[column], *y[near]]
        top, bottom = (round((1 - h) * (rows - 1)) for h in (max(heights), min(heights)))
        if previous is not None:  # join with the column before, without a gap
            top, bottom = min(top, max(previous[0], previous[1]) + 1), max(bottom, min(previous) - 1)
        covered[int(column)] = (max(0, top), min(rows - 1, bottom))
        previous = (round((1 - level[column]) * (rows - 1)),) * 2
    return covered


def _cells(dots: np.ndarray, height: int, columns: int, unicode: bool) -> list[str]:
    """Turn a grid of dots into characters."""
    if not unicode:
        return ["".join("*" if dot else " " for dot in row) for row in dots]
    bits = np.einsum("yixj,ij->yx", dots.reshape(height, 4, columns, 2).astype(int), _DOTS)
    return ["".join(chr(0x2800 + bit) if bit else " " for bit in row) for row in bits]
