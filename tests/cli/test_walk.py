"""A newcomer's command: the file that the documentation shows is all it takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pqn import cli
from pqn.cli.main import commands, main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WALK = re.compile(r'```python\n(?:# \S+\n)?("""`pqn (\w+) .*?)```', re.DOTALL)


@pytest.fixture
def walked(tmp_path, monkeypatch):
    """The name of the command of the walk, with its file in place."""
    (code, name), *others = [found for page in PAGES for found in WALK.findall(page.read_text())]
    assert not others, "the walk is told twice"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"pqn.cli.{name}", raising=False)
    yield name
    sys.modules.pop(f"pqn.cli.{name}", None)


def test_it_is_found_listed_and_run(walked, finished_run, capsys):
    assert main(["--help"]) == 0
    assert f"  {walked}  " in capsys.readouterr().out
    assert main([walked, str(finished_run.run)]) == 0
    assert capsys.readouterr().out.startswith(f"{finished_run.run}  ")


def test_its_mistakes_are_sentences(walked, capsys):
    for words, sentence in (
        ([walked, "--jsom"], "there is no option --jsom"),
        ([walked, "/nonexistent"], "/nonexistent is not a run directory"),
        ([walked[:-1]], f"did you mean {walked!r}?"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1


def test_files_that_are_no_command_are_not_listed(walked):
    assert walked in commands() and not {"main", "options", "show"} & set(commands())
