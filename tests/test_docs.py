"""What the documentation shows must run, and what it points at must exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pqn.cli.main import commands

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_the_readmes_python_runs(tmp_path):
    """All blocks in order, in a fresh directory; one that starts with a file name is that file."""
    script = []
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            (tmp_path / named.group(1)).write_text(block)
        else:
            script.append(block)
    (tmp_path / "readme.py").write_text("\n".join(script))
    done = subprocess.run(
        [sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "corridor" / "summary.json").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_map_of_the_code_is_true():
    """Every module has its place in the README's map."""
    text = (ROOT / "README.md").read_text()
    map_ = text[text.index("src/pqn/\n") : text.index("```", text.index("src/pqn/\n"))]
    for path in (ROOT / "src" / "pqn").iterdir():
        if not path.name[0].isalpha() or path.name == "py.typed":
            continue
        name = f"{path.name}/" if path.is_dir() else path.name
        assert name in map_, f"{name} is not in the README's map"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page):
    """`pqn WORD` in code names a command, or one whose file the page itself shows."""
    text = page.read_text()
    known = {*commands(), *re.findall(r'^"""`pqn ([a-z]+)', text, re.MULTILINE)}
    for command in re.findall(r"(?:^|`)pqn ([a-z]+)", text, re.MULTILINE):
        assert command in known, command
