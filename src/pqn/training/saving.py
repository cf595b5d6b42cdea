"""Writing checkpoints while training goes on: one at a time, in the order in which they were given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class Saver:
    """A thread that writes what it is given.

    What is given to it must not change any more. A failure is raised by the next call here, whichever that is: a run
    must not go on for long believing that it is saved.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pqn-save")
        self._writing: Future[object] | None = None

    def write(self, work: Callable[[], object]) -> None:
        """Begins `work` when what was given before is written."""
        self.wait()
        self._writing = self._thread.submit(work)

    def check(self) -> None:
        """Raises by what the last work failed, if it has failed by now."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Returns when all is written. Raises by what it failed."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What has begun is written to its end. Its failure is raised, unless something else ends the run already."""
        try:
            if kind is None:
                self.wait()
        finally:
            self._thread.shutdown()
