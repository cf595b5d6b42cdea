"""Result files: where they go, how they are written, and what they say about how they were made."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pqn.errors import RunError, reason
from pqn.runs import files, provenance
from pqn.runs.metrics import to_json

CALLS = "calls.jsonl"  # a line for each process that worked on a run or an attempt


@dataclasses.dataclass(frozen=True)
class Call:
    """One process that worked on a result: what was typed, which code it was, and on which machine it ran."""

    date: str
    command: str
    commit: str | None
    dirty: bool | None
    """Whether the code differed from the commit; None where nobody could tell."""
    commit_from: str | None
    """Who named the commit: git, the variable PQN_COMMIT, a file in the package, or somebody by hand."""
    versions: Mapping[str, str | None]
    machine: Mapping[str, str | int | None]

    @staticmethod
    def now(command: str) -> Call:
        """This process."""
        source = provenance.describe_source()
        commit, dirty, told_by = source["commit"], source["dirty"], source["source"]
        return Call(
            now(),
            command,
            commit if isinstance(commit, str) else None,
            dirty if isinstance(dirty, bool) else None,
            told_by if isinstance(told_by, str) else None,
            provenance.all_versions(),
            provenance.describe_machine(),
        )


def now() -> str:
    """The date and time, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def check_writable(directory: str) -> Path:
    """Creates `directory` and tries to write into it. Called before the work, whose results need a place at its end.

    Raises:
      RunError: nothing can be written there.
    """
    if not directory:
        raise RunError("--out is empty: name a directory for the results, for example runs/theory")
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


def made_by(command: str, seconds: float) -> dict[str, object]:
    """This process and how long it worked, for a file that is not a result of `pqn reproduce`."""
    return {**dataclasses.asdict(Call.now(command)), "seconds": round(seconds, 1)}


def as_text(content: Mapping[str, object]) -> str:
    """JSON with numbers to six significant digits; NaN and infinity become null, as everywhere."""
    rounded = json.loads(to_json(content), parse_float=lambda text: float(f"{float(text):.6g}"))
    text = json.dumps(rounded, indent=1)
    # The innermost lists on one line each: a curve is easier to read as a row.
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()), text) + "\n"


def write_json(path: Path, content: Mapping[str, object]) -> Path:
    """Writes `content` as `as_text` has it. A crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, as_text(content).encode())
    return path
