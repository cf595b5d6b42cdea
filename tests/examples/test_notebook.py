"""The notebook runs from top to bottom, and is kept without its output."""

from __future__ import annotations

import json
from pathlib import Path

from documented import ROOT

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


def cells(kind: str) -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind]


def test_the_notebook_runs_from_top_to_bottom(session):
    """Each cell in one namespace, as a kernel does it."""
    for number, cell in enumerate(cells("code")):
        exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, cell {number}", "exec"), session.names)
    assert session.names["returns"].shape[1] == 1  # one seed at the test's size
    page = Path(session.names["runs"], "report.html").read_text()
    assert "lam-0.95" in page and "2 runs compared" in page


def test_the_notebook_is_kept_without_output():
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))
    assert len(cells("markdown")) >= len(cells("code")) - 1
