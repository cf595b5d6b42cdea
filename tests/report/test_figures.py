"""Figures: written in every format, the same bytes each time."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pqn.errors import RunError
from pqn.report import style
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
