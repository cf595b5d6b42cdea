"""A report in a real browser. `make test-browser` runs this file; `make test` needs no browser and leaves it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import CONTRAST, Visit, opened_browser
from written_runs import GIF, write_run

from pqn.report.html import write_report

pytestmark = pytest.mark.browser
FOCUSED = """() => {
  const at = document.activeElement;
  return [at.id || at.className || at.tagName, getComputedStyle(at).outlineStyle];
}"""
PHONE = {"width": 360, "height": 740}
HOSTILE = "<img src=x onerror=document.title='broken'></script><script>document.title='broken'</script>"

# Whether a chart has more than its grid: pixels of a strong colour.
COLOURED = """(id) => {
  const canvas = document.querySelector(`#${id} canvas`);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b, a] = data.slice(i, i + 4);
    if (a > 150 && Math.max(r, g, b) - Math.min(r, g, b) > 60) count += 1;
  }
  return count;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page about one run, about several, and about one that means harm."""
    root = tmp_path_factory.mktemp("report")
    runs = [
        write_run(root / "sweep" / f"lam-{lam}", height, options={"learner.lam": lam})
        for lam, height in ((0.0, 120.0), (0.5, 320.0), (0.95, 240.0))
    ]
    (runs[0] / "agent.gif").write_bytes(GIF)
    (runs[0] / "stability.json").write_text('{"step": 5, "largest": {"value": 0.5}, "smallest": -3.0}')
    bad = write_run(
        root / HOSTILE.replace("/", ""), options={"env.name": f"my:{HOSTILE}"}, environment={"time": HOSTILE}
    )
    return {
        "one": write_report([runs[0]], root / "one.html"),
        "several": write_report([root / "sweep"], root / "several.html"),
        "hostile": write_report([bad, runs[0]], root / "hostile.html", title=HOSTILE),
    }


@pytest.mark.parametrize("name", ["one", "several", "hostile"])
def test_a_page_opens_without_errors_and_asks_for_nothing(name, browser, pages):
    with Visit(browser, pages[name]) as visit:
        for details in visit.page.query_selector_all("details > summary"):
            details.click()
        visit.page.wait_for_function("() => [...document.querySelectorAll('.chart')].every((c) => c.dataset.drawn)")
        assert visit.said == []
        outside = [url for url in visit.asked if not url.startswith("data:")]
        assert outside == [pages[name].as_uri()]
        assert visit.page.title() != "broken" and visit.page.query_selector("img[onerror]") is None
        charts = visit.page.evaluate("() => [...document.querySelectorAll('.chart')].map((chart) => chart.id)")
        assert len(charts) >= 4
        for chart in charts:
            assert visit.page.evaluate(COLOURED, chart) > 100, chart


def test_charts_zoom_by_mouse_and_keyboard(browser, pages):
    with Visit(browser, pages["one"]) as visit:
        chart, page = visit.page.locator("#chart-0"), visit.page
        box = page.locator("#chart-0 .u-over").bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.3 * box["width"], middle)
        assert page.locator("figure:has(#chart-0) output").inner_text().startswith("step ")
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
        page.mouse.up()
        assert chart.get_attribute("data-zoomed") == "true"
        reset = page.locator("figure:has(#chart-0) p > button")
        assert reset.is_visible()
        page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
        assert chart.get_attribute("data-zoomed") == "false" and not reset.is_visible()
        chart.focus()
        for key, zoomed in (("+", "true"), ("ArrowRight", "true"), ("0", "false"), ("+", "true"), ("-", "false")):
            page.keyboard.press(key)
            page.wait_for_function(f"() => document.getElementById('chart-0').dataset.zoomed === '{zoomed}'")
        page.keyboard.press("+")
        reset.click()
        assert chart.get_attribute("data-zoomed") == "false"
        assert visit.said == []


def test_tables_sort_by_mouse_and_keyboard(browser, pages):
    with Visit(browser, pages["several"]) as visit:
        page = visit.page
        first = page.locator("table.sortable").first
        shown = (
            "() => [...document.querySelector('table.sortable').tBodies[0].rows].map((row) => row.cells[0].textContent)"
        )
        assert page.evaluate(shown) == ["lam-0.0", "lam-0.5", "lam-0.95"]
        first.get_by_role("button", name="IQM").click()
        assert page.evaluate(shown) == ["lam-0.5", "lam-0.95", "lam-0.0"]  # the highest first
        assert first.locator("th[aria-sort=descending]").inner_text().startswith("IQM")
        first.get_by_role("button", name="IQM").press("Enter")
        assert page.evaluate(shown) == ["lam-0.0", "lam-0.95", "lam-0.5"]
        first.get_by_role("button", name="run", exact=True).focus()
        page.keyboard.press("Space")
        assert page.evaluate(shown) == ["lam-0.0", "lam-0.5", "lam-0.95"]
        assert first.locator("th[aria-sort=ascending]").inner_text().startswith("run")


def test_a_legend_hides_a_line(browser, pages):
    with Visit(browser, pages["several"]) as visit:
        before = visit.page.evaluate(COLOURED, "chart-0")
        entry = visit.page.locator(".entry").first
        entry.press("Enter")
        assert entry.get_attribute("aria-pressed") == "false"
        visit.page.wait_for_timeout(50)
        assert visit.page.evaluate(COLOURED, "chart-0") < 0.9 * before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "several"])
def test_text_can_be_read(name, scheme, browser, pages):
    """Contrast of at least 4.5, as WCAG's level AA asks for, in both themes; the button changes the theme."""
    with Visit(browser, pages[name], color_scheme=scheme) as visit:
        page = visit.page
        for details in page.query_selector_all("details > summary"):
            details.click()
        assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
        for _ in range(2):
            found = page.evaluate(CONTRAST)
            assert len(found) > 40
            assert [text for contrast, text in found if contrast < 4.5] == []
            page.locator("#theme").click()
        assert page.evaluate("() => document.documentElement.dataset.theme") == scheme


@pytest.mark.parametrize("name", ["one", "several", "hostile"])
def test_a_phone_shows_it_without_scrolling_sideways(name, browser, pages):
    with Visit(browser, pages[name], viewport=PHONE, has_touch=True) as visit:
        for details in visit.page.query_selector_all("details > summary"):
            details.click()
        width = visit.page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= PHONE["width"], width
        assert visit.page.evaluate(COLOURED, "chart-0") > 100


def test_it_prints_light_and_complete(browser, pages):
    with Visit(browser, pages["one"], color_scheme="dark") as visit:
        page = visit.page
        page.emulate_media(media="print")
        page.wait_for_function("() => document.documentElement.dataset.theme === 'light'")
        for hidden in ("nav", "#theme", ".copy"):
            assert not page.locator(hidden).first.is_visible(), hidden
        assert min(contrast for contrast, _ in page.evaluate(CONTRAST)) >= 4.5
        assert page.pdf()[:5] == b"%PDF-"
        page.emulate_media(media="screen")
        page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")


def test_everything_can_be_reached_with_the_keyboard(browser, pages):
    """Tab visits the link past the head, the theme, every chart, the table's heads and the commands; each shows it."""
    with Visit(browser, pages["one"]) as visit:
        seen = []
        for _ in range(60):
            visit.page.keyboard.press("Tab")
            seen.append(tuple(visit.page.evaluate(FOCUSED)))
        assert seen[0][0] == "skip"
        assert {"theme", "chart-0", "chart-1", "copy"} <= {name for name, _ in seen}
        assert {style for name, style in seen if name in ("theme", "chart-0", "copy")} == {"solid"}
