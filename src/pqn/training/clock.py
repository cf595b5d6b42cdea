"""Where the time of a run goes: every second of its process belongs to one phase."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from pqn.runs import provenance

PHASES = ("before", "build", "trace", "compile", "train", "evaluate", "write")
"""`before` is the age of the process when the run began: imports, in a process that does nothing else. `build` makes
environments and shapes, `trace` and `compile` make the programs, `train` waits for updates, `evaluate` for greedy
episodes, `write` for rows and checkpoints."""


class Clock:
    """A stopwatch that shows one phase at a time. Seconds of no phase are the `rest`."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.before = provenance.process_age() or 0.0
        self.seconds = dict.fromkeys(PHASES, 0.0) | {"before": self.before}
        self.evaluated: float | None = None  # age of the process at the last evaluation
        self._open: list[str] = []
        self._since = self.began

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The seconds within belong to `name`. A phase within a phase stops the outer one."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def move(self, seconds: float, source: str, target: str) -> None:
        """Gives seconds of one phase to another, where only a part of the program knew the difference."""
        seconds = min(seconds, self.seconds[source])
        self.seconds[source] -= seconds
        self.seconds[target] += seconds

    def note_built(self) -> None:
        """All seconds since the run began were spent on building it."""
        self.seconds["build"] = time.perf_counter() - self.began

    def note_evaluation(self) -> None:
        self.evaluated = self.age()

    def age(self) -> float:
        """Seconds since the process started; since the run began, where the system does not say."""
        return self.before + time.perf_counter() - self.began

    def report(self) -> dict[str, float | None]:
        """Seconds by phase, the `rest`, and those from the start of the process to the last greedy evaluation."""
        rest = self.age() - sum(self.seconds.values())
        split = {name: round(value, 3) for name, value in (self.seconds | {"rest": rest}).items()}
        return split | {"until_last_evaluation": None if self.evaluated is None else round(self.evaluated, 3)}

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now
