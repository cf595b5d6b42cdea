"""Each example runs from a checkout as a user would run it, with a small budget."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
BUDGET = {"sweep.py": ["--seeds", "2"]}  # beyond `--steps`
LAST = {  # what the last lines name
    "custom_environment.py": "run:",
    "custom_network.py": "pqn plot",
    "simulator.py": "run:",
    "sweep.py": "pqn plot",
}


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(script, tmp_path):
    command = [sys.executable, EXAMPLES / script, "--steps", "8192", "--out", "runs/new", *BUDGET.get(script, [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert LAST[script] in done.stdout.splitlines()[-1]
    assert list((tmp_path / "runs").rglob("summary.json"))
