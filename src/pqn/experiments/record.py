"""What a result file says about its own making, so that anyone can make it again."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from pqn.errors import RunError, reason
from pqn.runs.provenance import describe_device, describe_environment


def check_writable(directory: str) -> Path:
    """Creates `directory` and tries to write into it: results of minutes of work must find room at the end of it.

    Raises:
      RunError: nothing can be written there.
    """
    if not directory:
        raise RunError("--out is empty: name a directory for the results, for example results/theory")
    try:
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path) as file:
            file.write(b"room")
            file.flush()
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(f"results cannot be written to {directory}: {why}; choose another --out") from error
    return path


def provenance(command: str, seconds: float) -> dict[str, Any]:
    """Command, commit, date, device, versions and wall time of a run."""
    environment = describe_environment()
    return {
        "command": command,
        "commit": environment["git"]["commit"],
        "date": environment["time"],
        "device": describe_device(),
        "versions": environment["versions"],
        "seconds": round(seconds, 1),
    }


def write_json(path: Path, content: dict[str, Any]) -> Path:
    """Writes `content` with numbers to six significant digits; JSON has no NaN or infinity, so those become strings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain(content), indent=1)
    # Innermost lists on one line each: a curve is a row to read, not a page to scroll.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()), text)
    path.write_text(text + "\n")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else str(value)
    return value
