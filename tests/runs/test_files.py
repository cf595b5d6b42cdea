"""Files that a user names for a result, and files that somebody left where one goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from written_runs import write_run

from pqn.errors import RunError
from pqn.report.figures import learning_curves
from pqn.report.html import write_report
from pqn.runs.tidy import Metrics
from pqn.watch.writers import check_output, write_text


def table(path: Path) -> None:
    Metrics([{"kind": "train", "update": 1, "step": 8}]).to_csv(path)


def figure(path: Path) -> None:
    learning_curves([("a", np.arange(3), np.ones((3, 2)))], path)


def report(path: Path) -> None:
    write_report([path.parent / "run"], path)


def film(path: Path) -> None:
    check_output(path, path.suffix == ".txt", "a game")
    write_text(path, "a film")


WRITERS = {"x.csv": table, "x.png": figure, "x.svg": figure, "x.html": report, "x.txt": film}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "run")
    return tmp_path


@pytest.mark.parametrize(("name", "write"), WRITERS.items())
def test_only_a_file_is_replaced(name: str, write: Callable[[Path], None], folder: Path) -> None:
    """A pipe or a device that a user names, such as /dev/null, would be a file afterwards, for everybody."""
    os.mkfifo(folder / name)
    with pytest.raises(RunError, match=rf"cannot write .*{name}: it is a pipe; name a file"):
        write(folder / name)
    assert (folder / name).is_fifo()
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(RunError, match="it is a directory; name a file"):
        write(folder / name)


@pytest.mark.parametrize(("name", "write"), WRITERS.items())
def test_a_link_of_the_user_leads_to_the_file(name: str, write: Callable[[Path], None], folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / name).symlink_to(folder / "there" / "result")
    write(folder / name)
    assert (folder / name).is_symlink() and (folder / "there" / "result").stat().st_size
    assert [path.name for path in (folder / "there").iterdir()] == ["result"]  # nothing temporary is left


@pytest.mark.parametrize(("name", "write"), WRITERS.items())
def test_a_link_in_place_of_the_temporary_file_is_not_followed(
    name: str, write: Callable[[Path], None], folder: Path
) -> None:
    """In the directory of somebody else's run a link may lie in wait."""
    precious = folder / "precious"
    precious.write_text("precious")
    stem, _, suffix = name.partition(".")
    for temporary in (f".{name}.tmp", f".{stem}.tmp.{suffix}"):
        (folder / temporary).symlink_to(precious)
    write(folder / name)
    assert precious.read_text() == "precious" and (folder / name).stat().st_size


def test_a_figure_is_written_whole_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure(folder / "x.png")
    before = (folder / "x.png").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="the disk is full"):
        learning_curves([("b", np.arange(3), np.zeros((3, 2)))], folder / "x.png")
    assert (folder / "x.png").read_bytes() == before
