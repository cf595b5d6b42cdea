"""A learning curve as text, for the terminal."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pqn.progress import human
from pqn.report.statistics import Statistic, iqm

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
    end, name = human(right, 4), " environment steps"
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
    labels = {row: human(mark, 4) if abs(mark) >= 1e4 else f"{mark + 0.0:.5g}" for row, mark in rows.items()}
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
