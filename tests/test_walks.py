"""Follows the walks of CONTRIBUTING.md: the code of the page, applied to a copy of the package, must work.

tests/cli/test_walk.py follows the one for a command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TINY = "--total-steps 4096 --network.hidden 16 --eval.num-envs 4 --eval.count 1 --quiet --out runs/walk"


def blocks(title: str) -> list[tuple[str, str]]:
    """Language and content of the code blocks below a heading."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def follow(title: str, root: Path) -> list[str]:
    """Makes the edits of a walk in a copy of src/ below `root`, and returns the commands at its end."""
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    touched, commands = set(), []
    for language, block in blocks(title):
        if language == "sh":
            commands += block.splitlines()
            continue
        path, content = block.removeprefix("# ").split("\n", 1)
        touched.add(path)
        if language == "python":
            assert not (root / path).exists(), path
            (root / path).write_text(content)
            continue
        before, after = ("\n".join(line[1:] for line in content.splitlines() if line[0] == sign) for sign in "-+")
        source = (root / path).read_text()
        assert source.count(before) == 1, f"{path} has {source.count(before)} times: {before}"
        (root / path).write_text(source.replace(before, after))
    assert 1 <= len(touched) <= 2
    return commands


def run(command: str, root: Path) -> str:
    """What a `pqn …` of the copy prints."""
    words = shlex.split(command.split(" #")[0])
    assert words[0] == "pqn"
    done = subprocess.run(
        [sys.executable, "-m", "pqn", *words[1:]],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(root: Path) -> dict[str, list[float]]:
    """The last training row of the walk's run."""
    assert json.loads((root / "runs" / "walk" / "summary.json").read_text())["eval_return"]
    rows = [json.loads(line) for line in (root / "runs" / "walk" / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == "train"][-1]


def test_an_algorithm(tmp_path):
    (command,) = follow("An algorithm", tmp_path)
    run(f"{command} {TINY}", tmp_path)
    row = trained(tmp_path)
    assert len(row["loss"]) == 2
    # ε is at most 1, and of two actions an exploring one is greedy as often as not.
    assert all(0.4 < share / row["updates"] < 1.0 for share in row["greedy"])


@pytest.mark.parametrize("title", ["A torso", "An environment family"])
def test_a_torso_or_a_family(title, tmp_path):
    (command,) = follow(title, tmp_path)
    run(f"{command} {TINY}", tmp_path)
    assert trained(tmp_path)["loss"]
