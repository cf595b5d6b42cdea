"""Arms in processes on this machine, several at a time.

A process that dies (killed, out of memory) is started again and goes on from the arm's checkpoint. One that ends with
an error is not: the same arm would end the same way. GPUs are dealt out in turn; where several processes share one,
each gets its part of the memory. This process itself never starts JAX, which would take memory from all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from pqn.errors import Interrupted
from pqn.fleet.arms import INTERRUPTED, Outcome, Task, log_of, open_log, say
from pqn.fleet.signals import stopping
from pqn.fleet.work import to_line
from pqn.progress import Progress

SECONDS_BETWEEN_LOOKS = 0.05
MEMORY_OF_A_GPU = 0.9  # what all processes on one GPU take together


@dataclasses.dataclass
class _Job:
    """An arm and the process that trains it."""

    arm: Task
    slot: int
    left: int  # how often it may still be started again
    process: subprocess.Popen[str]


def run_in_processes(arms: Sequence[Task], jobs: int, retries: int, progress: Progress) -> list[Outcome]:
    """Brings arms to their end, `jobs` at a time; see `placement.run_arms`."""
    waiting, running = deque((arm, retries) for arm in arms), list[_Job]()
    outcomes: list[Outcome] = []
    gpus, slots = visible_gpus(), list(range(min(jobs, len(arms))))
    with stopping() as caught, contextlib.ExitStack() as stack:
        stack.callback(_end, running)
        while (waiting and not caught) or running:
            while waiting and slots and not caught:
                (arm, left), slot = waiting.popleft(), slots.pop(0)
                progress.note(f"--- {arm.label}")
                running.append(_Job(arm, slot, left, _start(arm, environment(slot, jobs, gpus))))
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                slots.append(job.slot)
                outcome = _outcome(job)
                if outcome is not None:
                    outcomes.append(outcome)
                    say(outcome, len(outcomes), len(arms), progress)
                elif caught:
                    continue
                elif job.left:
                    progress.warn(f"{job.arm.label}: {_death(job)}; it goes on from its checkpoint")
                    waiting.appendleft((job.arm, job.left - 1))
                else:
                    outcomes.append(Outcome(job.arm, f"{_death(job)}; {log_of(job.arm)} has more", 1))
                    say(outcomes[-1], len(outcomes), len(arms), progress)
            if caught:
                _ask_to_stop(running)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        if caught:
            raise Interrupted(f"stopped by {caught[0]}; call the same command again to go on")
    return outcomes


def visible_gpus(root: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """The GPUs that a process started here would see, without starting JAX to ask."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name]
    return [str(number) for number in range(len(list(root.iterdir())) if root.is_dir() else 0)]


def environment(slot: int, jobs: int, gpus: Sequence[str]) -> dict[str, str]:
    """The variables of the process in a slot: one of the GPUs, and its part of that GPU's memory."""
    variables = dict(os.environ)
    if gpus:
        share = -(-jobs // len(gpus))  # processes on the fullest GPU
        variables["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
        if share > 1:
            variables |= memory_share(1.0 / share, os.environ)
    return variables


def memory_share(share: float, given: Mapping[str, str]) -> dict[str, str]:
    """What tells JAX to take a part of a GPU's memory, unless the user has said how much."""
    names = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE")
    return {} if any(name in given for name in names) else {names[0]: f"{MEMORY_OF_A_GPU * share:.3f}"}


def _start(arm: Task, variables: dict[str, str]) -> subprocess.Popen[str]:
    with open_log(arm) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pqn.fleet.work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=variables | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C reaches this process alone, which asks each to stop once
        )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died at once; its exit status says so
        process.stdin.write(to_line(arm))
        process.stdin.flush()  # not closed: its end would tell the process to stop
    return process


def _outcome(job: _Job) -> Outcome | None:
    """What the process has answered; None where it died, or was stopped, before it could."""
    assert job.process.stdout is not None and job.process.stdin is not None
    answer = job.process.stdout.read()
    for pipe in (job.process.stdout, job.process.stdin):
        with contextlib.suppress(OSError):
            pipe.close()
    try:
        data = json.loads(answer)
    except ValueError:
        return None
    return None if data["status"] == INTERRUPTED else Outcome(job.arm, data["error"], data["status"])


def _death(job: _Job) -> str:
    code = job.process.returncode
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with status {code}"


def _ask_to_stop(running: list[_Job]) -> None:
    """Ends the standard input of the processes: each saves its arm and goes."""
    for job in running:
        if job.process.stdin is not None and not job.process.stdin.closed:
            with contextlib.suppress(OSError):
                job.process.stdin.close()


def _end(running: list[_Job]) -> None:
    """Waits for what still runs when an error ends everything."""
    _ask_to_stop(running)
    for job in running:
        job.process.wait()
