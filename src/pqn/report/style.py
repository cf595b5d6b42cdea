"""The style of every figure, and the file that it is written to.

Matplotlib is imported when a file is drawn and never before, and is used without pyplot: no window, no global state,
the same bytes for the same numbers.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pqn.errors import RunError, reason
from pqn.runs import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, which colour-blind readers can distinguish; the line style differs when they run out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A7A7A")
LINES = ("-", "--", "-.", ":")
INK, FAINT = "#262626", "#E4E4E4"

LEAST_AXES = (1.3, 1.0)  # inches of the space for curves
ROUNDS = 6  # of making a figure larger

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


@contextmanager
def figure_file(path: str | os.PathLike[str], size: tuple[float, float], dpi: int = 200) -> Iterator[Figure]:
    """Give a figure to draw on, in our style, and write it to the file afterwards, whole or not at all.

    Args:
        path: the file; its suffix decides the format. Missing directories are made.
        size: inches.
        dpi: resolution of a PNG.

    Raises:
        RunError: an unknown suffix, no matplotlib, or a file that cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RunError(f"cannot draw {path}: the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    place = files.output(path)
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RunError("drawing figures needs matplotlib: pip install matplotlib") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's own style must not change what a published figure looks like
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        _make_room(figure)
        # The date in a file would make two equal figures differ.
        metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
        drawn = io.BytesIO()
        figure.savefig(drawn, format=suffix[1:], dpi=dpi, metadata=metadata)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(place, drawn.getvalue())
        except OSError as error:
            raise RunError(f"cannot write the figure {path}: {reason(error)}") from error


def _make_room(figure: Figure) -> None:
    """Makes the figure larger where a text would be cut off, or where legends and titles leave no room for curves."""
    for _ in range(ROUNDS):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="constrained_layout not applied")  # too small: that is corrected
            figure.canvas.draw()
        width, height = map(float, figure.get_size_inches())
        box = figure.get_tightbbox()  # inches
        wide, tall = max(0.0, -box.x0) + max(0.0, box.x1 - width), max(0.0, -box.y0) + max(0.0, box.y1 - height)
        shown = [axes for axes in figure.axes if axes.get_visible()]
        boxes = [axes.get_window_extent() for axes in shown]
        sizes = [(each.width / figure.dpi, each.height / figure.dpi) for each in boxes]
        wide += max((LEAST_AXES[0] - size[0] for size in sizes if size[0] < LEAST_AXES[0]), default=0.0)
        tall += max((LEAST_AXES[1] - size[1] for size in sizes if size[1] < LEAST_AXES[1]), default=0.0)
        if max(wide, tall) < 0.02:
            return
        place = shown[0].get_subplotspec() if shown else None
        rows, columns = (1, 1) if place is None else place.get_gridspec().get_geometry()
        figure.set_size_inches(width + columns * wide, height + rows * tall)
