"""A run directory: everything one training run leaves behind, in files that explain themselves.

    runs/cartpole-20260102-030405/
      config.json         the complete configuration
      environment.json    versions, git commit, command, date
      metrics.jsonl       training and evaluation rows
      checkpoints/        the last few complete states
      summary.json        the outcome, written at the end
      failure.json        why it failed, if it did; removed when it goes on
      .lock               held by the process that trains here

This module never imports jax: listing and plotting runs must be instant.
"""

from __future__ import annotations

import datetime
import errno
import os
import re
import socket
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pqn.errors import RUN_DIRECTORY, RunError, reason
from pqn.runs import files
from pqn.runs.checkpoint_names import step_of
from pqn.runs.json_text import to_json
from pqn.runs.removal import remove_run

CONFIG = "config.json"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"
FAILURE = "failure.json"
STABILITY = "stability.json"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"

PathLike = str | os.PathLike[str]


class RunDir:
    """A run directory and, while training, the exclusive right to write to it.

    Make one with `create` (which locks it) or `open` (which does not: evaluating and plotting only read). Use it as a
    context manager, or call `unlock`, to let go of the lock; the operating system does so when the process dies.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = files.as_path("the run directory", path)
        self._lock: int | None = None  # file descriptor that holds the lock

    @classmethod
    def create(
        cls, path: PathLike | None = None, *, preset: str = "run", root: PathLike = "runs", overwrite: bool = False
    ) -> Self:
        """Make a new, locked run directory, parents included.

        Args:
            path: the directory itself; None takes a fresh `<root>/<preset>-<YYYYmmdd-HHMMSS>`.
            preset: names the default directory.
            root: where default directories go.
            overwrite: remove a run that is there, if it is one and nobody trains in it.

        Raises:
            RunError: it already holds a run, another process has it, or it cannot be written.
        """
        run = cls(_claim_default(preset, root) if path is None else path)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise RunError(f"cannot create the run directory {run.path}: a file is in the way") from error
        except OSError as error:
            raise RunError(f"cannot create the run directory {run.path}: {reason(error)}") from error
        if not overwrite:
            run._refuse_existing()
        run.lock()
        try:
            if overwrite:
                remove_run(run.path, CONFIG, CHECKPOINTS, (ENVIRONMENT, METRICS, SUMMARY, FAILURE, STABILITY))
            run._refuse_existing()  # again: another process may have made its run here before we got the lock
        except RunError:
            run.unlock()
            raise
        return run

    @classmethod
    def open(cls, path: PathLike) -> Self:
        """Open an existing run directory, without locking it.

        Raises:
            RunError: there is no run in `path`.
        """
        run = cls(path)
        if files.kind_of(run.path) is None:
            raise RunError(f"{run.path} is not a run directory: it does not exist")
        if not run.path.is_dir():  # the directory itself may be a link: the user named it
            raise RunError(f"{run.path} is not a run directory: it is a file")
        if not files.is_file(run.path / CONFIG):
            raise RunError(f"{run.path} is not a run directory: it has no {CONFIG}{_runs_within(run.path)}")
        return run

    @property
    def metrics(self) -> Path:
        """The JSONL file of the run's metrics."""
        return self.path / METRICS

    @property
    def checkpoints(self) -> Path:
        """The directory of the run's checkpoints."""
        return self.path / CHECKPOINTS

    def saved_update(self) -> int:
        """The update of the newest checkpoint, by its name; 0 without one. Rows of the metrics may be rarer."""
        try:
            steps = [step_of(path.name) for path in self.checkpoints.iterdir()]
        except OSError:  # there is none yet, or it cannot be read, which whoever needs a checkpoint will say
            return 0
        return max((step for step in steps if step is not None), default=0)

    def lock(self) -> None:
        """Take the exclusive right to write here, or raise `RunError` naming the process that has it."""
        if self._lock is not None:
            return
        file = self.path / LOCK
        files.is_file(file)
        try:
            descriptor = files.open_lock(file)
        except OSError as error:
            raise RunError(f"cannot write to the run directory {self.path}: {reason(error)}") from error
        try:
            _flock_soon(descriptor)
        except BlockingIOError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise RunError(
                f"{self.path} is in use by {holder}: wait for it to end, or stop it, before you train here"
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise RunError(f"cannot lock the run directory {self.path}: {reason(error)}") from error
        # The content is for people and for the message above; the lock itself is the kernel's.
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise RunError(f"cannot write to the run directory {self.path}: {reason(error)}") from error
        self._lock = descriptor

    def unlock(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_json(self, name: str, obj: object) -> Path:
        """Write `obj` as a JSON file, all of it or nothing, and return the file's path."""
        path = self.path / name
        try:
            files.write_atomically(path, (to_json(obj, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(f"cannot write {path}: {reason(error)}") from error
        return path

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the run.

        Raises:
            RunError: it is missing, unreadable, not JSON or not a file of the run's own.
        """
        if not files.is_file(self.path / name):
            raise RunError(f"the run {self.path} has no {name}")
        return files.read_json(self.path / name)

    def forget(self, name: str) -> None:
        """Remove a file of the run, if it is there."""
        if files.is_file(self.path / name):
            (self.path / name).unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"{RUN_DIRECTORY} {self.path}")  # for whoever reports an error that nobody expected
        self.unlock()

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    def _refuse_existing(self) -> None:
        if files.kind_of(self.path / CONFIG):
            raise RunError(
                f"{self.path} already holds a run: continue it with `pqn resume {self.path}`, "
                "choose another directory, or replace it with --overwrite (in Python overwrite=True)"
            )


def read_summary(run: RunDir) -> dict[str, Any]:
    """The outcome of a finished run.

    Raises:
        RunError: there is none, or it lacks what every summary has.
    """
    summary, wanted = run.read_json(SUMMARY), {"preset": str, "steps": int, "seeds": int, "device": str}
    wanted |= dict.fromkeys(("wall_seconds", "compile_seconds", "train_seconds", "steps_per_second"), (int, float))
    sound = isinstance(summary, dict) and all(isinstance(summary.get(key), kind) for key, kind in wanted.items())
    returns = summary.get("eval_return") if sound else None
    if returns is not None:  # null stands for a seed of which no episode ended
        per_seed = returns.get("per_seed") if isinstance(returns, dict) else None
        numbers = [*per_seed, returns.get("mean")] if isinstance(per_seed, list) else [""]
        sound = all(x is None or isinstance(x, int | float) for x in numbers)
    if not sound:
        raise RunError(f"{run.path / SUMMARY} is damaged: it does not hold the outcome of a run")
    return summary


def default_path(preset: str, root: PathLike = "runs", now: datetime.datetime | None = None) -> Path:
    """Return `<root>/<preset>-<YYYYmmdd-HHMMSS>` in local time, with `-2`, `-3`, … where that is taken."""
    now = now or datetime.datetime.now()
    name = re.sub(r"[^\w.+-]+", "-", preset).strip("-.") or "run"  # an env may be called "module:function"
    base = Path(root) / f"{name}-{now:%Y%m%d-%H%M%S}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def _claim_default(preset: str, root: PathLike) -> Path:
    """Make the default directory; two runs started in the same second get two directories."""
    while True:
        path = default_path(preset, root)
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            if not path.is_dir():  # a parent is a file: trying again would never end
                raise RunError(f"cannot create the run directory {path}: a file is in the way") from error
        except NotADirectoryError as error:
            raise RunError(f"cannot create the run directory {path}: a file is in the way") from error
        except OSError as error:
            raise RunError(f"cannot create the run directory {path}: {reason(error)}") from error
        else:
            return path


def is_locked(path: Path) -> bool:
    """Whether a process has the right to write to a run directory. The lock is taken for a moment to find out."""
    try:
        import fcntl

        if not files.is_file(path / LOCK):
            return False
        with files.open_to_read(path / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError, RunError):
        return False
    return False


def _flock_soon(descriptor: int) -> None:
    """`_flock`, tried a few times: `is_locked` holds a lock for a moment."""
    for _ in range(3):
        try:
            return _flock(descriptor)
        except BlockingIOError:
            time.sleep(0.02)
    return _flock(descriptor)


def _runs_within(path: Path) -> str:
    """A hint for who names the directory of a sweep, or of all runs, in the place of one run."""
    try:
        found = min((entry for entry in path.iterdir() if files.is_file(entry / CONFIG)), default=None)
    except OSError:  # it may not be read; that it is no run has been said
        found = None
    return "" if found is None else f", but holds runs, such as {found}"


def _flock(descriptor: int) -> None:
    """Lock an open file for this process alone, where the system can; raise BlockingIOError where it is taken."""
    try:
        import fcntl
    except ImportError:  # not a Unix
        warnings.warn("this system has no file locks; do not train twice in one run directory", stacklevel=3)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some cluster file systems have no locks at all; refusing to train there would help nobody.
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            raise
        warnings.warn("this file system has no locks; do not train twice in one run directory", stacklevel=3)


def _holder(descriptor: int) -> str:
    """Say who holds a lock, from what the holder wrote into it."""
    fields = os.pread(descriptor, 256, 0).decode(errors="replace").split()
    if not fields:
        return "another process"
    elsewhere = len(fields) > 1 and fields[1] != socket.gethostname()
    return f"process {fields[0]}" + (f" on {fields[1]}" if elsewhere else "")
