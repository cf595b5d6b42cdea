"""The commands that go on with a run. Whatever comes from the run is quoted: it stays one word of the shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from pqn.config import Config
from pqn.envs.registry import GIVEN_IN_PYTHON
from pqn.report.html.gather import RunRecord
from pqn.runs.configs import differences


def resume(run: RunRecord) -> str:
    """Continues the run where it stopped."""
    return shlex.join(["pqn", "resume", _place(run.path)])


def evaluate(run: RunRecord) -> str:
    """Plays its agents."""
    return shlex.join(["pqn", "eval", _place(run.path), "--episodes", "100"])


def reproduce(run: RunRecord) -> str | None:
    """Trains the same once more; None for an environment that was given in Python and has no name to call it by."""
    if run.config.env.name.startswith(f"{GIVEN_IN_PYTHON}:"):
        return None
    words = ["pqn", "train"] if run.preset is None else ["pqn", "train", run.config.preset]
    changed = differences(run.config, run.preset or Config())
    if run.preset is None:  # a training without a preset must name its environment, also the default one
        changed = {"env.name": (run.config.env.name, None), **changed}
    for name, (value, before) in changed.items():
        if name != "preset" and value is not None:
            words += _option(name, value, before)
    return shlex.join(words)


def report(paths: Sequence[str]) -> str:
    """Makes this report again."""
    return shlex.join(["pqn", "report", *(_place(Path(path)) for path in paths), "-o", "report.html"])


def _option(name: str, value: object, before: object) -> list[str]:
    """The words that give an option its value."""
    flag = "--env" if name == "env.name" else f"--{name.replace('_', '-')}"
    if isinstance(value, dict):
        old = before if isinstance(before, dict) else {}
        changed = {key: entry for key, entry in value.items() if key not in old or old[key] != entry}
        dropped = [f"{key}=" for key in old if key not in value]
        return [flag, *(f"{key}={_entry(entry)}" for key, entry in changed.items()), *dropped]
    if isinstance(value, list | tuple):
        return [flag, *map(_word, value)]
    word = _word(value)
    return [f"{flag}={word}"] if word.startswith("-") else [flag, word]  # alone it would be taken for an option


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)


def _entry(value: object) -> str:
    """A value of an option of the environment: JSON, unless it is a text that JSON would not read as something else."""
    if not isinstance(value, str) or not value:
        return json.dumps(value)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return value
    return json.dumps(value)


def _place(path: Path) -> str:
    return f"./{path}" if str(path).startswith("-") else str(path)
