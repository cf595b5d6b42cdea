"""Figures: written in every format, the same bytes each time; the terminal chart keeps to its width."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pqn.errors import RunError
from pqn.report import figures
from pqn.report.figures import curve_grid, human, learning_curves, terminal_curve

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
    monkeypatch.setitem(figures.STYLE, "svg.fonttype", "none")
    one = learning_curves([("only", STEPS, VALUES)], tmp_path / "one.svg").read_text()
    for text in ("environment steps", "return (greedy evaluation)", ">500k<", "interquartile mean of 3 seeds"):
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
    monkeypatch.setitem(figures.STYLE, "svg.fonttype", "none")
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
    with pytest.raises(RunError, match=r"pip install 'pqn-jax\[report\]'"):
        learning_curves([("run", STEPS, VALUES)], tmp_path / "curve.png")


def test_drawing_leaves_the_users_matplotlib_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    learning_curves([("run", STEPS, VALUES)], tmp_path / "curve.png", dpi=40)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.0, "0"), (0.25, "0.25"), (999, "999"), (1000, "1k"), (250_000, "250k"), (1.5e6, "1.5M"),
     (1e7, "10M"), (2e9, "2B"), (-2500, "-2.5k"), (999_999.9, "1M")],
)  # fmt: skip
def test_human_numbers(value: float, text: str) -> None:
    assert human(value) == text


# --------------------------------------------------------------------------------------------------------- terminal


def test_terminal_curve_is_the_expected_picture() -> None:
    drawing = terminal_curve([1, 2, 3, 4], [0.0, 10.0, 20.0, 30.0], width=34, height=7, unicode=False)
    assert drawing.splitlines() == [
        "30 +                            **",
        "   |                        ****",
        "20 +                    ****",
        "   |                 ***",
        "10 +             ****",
        "   |          ***",
        " 0 +       ***",
        "   +------------------------------",
        "    0          4 environment steps",
    ]  # the first score was at step 1, so nothing stands left of it


def test_terminal_curve_uses_braille_and_the_interquartile_mean() -> None:
    drawing = terminal_curve(STEPS, VALUES, width=60, height=8)
    lines = drawing.splitlines()
    assert len(lines) == 10 and max(map(len, lines)) <= 60
    assert lines[0].startswith("500 ┤") and lines[7].startswith("  0 ┤")
    assert lines[-1].endswith("500k environment steps")
    assert any(0x2800 < ord(character) < 0x2900 for character in drawing)
    assert drawing == terminal_curve(STEPS, np.mean(VALUES, axis=1), width=60, height=8)  # n < 4: the plain mean


def test_a_dip_between_two_columns_is_seen() -> None:
    values = np.ones(5000)
    values[3210] = 0
    lines = terminal_curve(np.arange(1, 5001), values, width=50, height=6, unicode=False).splitlines()
    assert sum("*" in line for line in lines) == 6


def test_terminal_curve_of_nothing() -> None:
    assert terminal_curve([], []) == terminal_curve([1], [np.nan]) == terminal_curve([], np.zeros((0, 0))) == ""


@settings(max_examples=150, deadline=None)
@given(
    values=hnp.arrays(float, st.integers(1, 30), elements=st.floats(-1e12, 1e12) | st.just(np.nan)),
    width=st.integers(24, 120),
    height=st.integers(1, 20),
    unicode=st.booleans(),
)
def test_terminal_curve_keeps_to_its_size(values: np.ndarray, width: int, height: int, unicode: bool) -> None:
    drawing = terminal_curve(np.arange(1, len(values) + 1) * 1000, values, width=width, height=height, unicode=unicode)
    if np.isnan(values).all():
        assert drawing == ""
        return
    lines = drawing.splitlines()
    assert len(lines) == height + 2 and max(map(len, lines)) <= width
    assert unicode or drawing.isascii()
    marks = [character for line in lines[:height] for character in line if character == "*" or ord(character) > 0x2800]
    assert marks
