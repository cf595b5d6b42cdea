"""The page: sections put together, with the style and the script that they need, and a promise to the browser.

The promise is a Content-Security-Policy: nothing is loaded from anywhere, and only our own script runs, which is named
by its hash. So even a mistake in the escaping of a run's texts could not make them run.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from pqn import __version__
from pqn.errors import RunError, reason
from pqn.report.html import charts, commands, compared_sections, comparison, markup, run_sections
from pqn.report.html.charts import Chart
from pqn.report.html.gather import RunRecord, find_runs, read_runs
from pqn.report.html.markup import Child, Html, element
from pqn.report.html.run_sections import command_line
from pqn.runs import files
from pqn.runs.json_text import to_json
from pqn.runs.opened import Warn

KEYS = "Drag to zoom, double click to reset. With the keyboard: + and − zoom, ← and → move, 0 resets."


def write_report(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    warn: Warn = print,
) -> Path:
    """Write a report of runs into one HTML file.

    Args:
        paths: one or several run directories; a directory of runs, such as that of a sweep, means all runs in it.
        out: the file, which ends in .html. Missing directories are made.
        title: of the page; None names the run or says how many runs there are.
        warn: told what was left out, in a sentence.

    Returns:
        The path of the file.

    Raises:
        RunError: no run, a damaged one, or a file that cannot be written.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    out, names = files.as_path("out", out), [str(files.as_path("a run directory", path)) for path in several]
    if not names:
        raise RunError("a report is of runs: name one at least")
    if out.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"cannot write {out}: the name of a report must end in .html")
    place = files.output(out)
    runs = read_runs(find_runs(names), warn)
    page = render(runs, title, commands.report(names))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(place, page.encode())
    except OSError as error:
        raise RunError(f"cannot write the report {out}: {reason(error)}") from error
    return out


def render(runs: list[RunRecord], title: str | None = None, again: str | None = None) -> Html:
    """The page as text."""
    page = _Page()
    title = title or (runs[0].label if len(runs) == 1 else f"{len(runs)} runs compared")
    if len(runs) == 1:
        body = [element("p", run_sections.heading(runs[0]), class_="tags"), *page.one_run(runs[0], 0)]
    else:
        body = page.several(runs)
    if again:
        body.append(page.section("This report", command_line("Make it again", again)))
    main = element("main", body, id="content")
    return markup.document(_head(title), [_top(title, page), main, _foot(), *page.data(), markup.script(_script())])


class _Page:
    """Counts charts and sections while they are made, so that each has a name of its own."""

    def __init__(self) -> None:
        self.charts: list[dict[str, object]] = []
        self.sections: list[tuple[str, str]] = []  # id, title

    def section(self, title: str, *content: Child, listed: bool = True) -> Html | None:
        """A section with a heading; None where there is nothing in it."""
        inside = markup.join(content)
        if not inside:
            return None
        identifier = f"section-{len(self.sections)}"
        self.sections.append((identifier if listed else "", title))
        return element("section", element("h2", title), inside, id=identifier)

    def chart(self, chart: Chart | None, labels: Sequence[str], large: bool = False) -> Html | None:
        """A place for a chart, with its legend and what is read off at the cursor."""
        if chart is None:
            return None
        identifier = f"chart-{len(self.charts)}"
        self.charts.append({"id": identifier, "large": large, **chart.to_dict()})
        several = len(chart.lines) > 1
        legend = [
            element(
                "button",
                element("span", class_=f"swatch colour-{line.place % 7}", aria_hidden="true"),
                labels[line.place],
                type="button",
                class_="entry",
                aria_pressed="true",
                data_line=str(index),
            )
            for index, line in enumerate(chart.lines)
        ]
        return element(
            "figure",
            element("figcaption", chart.title),
            element(
                "div",
                id=identifier,
                class_="chart large" if large else "chart",
                tabindex="0",
                role="group",
                aria_roledescription="chart",
                aria_label=f"{chart.title} over environment steps. {KEYS}",
            ),
            element(
                "p", element("output", for_=identifier), element("button", "Reset zoom", type="button", hidden=True)
            ),
            element("div", legend, class_="legend") if several else None,
            class_="figure" + (" large" if large else ""),
        )

    def one_run(self, run: RunRecord, place: int) -> list[Child]:
        """Everything about one run."""
        labels = {place: run.label}
        names = [labels.get(index, "") for index in range(place + 1)]
        first = self.chart(charts.main_chart([(place, run)]), names, large=True)
        others = [self.chart(chart, names) for chart in charts.other_charts(run, place)]
        return [
            run_sections.cards(run),
            self.section(
                "Learning curve",
                first or element("p", "No greedy episode has ended yet."),
                _how_to_read(run),
            ),
            self.section("Film", run_sections.pictures(run)),
            self.section("Evaluation", run_sections.evaluation(run)),
            self.section("More curves", element("div", others, class_="grid") if any(others) else None),
            self.section("Stability", run_sections.stability(run)),
            self.section("Go on", run_sections.go_on(run)),
            self.section("Configuration", run_sections.configuration(run)),
            self.section("Versions and origin", run_sections.provenance(run)),
        ]

    def several(self, runs: list[RunRecord]) -> list[Child]:
        """A comparison, then each run behind its name."""
        labels = [run.label for run in runs]
        groups = comparison.by_environment(runs)
        curves = [
            self.chart(
                charts.main_chart([(place, runs[place]) for place in places], f"Greedy return in {env}"), labels, True
            )
            for env, places in groups.items()
        ]
        compared = [
            self.section("Learning curves", curves, _band_note(seeds=False)),
            self.section("Results", compared_sections.results(runs)),
            self.section(
                "Probability of improvement",
                [
                    compared_sections.matrix(env, [runs[place] for place in places])
                    for env, places in groups.items()
                    if len(places) > 1
                ],
            ),
        ]
        before = len(self.sections)
        folded = [
            element(
                "details",
                element("summary", run.label, " ", element("span", run.config.env.name, class_="tag")),
                element("p", run_sections.heading(run), class_="tags"),
                self.one_run(run, place),
                class_="run",
            )
            for place, run in enumerate(runs)
        ]
        del self.sections[before:]  # those of single runs are behind their names
        return [*compared, self.section("Each run", folded)]

    def data(self) -> list[Html]:
        return [markup.data("charts", to_json(self.charts))]


# ------------------------------------------------------------------------------------------------------- the frame


def _how_to_read(run: RunRecord) -> Html:
    if run.config.seeds == 1:
        return element("p", "One seed: nothing can be said about how much chance there is in it. ", KEYS, class_="note")
    return _band_note()


def _band_note(seeds: bool = True) -> Html:
    text = "Line: interquartile mean over seeds. Band: 95 % bootstrap interval. "
    return element("p", text, "Thin lines: single seeds. " if seeds else None, KEYS, class_="note")


def _head(title: str) -> list[Child]:
    style = _style()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; media-src data:; "
        f"style-src {_hash(style)}; script-src {_hash(_script())}"
    )
    return [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} · pqn"),
        markup.style(style),
    ]


def _top(title: str, page: _Page) -> Html:
    links = [element("a", name, href=f"#{identifier}") for identifier, name in page.sections if identifier]
    return element(
        "header",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("div", element("h1", title), element("button", "Theme", type="button", id="theme"), class_="bar"),
        element("nav", links, aria_label="Sections") if len(links) > 1 else None,
        element("noscript", element("p", "Charts and sorting need JavaScript; all numbers are in the tables.")),
    )


def _foot() -> Html:
    return element(
        "footer",
        element("p", f"Made by pqn {__version__}. This file is complete: it loads nothing. Charts: uPlot, MIT."),
    )


def _style() -> str:
    return _asset("uPlot.min.css") + "\n" + _asset("page.css")


def _script() -> str:
    licence = _asset("uPlot.LICENSE").replace("*/", "")
    return f"/*\n{licence}*/\n{_asset('uPlot.iife.min.js')}\n{_asset('page.js')}"


def _asset(name: str) -> str:
    return (resources.files(__name__.rpartition(".")[0]) / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of a Content-Security-Policy: the element whose text has this hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
