"""Builds the report: a page and a figure for each experiment, and the generated parts of pages that people write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pqn.experiments import markers, pages, tables
from pqn.experiments.chosen import choices
from pqn.experiments.paper import EXPERIMENTS, Experiment
from pqn.report.figures import curve_grid

FIGURE = "curves.png"
PAGE = "README.md"

EMPTY = """\
# Results

{}

## How a result is chosen

{}
"""


def build(out: Path, others: Iterable[Path] = (), figures: bool = True) -> list[Path]:
    """Writes all pages and figures, and returns those that changed.

    Args:
      out: the folder of results.
      others: pages elsewhere with generated parts, such as the README.
      figures: whether to draw; a figure takes a second.

    Raises:
      RunError: a file cannot be read or written, or the list of retired results is damaged.
      ConfigError: a page asks for a part that does not exist.
    """
    changed = [path for path, text in texts(out, others) if markers.write_page(path, text)]
    for entry in EXPERIMENTS.values() if figures else ():
        panels = tables.drawn(entry, choices(entry, out))
        if panels:
            changed.append(_draw(entry, panels, out / entry.name / FIGURE))
    return changed


def texts(out: Path, others: Iterable[Path] = ()) -> Iterator[tuple[Path, str]]:
    """Every page of the report with the text that it should have."""
    for entry in EXPERIMENTS.values():
        yield out / entry.name / PAGE, pages.page(entry, out)
    overview = out / PAGE
    empty = EMPTY.format(markers.block("overview", ""), markers.block("rule", ""))
    for path in (overview, *others):
        text = markers.read_page(path) or (empty if path == overview else "")
        if markers.names(text):
            yield path, markers.filled(text, lambda name: pages.part(name, out))


def _draw(entry: Experiment, panels: dict[str, list], path: Path) -> Path:
    columns = min(len(panels), 2 if len(panels) < 5 else 3)
    label = (entry.curve or entry.unit).replace("_", " ")
    return curve_grid(panels, path, columns=columns, xlabel=entry.curve_axis, ylabel=label)
