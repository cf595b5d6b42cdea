"""Result files: where they go, and what they say about how they were made."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pqn.errors import RunError, reason
from pqn.runs.metrics import to_json
from pqn.runs.provenance import describe_device, describe_environment


def check_writable(directory: str) -> Path:
    """Creates `directory` and tries to write into it. Called before the work, whose results need a place at its end.

    Raises:
      RunError: nothing can be written there.
    """
    if not directory:
        raise RunError("--out is empty: name a directory for the results, for example results/theory")
    try:
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path) as file:
            file.write(b"test")
            file.flush()
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(f"results cannot be written to {directory}: {why}; choose another --out") from error
    return path


def provenance(command: str, seconds: float) -> dict[str, object]:
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


def write_json(path: Path, content: Mapping[str, object]) -> Path:
    """Writes `content` with numbers to six significant digits; NaN and infinity become null, as everywhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(to_json(content), parse_float=lambda text: float(f"{float(text):.6g}"))
    text = json.dumps(rounded, indent=1)
    # The innermost lists on one line each: a curve is easier to read as a row.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()), text)
    path.write_text(text + "\n")
    return path
