"""Two real processes of `pqn`, over gloo, for the tests of this folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from conftest import TINY, tiny

import pqn
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.training import train

SRC, TESTS = Path(pqn.__file__).resolve().parents[1], Path(__file__).resolve().parents[1]  # the code under test
LIMIT = 240  # seconds for anything; a busy machine is slow


Launch = Callable[[int], tuple[list[str], dict[str, str]]]  # of a process by its number: words, environment variables


def by_address() -> Launch:
    """Processes that are told where to meet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    return lambda number: (["--coordinator", address, "--processes", "2", "--process", str(number)], {})


class Pair:
    """Two processes of `pqn`, and what they said."""

    def __init__(
        self,
        folder: Path,
        words: list[str],
        *,
        other: tuple[str, ...] = (),
        patience: int = 15,
        launch: Launch | None = None,
    ):
        launch = launch or by_address()
        paths = os.pathsep.join(map(str, (SRC, TESTS)))
        environment = os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
        self.logs = [folder / f"process-{number}.txt" for number in (0, 1)]
        self.processes = []
        for number, log in enumerate(self.logs):
            place, variables = launch(number)
            command = [sys.executable, "-m", "pqn", *words, *place, "--wait", "60", "--patience", str(patience)]
            with open(log, "w") as file:
                self.processes.append(
                    subprocess.Popen(
                        [*command, *(other * number)], stdout=file, stderr=file, env=environment | variables, cwd=folder
                    )
                )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def wait(self, number: int) -> int:
        return self.processes[number].wait(LIMIT)

    def kill(self, victim: int) -> None:
        """Kills one process; the other must end in time, name it, and say that nothing is lost."""
        self.processes[victim].send_signal(signal.SIGKILL)
        began = time.monotonic()
        assert self.wait(1 - victim) == 2
        assert time.monotonic() - began < 60  # 15 s of patience, on a busy machine
        said = self.said(1 - victim)
        assert said.startswith(f"pqn: process {victim} ") and "the last checkpoint is intact" in said

    def said(self, number: int) -> str:
        """The last line of a process."""
        return (self.logs[number].read_text().strip().splitlines() or [""])[-1]


def words_of(updates: int, **more: object) -> list[str]:
    options = TINY | {"total_steps": 64 * updates, "shards": 2, "env.name": "CartPole-v1"} | more
    pairs = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    texts = [(name, [str(x) for x in value] if isinstance(value, tuple) else [str(value)]) for name, value in pairs]
    return ["train", *(word for name, values in texts for word in (name, *values))]


def arrays_of(run: Path) -> dict[str, np.ndarray]:
    newest = checkpoint.latest(run / "checkpoints")
    assert newest is not None
    return checkpoint.read(newest).arrays


def assert_close(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], most: float) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if value.dtype.kind == "f" and value.size:
            assert np.max(np.abs(found[name] - value)) <= most * max(np.max(np.abs(value)), 1e-6), name
        else:
            np.testing.assert_array_equal(found[name], value, name)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def one_process(folder: Path, updates: int, **more: object) -> Path:
    """The run that one process makes of `words_of`."""
    config = tiny({"shards": 2, "total_steps": 64 * updates} | more)
    return train(config, out=folder / "one", progress=Progress(quiet=True)).run
