"""Results on disk: whole or not at all, never over another one, and refused where they contradict themselves."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from made import arm_of, later, result, write

from pqn.errors import RunError
from pqn.experiments import envelope
from pqn.runs import files

BREAKOUT = arm_of("minatar", "pqn-breakout")


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = result(BREAKOUT, [1.5, None], notes=["a note"])
    path = envelope.write(tmp_path, made)
    assert path.relative_to(tmp_path).as_posix() == "minatar/pqn-breakout/20261118-0512-abcdef0-h200.json"
    assert envelope.read(path) == made
    assert envelope.read(path).per_seed[0] == 1.5 and str(envelope.read(path).per_seed[1]) == "nan"


def test_a_new_result_never_replaces_an_old_one(tmp_path: Path) -> None:
    paths = [write(tmp_path, BREAKOUT, [float(value)]) for value in range(3)]
    assert len(set(paths)) == 3
    assert [envelope.read(path).per_seed[0] for path in paths] == [0.0, 1.0, 2.0]


def test_runs_have_one_result(tmp_path: Path) -> None:
    """A process that is killed right after writing finds its result at the next call."""
    first = write(tmp_path, BREAKOUT, [1.0], runs=["id"])
    assert write(tmp_path, BREAKOUT, [1.0], runs=["id"], calls=later("2027-01-01T00:00:00+00:00")) == first
    assert write(tmp_path, BREAKOUT, [1.0], runs=["other"]) != first
    assert write(tmp_path, BREAKOUT, [1.0], runs=["id"], steps=envelope.read(first).steps + 1) != first, "trained on"


def test_nothing_is_left_of_a_result_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="the disk is full"):
        write(tmp_path, BREAKOUT, [1.0])
    monkeypatch.undo()
    assert list(envelope.read_arm(tmp_path, "minatar", "pqn-breakout")) == []
    write(tmp_path, BREAKOUT, [1.0])
    (found,) = envelope.read_arm(tmp_path, "minatar", "pqn-breakout")
    assert isinstance(found[1], envelope.Envelope)


@pytest.mark.parametrize("bytes_kept", [0, 1, 100, 1000])
def test_a_torn_file_is_told_and_not_used(tmp_path: Path, bytes_kept: int) -> None:
    path = write(tmp_path, BREAKOUT, [1.0])
    path.write_bytes(path.read_bytes()[:bytes_kept])
    ((_, found),) = envelope.read_arm(tmp_path, "minatar", "pqn-breakout")
    assert isinstance(found, RunError) and "is damaged" in str(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "not a result of format 1"),
        ({"final": {}}, "one for each of 2 seeds"),
        ({"final": {"return": [1.0]}}, "one for each of 2 seeds"),
        ({"seeds": []}, "no process or no seed"),
        ({"calls": []}, "no process or no seed"),
        ({"calls": [{"date": "today"}]}, "not as results are"),
        ({"curves": {"greedy": {"steps": [1], "seconds": [1], "values": {"return": [[1.0]]}}}}, "its curve of return"),
        ({"steps": 0}, "says that it is complete"),
        ({"colour": "red"}, "'colour' is missing or unknown"),
        ({"share": 1.5}, r"share of the budget is 1.5, and must be in \(0, 1\]"),
        ({"share": None}, "its field 'share' is not as results are"),
        ({"steps": "many"}, "its field 'steps' is not as results are"),
        ({"seconds": None}, "its field 'seconds' is not as results are"),
        ({"peak_bytes": "1"}, "its field 'peak_bytes' is not as results are"),
        ({"complete": "yes"}, "its field 'complete' is not as results are"),
        ({"seeds": [0, "1"]}, "its field 'seeds' is not as results are"),
        ({"final": {"return": [1.0, "2"]}}, "its field 'final' is not as results are"),
        ({"preset": "\x1b[2J"}, "its field 'preset' is not as results are"),
        ({"notes": [{}]}, "its field 'notes' is not as results are"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = write(tmp_path, BREAKOUT, [1.0, 2.0])
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match=words):
        envelope.read(path)


def test_a_result_in_the_folder_of_another_arm_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, BREAKOUT, [1.0])
    other = tmp_path / "minatar" / "pqn-freeway" / path.name
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    ((_, found),) = envelope.read_arm(tmp_path, "minatar", "pqn-freeway")
    assert isinstance(found, RunError) and "is a result of minatar/pqn-breakout" in str(found)


def test_commits_that_differ_between_processes_are_seen() -> None:
    calls = [*later("a"), dataclasses.replace(later("b")[0], commit="0123456")]
    assert result(BREAKOUT, [1.0], calls=calls).mixed
    assert not result(BREAKOUT, [1.0]).mixed


def test_every_result_of_this_repository_can_be_read() -> None:
    root = Path(__file__).parents[2] / "results"
    files_found = [path for path in root.glob("*/*/*.json") if files.is_file(path)]
    assert len(files_found) > 100
    for path in files_found:
        found = envelope.read(path)
        assert (found.experiment, found.arm) == (path.parent.parent.name, path.parent.name)
        assert found.origin == "pqn reproduce" or found.missing, f"{path} does not say what was not recorded"
