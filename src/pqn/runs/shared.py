"""The run directory of several processes: process 0 writes it, the others see it and write their parts of checkpoints.

With one process, all of this is what `RunDir` does alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from pqn.errors import ConfigError, RunError
from pqn.fields import brief
from pqn.hosts import processes
from pqn.progress import Progress
from pqn.runs.directory import LOCK, PathLike, RunDir
from pqn.runs.json_text import to_json


class FollowedRun(RunDir):
    """A run directory as the processes after the first have it: what they would write again is dropped."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self._scratch = tempfile.TemporaryDirectory(prefix="pqn-")
        self._written: dict[str, object] = {}

    @property
    def metrics(self) -> Path:
        """Rows go where nobody reads them: every process counts them, since all must do the same."""
        return Path(self._scratch.name) / "metrics.jsonl"

    def lock(self) -> None:
        """Process 0 has the lock."""

    def write_json(self, name: str, obj: object) -> Path:
        self._written[name] = _as_read(obj)
        return self.path / name

    def read_json(self, name: str) -> object:
        return self._written[name] if name in self._written else super().read_json(name)

    def forget(self, name: str) -> None:
        self._written.pop(name, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._scratch.cleanup()


def create(out: PathLike | None, preset: str, overwrite: bool = False) -> RunDir:
    """`RunDir.create` by process 0, for all."""
    return _of_all(lambda: RunDir.create(out, preset=preset, overwrite=overwrite))


def open_locked(path: PathLike) -> RunDir:
    """`RunDir.open` and `lock` by process 0, for all."""

    def open_it() -> RunDir:
        run = RunDir.open(path)
        run.lock()
        return run

    return _of_all(open_it)


def progress_of(given: Progress | bool | None) -> Progress:
    """Where this process reports: process 0 to the user, the others to nobody.

    Args:
      given: None or True for standard error, False for warnings only.

    Raises:
      ConfigError: it is something else.
    """
    if given is not None and not isinstance(given, Progress | bool):
        raise ConfigError(f"progress is {brief(given)}; it must be True, False or a pqn.progress.Progress")
    if processes.index() != 0:
        return Progress(io.StringIO(), quiet=True)
    return given if isinstance(given, Progress) else Progress(quiet=given is False)


def agree(limit: int, late: bool) -> tuple[int, bool]:
    """What all processes go by: the clock of process 0."""
    if processes.count() == 1:
        return limit, late
    limit, late = processes.gather_json([limit, late])[0]
    return limit, late


def agree_to_stop(signal: str | None, reason: str | None) -> tuple[str | None, str | None]:
    """The first signal that any process caught, and the first reason that a callback of any of them had."""
    if processes.count() == 1:
        return signal, reason
    signals, reasons = zip(*processes.gather_json([signal, reason]), strict=True)
    return next(filter(None, signals), None), next(filter(None, reasons), None)


def _of_all(make: Callable[[], RunDir]) -> RunDir:
    if processes.count() == 1:
        return make()
    run, failure = None, None
    if processes.index() == 0:
        try:
            run = make()
        except RunError as error:
            failure = str(error)
    path = None if run is None else str(run.path.resolve())
    with contextlib.ExitStack() as stack:
        if run is not None:
            stack.callback(run.unlock)
        path, failure = processes.gather_json([path, failure])[0]
        if failure is not None:
            raise RunError(failure)
        seen = processes.gather_json((Path(path) / LOCK).exists())
        if not all(seen):
            raise RunError(
                f"process {seen.index(False)} does not see the run directory {path}; it must be on a file system that "
                "all processes share"
            )
        stack.pop_all()
    return FollowedRun(path) if run is None else run


def _as_read(obj: object) -> object:
    return json.loads(to_json(obj))
