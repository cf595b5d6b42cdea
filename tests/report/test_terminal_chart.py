"""The terminal chart: the right picture, and never wider or higher than it was told."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pqn.report.terminal_chart import terminal_curve

STEPS = np.arange(1, 11) * 50_000
VALUES = 500 * (1 - np.exp(-np.outer(np.arange(1, 11) / 3, [0.7, 1.0, 1.4])))


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
    assert lines[-1].endswith("500 k environment steps")
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
