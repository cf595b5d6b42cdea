"""Metrics: always valid JSON, readable after any death, and the same after a resume as without one."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pqn.errors import RunError
from pqn.runs import metrics
from pqn.runs.metrics import MetricsWriter, curve, read_metrics, to_json


def train(update: int, episodes: list[int], return_sum: list[Any]) -> metrics.Row:
    return {"kind": "train", "update": update, "step": 100 * update, "episodes": episodes, "return_sum": return_sum}


def evaluation(update: int, returns: list[list[Any]]) -> metrics.Row:
    return {"kind": "eval", "update": update, "step": 100 * update, "returns": returns}


def strict(text: str) -> Any:
    """Parse as other languages do, for whom NaN is no JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_arrays_and_numbers_of_all_kinds_become_json() -> None:
    row = {
        "a": np.float32(0.5), "b": jnp.arange(3), "c": np.array([[1.0, np.nan], [np.inf, -np.inf]]), "d": (True, None),
        "e": np.bool_(False), "f": math.nan, "g": jnp.bfloat16(2), "h": Path("x/y"), "i": np.int64(2**60), 7: "key",
    }  # fmt: skip
    assert strict(to_json(row)) == {
        "a": 0.5, "b": [0, 1, 2], "c": [[1.0, None], [None, None]], "d": [True, None],
        "e": False, "f": None, "g": 2.0, "h": "x/y", "i": 2**60, "7": "key",
    }  # fmt: skip
    with pytest.raises(TypeError, match="a object cannot be written"):
        to_json({"x": object()})


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_single_precision_survives_the_text(value: float) -> None:
    assert np.float32(strict(to_json(np.float32(value)))) == np.float32(value)


def test_rows_come_back_and_appending_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricsWriter(path) as writer:
        writer.write(train(1, [2, 0], [3.0, math.nan]))
        assert len(read_metrics(path)) == 1  # readable while the run is alive
        writer.sync()
    with MetricsWriter(path) as writer:
        writer.write(evaluation(1, [[1.0]]))
    assert read_metrics(path) == [train(1, [2, 0], [3.0, None]), evaluation(1, [[1.0]])]
    assert all(strict(line) for line in path.read_text().splitlines())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 400))
def test_a_torn_file_reads_as_its_whole_lines(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "metrics.jsonl"
    path.unlink(missing_ok=True)
    rows = [train(update, [1], [2.0]) for update in range(5)]
    with MetricsWriter(path) as writer:
        for row in rows:
            writer.write(row)
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    whole = data.count(b"\n")
    assert read_metrics(path) == rows[:whole]
    with MetricsWriter(path) as writer:
        writer.write(rows[0])
    assert read_metrics(path) == [*rows[:whole], rows[0]]


def test_a_tail_of_zeros_after_a_power_cut(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"update": 1}\n' + b"\0" * 512)
    assert read_metrics(path) == [{"update": 1}]
    path.write_bytes(b'{"update": 1}\n' + b"\0" * 512 + b'\n{"update": 2}\n')
    with pytest.raises(RunError, match="line 2 is not a JSON object"):
        read_metrics(path)
    with MetricsWriter(path) as writer:
        writer.truncate_after(2)
    assert read_metrics(path) == [{"update": 1}, {"update": 2}]


@pytest.mark.parametrize("place", ["last", "before others"])
@pytest.mark.parametrize(
    "spoiled",
    [
        {"step": []}, {"step": "1"}, {"update": 1.5}, {"update": None}, {"kind": "\x1b[2J"}, {"\x1b[2J": 1},
        {"returns": [["x"]]}, {"returns": {}}, {"returns": [[[1.0]]]}, {"returns": [[{}]]}, {"wall": 10**400},
    ],
)  # fmt: skip
def test_a_row_holds_numbers(spoiled: dict[str, object], place: str, tmp_path: Path) -> None:
    """Whoever shows rows relies on it: they format steps, average returns and print names."""
    row = json.dumps(evaluation(1, [[1.0]]) | spoiled)
    (tmp_path / "metrics.jsonl").write_text(f"{row}\n" + f"{json.dumps(evaluation(2, [[1.0]]))}\n" * (place != "last"))
    with pytest.raises(RunError, match=r"metrics.jsonl is damaged: among .* line 1 holds what is no number"):
        read_metrics(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("torn", [b"", b'{"kind": "tra', b"\xff"])
@pytest.mark.parametrize("update", [0, 3, 9])
def test_a_resumed_file_equals_the_uninterrupted_one(tmp_path: Path, update: int, torn: bytes) -> None:
    def rows(first: int) -> list[metrics.Row]:
        return [
            row
            for u in range(first, 10)
            for row in ([train(u, [1], [u / 3])] + ([evaluation(u, [[u / 7]])] if u % 3 == 0 else []))
        ]

    whole, resumed = tmp_path / "whole.jsonl", tmp_path / "resumed.jsonl"
    for path in (whole, resumed):
        with MetricsWriter(path) as writer:
            for row in rows(0):
                writer.write(row)
    with open(resumed, "ab") as file:
        file.write(torn)
    with MetricsWriter(resumed) as writer:
        writer.truncate_after(update)
        assert max(row["update"] for row in read_metrics(resumed)) == update
        for row in rows(update + 1):
            writer.write(row)
    assert resumed.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["resumed.jsonl", "whole.jsonl"]


def test_kill_9_loses_no_row_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    code = (
        "import os, signal, sys; from pqn.runs.metrics import MetricsWriter\n"
        "writer = MetricsWriter(sys.argv[1])\n"
        "for update in range(100): writer.write({'update': update})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    source = str(Path(metrics.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=os.environ | {"PYTHONPATH": source}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [row["update"] for row in read_metrics(path)] == list(range(100))


def test_failures_of_the_disk_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"cannot write metrics to .*absent"):
        MetricsWriter(tmp_path / "absent" / "metrics.jsonl")
    with pytest.raises(RunError, match=r"cannot read .*absent.jsonl: no such file"):
        read_metrics(tmp_path / "absent.jsonl")
    writer = MetricsWriter(tmp_path / "metrics.jsonl")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="the disk is full"):
        writer.sync()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_stops_the_writer_once(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.jsonl")
    writer._file = io.FileIO("/dev/full", "a")
    with pytest.raises(RunError, match=r"cannot write metrics to .*metrics.jsonl: the disk is full"):
        writer.write({"update": 1})
    writer.close()  # has nothing left to write, so does not fail again


# ------------------------------------------------------------------------------------------------------------ curves


def test_training_curve_divides_sums_by_counts() -> None:
    rows = [train(1, [2, 0], [3.0, 0.0]), evaluation(1, [[9.0], [9.0]]), train(2, [1, 4], [5.0, 2.0])]
    steps, values = curve(rows, "train")
    np.testing.assert_array_equal(steps, [100, 200])
    np.testing.assert_array_equal(values, [[1.5, np.nan], [5.0, 0.5]])


def test_evaluation_curve_averages_finished_episodes() -> None:
    rows = [evaluation(1, [[1.0, 3.0], [None, 4.0]]), train(1, [1, 1], [0, 0]), evaluation(2, [[None, None], [0, 1]])]
    steps, values = curve(rows)
    np.testing.assert_array_equal(steps, [100, 200])
    np.testing.assert_array_equal(values, [[2.0, 4.0], [np.nan, 0.5]])


@given(st.integers(1, 12), st.integers(1, 15))
def test_pooling_weighs_episodes_equally(count: int, points: int) -> None:
    rng = np.random.default_rng(count)
    rows = [train(u, rng.integers(0, 4, 2).tolist(), rng.normal(size=2).tolist()) for u in range(1, count + 1)]
    steps, values = curve(rows, "train", points=points)
    assert len(steps) == min(count, points) and steps[-1] == 100 * count
    bounds = np.searchsorted([row["step"] for row in rows], steps, side="right")
    for start, end, value in zip([0, *bounds[:-1]], bounds, values, strict=True):
        for seed in range(2):
            episodes = sum(row["episodes"][seed] for row in rows[start:end])
            total = sum(row["return_sum"][seed] for row in rows[start:end])
            np.testing.assert_allclose(value[seed], total / episodes if episodes else np.nan)


def test_diverged_sums_are_missing_values() -> None:
    _, values = curve([train(1, [1, 1], [None, 2.0])], "train")
    np.testing.assert_array_equal(values, [[np.nan, 2.0]])


def test_no_rows_and_uneven_rows() -> None:
    steps, values = curve([train(1, [1], [1.0])])
    assert steps.shape == (0,) and values.shape == (0, 0)
    with pytest.raises(RunError, match="disagree about the number of seeds"):
        curve([evaluation(1, [[1.0]]), evaluation(2, [[1.0], [2.0]])])


def test_the_curve_of_a_metric_of_the_environments_own():
    rows = [
        {"kind": "eval", "step": 10, "returns": [[1.0], [2.0]], "info/win": [0.5, 1.0]},
        {"kind": "train", "step": 10, "episodes": [2.0, 0.0], "return_sum": [3.0, 0.0], "info/win_sum": [1.0, 0.0]},
    ]
    np.testing.assert_array_equal(curve(rows, "eval", metric="win")[1], [[0.5, 1.0]])
    np.testing.assert_array_equal(curve(rows, "train", metric="win")[1], [[0.5, np.nan]])
    with pytest.raises(RunError, match="no metric 'wins'; it has return, win"):
        curve(rows, "eval", metric="wins")
