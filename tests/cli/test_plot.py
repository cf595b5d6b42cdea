"""`pqn plot`: any metric, labels, side by side, and what is wrong in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pqn.cli.main import main
from pqn.report import style


@pytest.fixture
def two(finished_run, tmp_path) -> list[str]:
    """A run, and one that says that it is of another task."""
    paths = [tmp_path / name for name in ("first", "second")]
    for path in paths:
        shutil.copytree(finished_run.run, path)
    for name in ("config.json", "environment.json"):
        (paths[1] / name).write_text((paths[1] / name).read_text().replace("CartPole-v1", "Acrobot-v1"))
    return [str(path) for path in paths]


@pytest.fixture
def drawn(tmp_path, monkeypatch, capsys):
    """Plots with words, and gives the texts of the figure."""
    monkeypatch.setitem(style.STYLE, "svg.fonttype", "none")

    def plot(*words: str) -> str:
        out = tmp_path / "figure.svg"
        assert main(["plot", *words, "-o", str(out)]) == 0, capsys.readouterr().err
        return out.read_text()

    return plot


def test_the_task_is_the_title(two, drawn):
    text = drawn(two[0])
    assert ">CartPole-v1<" in text and ">return (greedy evaluation)<" in text
    assert ">Mine<" in drawn(two[0], "--title", "Mine")


def test_any_metric(two, drawn):
    assert ">loss (training)<" in drawn(two[0], "--metric", "loss")
    assert ">return (training)<" in drawn(two[0], "--train")


def test_labels(two, drawn, finished_run):
    text = drawn(two[0], two[0], "--labels", "with norm, costs 5$")
    assert ">with norm<" in text and ">costs 5$<" in text


def test_metrics_and_tasks_stand_side_by_side(two, drawn):
    text = drawn(two[0], "--metric", "return,loss,lr")
    for words in (">CartPole-v1<", ">return<", ">loss<", ">lr<", ">lr (training)<"):
        assert words in text
    text = drawn(*two, "--metric", "return,loss", "--labels", "a,b")
    for words in (">CartPole-v1: return<", ">Acrobot-v1: loss<", ">a<", ">b<"):
        assert words in text
    text = drawn(*two)
    assert ">CartPole-v1<" in text and ">Acrobot-v1<" in text and text.count(">environment steps<") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "los"], "the run has no metric 'los'; it has evaluations: return, length"),
        (["--metric", "loss", "--labels", "a,b"], "--labels has 2 names for 1 runs"),
    ],
)
def test_mistakes(words, said, two, capsys):
    assert main(["plot", two[0], *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (Path(two[0]) / "curve.png").exists()


def test_a_metric_of_one_run_only(two, capsys):
    lines = (Path(two[1]) / "metrics.jsonl").read_text().splitlines()
    rows = [{key: value for key, value in json.loads(line).items() if key != "loss"} for line in lines]
    (Path(two[1]) / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["plot", *two, "--metric", "loss"]) == 2
    assert f"{two[1]}: the run has no metric 'loss'" in capsys.readouterr().err
