"""Figures: written in every format, the same bytes each time."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pqn.errors import RunError
from pqn.report import figures, style
from pqn.report.figures import curve_grid, learning_curves

STEPS = np.arange(1, 11) * 50_000
VALUES = 500 * (1 - np.exp(-np.outer(np.arange(1, 11) / 3, [0.7, 1.0, 1.4])))
MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", sorted(MAGIC))
def test_every_format_is_written_and_reproducible(tmp_path: Path, suffix: str) -> None:
    runs = [("one", STEPS, VALUES), ("two", STEPS, VALUES / 2)]
    paths = [tmp_path / "new" / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        assert learning_curves(runs, path, title="CartPole", reference={"solved": 475}, dpi=60) == path
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(MAGIC[suffix]) and first == second


def test_labels_ticks_and_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(style.STYLE, "svg.fonttype", "none")
    one = learning_curves([("only", STEPS, VALUES)], tmp_path / "one.svg").read_text()
    for text in ("environment steps", "return (greedy evaluation)", ">500 k<", "interquartile mean of 3 seeds"):
        assert text in one
    assert ">only<" not in one  # a legend of one entry says nothing
    two = learning_curves(
        [("first", STEPS, VALUES), ("second", STEPS, VALUES[:, :1])], tmp_path / "two.svg"
    ).read_text()
    assert ">first<" in two and ">second<" in two and "of 1 to 3 seeds" in two
    single = learning_curves([("only", STEPS, VALUES[:, 0])], tmp_path / "single.svg", title="T").read_text()
    assert "interquartile" not in single and ">T<" in single


def test_awkward_curves_are_drawn(tmp_path: Path) -> None:
    gaps = VALUES.copy()
    gaps[:3] = np.nan
    gaps[5, 1] = np.nan
    runs = {
        "gaps": (STEPS, gaps),
        "one point": (STEPS[:1], VALUES[:1]),
        "zero": (STEPS, np.zeros((10, 2))),
        "start": ([0], [[1.0]]),
        "large": (STEPS, VALUES * 1e6),
        "seeds": (STEPS, np.tile(VALUES, 20)),
    }
    for label, run in runs.items():
        assert learning_curves([(label, *run)], tmp_path / f"{label}.png", dpi=40).stat().st_size > 1000
    assert learning_curves([(label, *run) for label, run in runs.items()], tmp_path / "all.png", dpi=40).exists()


def test_a_grid_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(style.STYLE, "svg.fonttype", "none")
    panels = {name: [("PQN", STEPS, VALUES), ("PPO", STEPS, VALUES / 2)] for name in ("Asterix", "Breakout", "Freeway")}
    text = curve_grid(panels, tmp_path / "grid.svg", columns=2, reference={"Asterix": {"paper": 30}}).read_text()
    assert all(f">{name}<" in text for name in (*panels, "paper"))
    assert text.count(">PQN<") == 1  # one legend for all panels
    with pytest.raises(RunError, match="nothing to plot"):
        curve_grid({}, tmp_path / "x.png")


def test_bad_requests_are_sentences(tmp_path: Path) -> None:
    run = ("run", STEPS, VALUES)
    with pytest.raises(RunError, match=r"must end in .png, .svg or .pdf"):
        learning_curves([run], tmp_path / "curve.jpeg")
    with pytest.raises(RunError, match="no run was given"):
        learning_curves([], tmp_path / "curve.png")
    for empty in (("young", [], np.zeros((0, 0))), ("young", STEPS, np.full((10, 2), np.nan))):
        with pytest.raises(RunError, match="young has no finished episode yet"):
            learning_curves([empty], tmp_path / "curve.png")
    with pytest.raises(ValueError, match=r"run: steps must be \[P\]"):
        learning_curves([("run", STEPS[:3], VALUES)], tmp_path / "curve.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write the figure"):
        learning_curves([run], tmp_path / "file" / "curve.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RunError, match="pip install matplotlib"):
        learning_curves([("run", STEPS, VALUES)], tmp_path / "curve.png")


def test_drawing_leaves_the_users_matplotlib_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    learning_curves([("run", STEPS, VALUES)], tmp_path / "curve.png", dpi=40)
    assert dict(matplotlib.rcParams) == before


def texts_outside(draw, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of a figure that are not wholly on its paper."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    found: list[str] = []

    def look(self: Figure, *args: object, **options: object) -> None:
        self.canvas.draw()
        paper = self.bbox
        for text in self.findobj(Text):
            # A number may belong to a tick beyond the axes, which is not drawn.
            if text.get_visible() and text.get_text() and not re.fullmatch(r"[-−\d. kMG]+", text.get_text()):
                box = text.get_window_extent()
                inside = paper.x0 - 1 <= box.x0 and box.x1 <= paper.x1 + 1 and paper.y0 - 1 <= box.y0
                if not (inside and box.y1 <= paper.y1 + 1):
                    found.append(text.get_text())

    monkeypatch.setattr(Figure, "savefig", look)
    draw()
    return found


LONG = "PQN with layer normalisation, four epochs, no target network and a name that goes on and on"


@pytest.mark.parametrize("count", [1, 3, 8])
def test_nothing_is_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    runs = [(f"{LONG} {number}", STEPS, VALUES * number) for number in range(1, count + 1)]

    def draw() -> None:
        learning_curves(runs, tmp_path / "a.png", title=LONG, ylabel=LONG, reference={LONG: 100.0})

    assert not texts_outside(draw, monkeypatch)


@pytest.mark.parametrize("count", [1, 4])
def test_nothing_is_clipped_in_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    runs = [(f"{LONG} {number}", STEPS, VALUES * number) for number in range(1, count + 1)]
    panels = {f"{LONG}: {name}": runs for name in ("return", "loss")}

    def draw() -> None:
        curve_grid(panels, tmp_path / "a.png", title=LONG, ylabel=dict.fromkeys(panels, LONG), note=LONG)

    assert not texts_outside(draw, monkeypatch)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("title", [None, "CartPole-v1"])
def test_no_text_lies_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, title: str | None
) -> None:
    """Title, label of the axes, note and legend of a grid."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    shown: list[str] = []

    def look(self: Figure, *args: object, **options: object) -> None:
        self.canvas.draw()
        ticks = {label for axes in self.axes for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()}
        texts = [text for text in self.findobj(Text) if text.get_visible() and text.get_text() and text not in ticks]
        shown.extend(text.get_text() for text in texts)
        for i, one in enumerate(texts):
            for other in texts[:i]:
                a, b = one.get_window_extent(), other.get_window_extent()
                wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
                assert wide < 1 or high < 1, f"{one.get_text()!r} lies on {other.get_text()!r}"

    monkeypatch.setattr(Figure, "savefig", look)
    runs = [(f"run {number}", STEPS, VALUES * number) for number in range(1, count + 1)]
    note = figures.describe_curves(runs)
    curve_grid({"loss": runs, "return": runs}, tmp_path / "a.png", title=title, note=note)
    assert any(note in text for text in shown) and (count == 1 or "run 1" in shown)


def test_the_test_of_clipping_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "wrapped", lambda text, *_: text)
    monkeypatch.setattr(style, "ROUNDS", 0)
    run = ("run", STEPS, VALUES)
    assert LONG in texts_outside(lambda: learning_curves([run], tmp_path / "a.png", title=LONG), monkeypatch)


# How a colour looks to somebody without red, green or blue receptors (Viénot 1999 and Machado 2009, severity 1).
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_can_be_told_apart(kind: str) -> None:
    """Among the first four, which are most of all figures, no two look alike."""
    seen = []
    for colour in style.COLOURS[:4]:
        linear = (np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255) ** 2.2
        seen.append(255 * np.clip(np.array(BLINDNESS[kind]) @ linear, 0, 1) ** (1 / 2.2))
    distances = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(distances) > 25, distances
