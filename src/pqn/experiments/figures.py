"""What the figures of the experiments have in common: names, colours and bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pqn.report.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "linear": "linear",
    "linear+l2": "linear + ℓ2",
    "none": "no norm",
    "l2": "ℓ2 only",
    "layer": "LayerNorm",
    "layer+l2": "LayerNorm + ℓ2",
    "batch": "BatchNorm",
    "scale": "1/√k only",
    "layer_unscaled": "LayerNorm without 1/√k",
}
_BLUE, _RED, _GREEN, _PINK, _SKY, _ORANGE, _GREY = COLOURS
# A learner has the same colour in every figure. No figure has two learners of one colour.
COLOUR = {
    "linear": _GREY,
    "linear+l2": _ORANGE,
    "none": _RED,
    "l2": _PINK,
    "layer": _BLUE,
    "layer+l2": _SKY,
    "batch": _GREEN,
    "scale": _ORANGE,
    "layer_unscaled": _PINK,
}
GREY = _GREY  # of lines to compare with


def band(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str, style: str = "-") -> None:
    """Draws the median over seeds (axis 0 of y) with the interquartile range."""
    low, middle, high = np.percentile(y, [25, 50, 75], axis=0)
    axes.plot(x, middle, style, color=colour, label=label, linewidth=1.6)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
