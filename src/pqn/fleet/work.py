"""`python -m pqn.fleet.work`: what a process of `processes` runs. It reads one arm, trains it and writes its outcome.

The arm is one line of JSON on standard input, the outcome one on standard output. When standard input ends, the process
that wanted the arm is gone, however it went: the arm is then saved and stopped, as by SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from pqn.config import Config
from pqn.errors import Interrupted
from pqn.fleet.arms import INTERRUPTED, Arm, Outcome, attempt
from pqn.progress import Progress
from pqn.runs.json_text import to_json


def to_line(arm: Arm) -> str:
    return to_json({"label": arm.label, "config": arm.config.to_dict(), "out": str(arm.out)}) + "\n"


def from_line(line: str) -> Arm:
    data = json.loads(line)
    return Arm(data["label"], Config.from_dict(data["config"]), Path(data["out"]))


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
