"""`python -m pqn.fleet.work`: what a process of `processes` runs. It reads one arm, finishes it and writes its outcome.

The arm is one line of JSON on standard input, the outcome one on standard output. When standard input ends, the process
that wanted the arm is gone, however it went: the arm is then saved and stopped, as by SIGTERM.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading

from pqn.errors import Interrupted
from pqn.fleet.arms import INTERRUPTED, Outcome, Task, attempt
from pqn.progress import Progress
from pqn.runs.json_text import to_json


def to_line(arm: Task) -> str:
    kind = type(arm)
    return to_json({"task": f"{kind.__module__}:{kind.__qualname__}", **arm.to_dict()}) + "\n"


def from_line(line: str) -> Task:
    """The inverse of `to_line`. Only tasks of this package are made."""
    data = json.loads(line)
    module, _, name = data.pop("task").partition(":")
    if not module.startswith("pqn."):
        raise ValueError(f"{module}:{name} is no task of pqn")
    return getattr(importlib.import_module(module), name).from_dict(data)


def main() -> int:
    """Returns the exit status of the arm."""
    arm = from_line(sys.stdin.readline())
    answer, sys.stdout = sys.stdout, sys.stderr  # libraries and environments may print
    threading.Thread(target=_stop_with_the_reader, daemon=True).start()
    try:
        outcome = attempt(arm, Progress(sys.stderr), sys.stderr)
    except (Interrupted, KeyboardInterrupt) as stopped:
        outcome = Outcome(arm, str(stopped), INTERRUPTED)
    print(json.dumps({"error": outcome.error, "status": outcome.status}), file=answer, flush=True)
    return outcome.status


def _stop_with_the_reader() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the thread that waits for standard input must not be waited for
