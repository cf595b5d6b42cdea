"""Every metric of a run as a curve, by the name a user knows."""

from __future__ import annotations

import numpy as np
import pytest

from pqn.errors import RunError
from pqn.runs.columns import known_metrics, metric_curve

ROWS = [
    {"kind": "eval", "update": 0, "step": 0, "returns": [[1.0, 3.0], [5.0, None]], "length_mean": [2.0, 4.0]},
    *(
        {
            "kind": "train",
            "update": u,
            "updates": 1 if u < 4 else 3,
            "step": 10 * u,
            "episodes": [2, 0],
            "return_sum": [2.0 * u, 0.0],
            "length_sum": [4.0, 0.0],
            "info/win_sum": [1.0, 0.0],
            "loss": [float(u), None],
            "lr": 0.1 / u,
        }
        for u in (1, 2, 3, 4)
    ),
    {"kind": "stability", "update": 4, "step": 40, "largest": 0.25},
]


def test_the_names():
    assert known_metrics(ROWS) == {
        "eval": ["return", "length"],
        "train": ["return", "length", "loss", "lr", "win"],
        "stability": ["largest"],
    }


@pytest.mark.parametrize(
    ("metric", "which", "kind", "steps", "values"),
    [
        ("return", None, "eval", [0], [[2, 5]]),
        ("length", None, "eval", [0], [[2, 4]]),
        ("return", "train", "train", [10, 20, 30, 40], [[1, np.nan], [2, np.nan], [3, np.nan], [4, np.nan]]),
        ("length", "train", "train", [10, 20, 30, 40], [[2, np.nan]] * 4),
        ("win", None, "train", [10, 20, 30, 40], [[0.5, np.nan]] * 4),
        ("loss", None, "train", [10, 20, 30, 40], [[1, np.nan], [2, np.nan], [3, np.nan], [4, np.nan]]),
        ("lr", None, "train", [10, 20, 30, 40], [[0.1], [0.05], [0.1 / 3], [0.025]]),
        ("largest", None, "stability", [40], [[0.25]]),
    ],
)
def test_the_curves(metric, which, kind, steps, values):
    found = metric_curve(ROWS, metric, which)
    assert found[0] == kind
    np.testing.assert_array_equal(found[1], steps)
    np.testing.assert_allclose(found[2], values)


def test_neighbouring_rows_are_pooled_by_their_updates():
    _, steps, values = metric_curve(ROWS, "loss", points=2)
    assert steps.tolist() == [20, 40]
    np.testing.assert_allclose(values, [[1.5, np.nan], [(3 + 3 * 4) / 4, np.nan]])


def test_what_is_not_there():
    with pytest.raises(RunError) as error:
        metric_curve(ROWS, "los")
    assert str(error.value) == (
        "the run has no metric 'los'; it has evaluations: return, length; training: return, length, loss, lr, win; "
        "stability: largest; did you mean 'loss'?"
    )
    with pytest.raises(RunError, match="the run has no metric 'largest' of training"):
        metric_curve(ROWS, "largest", "train")
    assert metric_curve([], "return")[1].size == 0
    assert metric_curve(ROWS[:1], "return", "train")[1].size == 0
    with pytest.raises(RunError, match="damaged: some hold no numbers for 'loss'"):
        metric_curve([{"kind": "train", "step": 1, "loss": "high"}], "loss")
