"""Tables of the page, and how it writes numbers and values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pqn.report.html.gather import shorten
from pqn.report.html.markup import Child, Html, element
from pqn.runs.json_text import to_json

NONE = "–"


def table(
    names: Sequence[str], rows: Iterable[Sequence[Child]], caption: str, sortable: bool = True, hidden: bool = False
) -> Html:
    """A table that scrolls by itself where it is too wide; the head of a column sorts by it."""
    heads = [
        element(
            "th",
            element("button", name, element("span", aria_hidden="true", class_="arrow"), type="button")
            if sortable
            else name,
            scope="col",
            aria_sort="none" if sortable else None,
        )
        for name in names
    ]
    body = [element("tr", [_td(entry) for entry in row]) for row in rows]
    inside = element(
        "table",
        element("caption", caption, class_="unseen" if hidden else None),
        element("thead", element("tr", heads)),
        element("tbody", body),
        class_="sortable" if sortable else None,
    )
    return element("div", inside, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _td(entry: Child) -> Html:
    is_number = isinstance(entry, Number)
    return element("td", entry, class_="number" if is_number else None, data_value=entry.exact if is_number else None)


class Number(str):
    """A number as text, with all its digits for sorting."""

    exact: str = ""


def cell(value: float | None) -> Number:
    """A number in a table; a dash where there is none."""
    known = value is not None and not math.isnan(value)
    found = Number(number(value) if known and value is not None else NONE)
    found.exact = repr(value) if known else ""
    return found


def number(value: float) -> str:
    """A number as people write it."""
    if math.isnan(value):
        return NONE
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value)).replace("-", "−")
    size = abs(value)
    text = f"{value:.0f}" if 1000 <= size < 1e9 else f"{value:.1f}" if 100 <= size < 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def value(entry: object) -> Html:
    """The value of an option."""
    return element("code", shorten(entry if isinstance(entry, str) else to_json(entry)))
