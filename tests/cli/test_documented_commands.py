"""Every command of the pages on watching and exporting does what the page says, on a run that is there."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from hub import Client

from pqn.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


def commands(page: str) -> list[str]:
    text = (DOCS / page).read_text()
    lines = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    return [line.partition("  #")[0].strip() for line in lines if line.startswith("pqn ")]


@pytest.fixture(scope="module")
def folder(finished_run, tmp_path_factory) -> Path:
    """A directory with the runs `runs/a` and `runs/b`, and a film."""
    found = tmp_path_factory.mktemp("docs")
    for name in "ab":
        shutil.copytree(finished_run.run, found / "runs" / name)
    (found / "agent.gif").write_bytes(b"a film")
    return found


@pytest.mark.parametrize("line", [*commands("watching.md"), *commands("export.md")])
def test_a_documented_command(line, folder, monkeypatch, capsys):
    hub = Client()
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.chdir(folder)
    words = shlex.split(line)
    assert main(words[1:]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    if "-o" in words:
        assert Path(words[words.index("-o") + 1]).exists()
    assert [call[1] for call in hub.calls] == (["owner/name"] * 2 if words[1] == "push" else [])
    assert said
