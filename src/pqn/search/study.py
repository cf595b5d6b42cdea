"""The record of a search that any number of workers share: Optuna's journal in a directory.

    runs/search/
      tune.json       what is searched: the configuration and the space; every worker must ask for the same
      journal.log     Optuna's journal: every trial, its options, its learning curve, how it ended
      trials.json     the same for people, written when a worker ends
      workers/        a lock for each worker, held by its process

Locks are the kernel's (flock). They end with the process that holds them, however it ends: a worker that was killed
leaves no lock that others wait for, and others see that it is gone. Its trials are tried again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pqn.config import Config
from pqn.errors import ConfigError, RunError, how_to_install, reason
from pqn.runs import files
from pqn.runs.configs import describe, differences, read_config
from pqn.runs.directory import RunDir
from pqn.runs.json_text import to_json
from pqn.search.space import Space

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

ABOUT, JOURNAL, TRIALS, WORKERS = "tune.json", "journal.log", "trials.json", "workers"
NAME = "pqn"
LONGEST_LINE = 2**20  # bytes of a line in the journal; a trial of a hundred options takes some thousand
WARM_UP = 0.2  # share of a run before which no trial is pruned: at first, ε says more about a return than the options


@dataclasses.dataclass(frozen=True)
class Asked:
    """A trial that is to be run."""

    trial: Trial
    config: Config | None  # None: its options do not fit together
    reason: str = ""

    @property
    def number(self) -> int:
        return self.trial.number


class Search:
    """A worker's view of a search.

    Args:
      out: the directory of the search; made if it is not there.
      base: what all trials have in common.
      space: what they differ in.
      startup: trials that are drawn at random, before Optuna's sampler and pruner have something to learn from.
      prune: whether to stop trials whose curve is below the median of the others.

    Raises:
      RunError: another search is in `out`.
      ConfigError: Optuna is not installed.
    """

    def __init__(self, out: Path, base: Config, space: Space, startup: int = 10, prune: bool = True):
        self.optuna = _import_optuna()
        self.out, self.base, self.space = out, base, space
        self.worker = RunDir(out / WORKERS / uuid.uuid4().hex)
        try:
            self.worker.path.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"cannot write to {out}: {reason(error)}") from error
        self.worker.lock()
        with self._alone():
            self._refuse_another()
            self.study = self._open(startup, prune)

    def _refuse_another(self) -> None:
        """Writes down what is searched, or compares with what was."""
        path = self.out / ABOUT
        if not files.is_file(path):
            about = {"config": self.base.to_dict(), "space": self.space.to_dict()}
            files.write_atomically(path, (to_json(about, indent=1) + "\n").encode())
            return
        about = files.read_json(path)
        if not isinstance(about, dict) or not {"config", "space"} <= about.keys():
            raise RunError(f"{path} is damaged: it does not say what is searched")
        changed = differences(self.base, read_config(about["config"], str(path)))
        if changed:
            said = describe(changed, "this search", "that one")
            raise RunError(f"{self.out} holds another search: {said}; choose another --out")
        if to_json(about["space"]) != to_json(self.space.to_dict()):
            raise RunError(f"{self.out} holds a search in another space ({path}); choose another --out")

    def _open(self, startup: int, prune: bool) -> Study:
        optuna = self.optuna
        journal = self.out / JOURNAL
        files.is_file(journal)
        pruner = optuna.pruners.NopPruner()
        if prune:
            pruner = optuna.pruners.MedianPruner(startup, n_warmup_steps=int(WARM_UP * self.base.steps))
        try:
            storage = optuna.storages.JournalStorage(
                optuna.storages.journal.JournalFileBackend(str(journal), lock_obj=_JournalLock(journal))
            )
            study = optuna.create_study(
                study_name=NAME, storage=storage, direction="maximize", load_if_exists=True, pruner=pruner
            )
        except (AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{journal} is damaged: Optuna cannot read it; choose another --out") from error
        # Another seed after every interruption and for every worker: the same one would propose the same trials again.
        workers = sum(1 for _ in (self.out / WORKERS).iterdir())
        study.sampler = optuna.samplers.TPESampler(seed=self.base.seed + 1000 * workers, n_startup_trials=startup)
        return study

    def ask(self, at_most: int, budget: int) -> list[Asked]:
        """The next trials for this worker; none where `budget` trials have ended or run.

        Trials of workers that are gone are asked again, with the same options.
        """
        state = self.optuna.trial.TrialState
        with self._alone():
            self._take_back_lost()
            counted = self.study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED, state.RUNNING))
            return [self._ask() for _ in range(min(at_most, budget - len(counted)))]

    def _ask(self) -> Asked:
        distributions = {name: dimension.distribution() for name, dimension in self.space.dimensions.items()}
        trial = self.study.ask(distributions)
        trial.set_user_attr("worker", self.worker.path.name)
        try:
            return Asked(trial, self.base.replace(self.space.options(trial.params)).validate())
        except ConfigError as error:
            return Asked(trial, None, str(error))

    def _take_back_lost(self) -> None:
        """Marks the trials of dead workers as failed, and puts their options first in the queue."""
        for trial in self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,)):
            if not self._lives(trial.user_attrs.get("worker")):
                self._again(trial.number, trial.params)

    def _again(self, number: int, params: dict[str, object]) -> None:
        self.study.tell(number, state=self.optuna.trial.TrialState.FAIL)
        if params.keys() == self.space.dimensions.keys():
            self.study.enqueue_trial(params)

    def _lives(self, worker: object) -> bool:
        """Whether the process of a worker holds its lock; without a name, it died between asking and signing."""
        if worker == self.worker.path.name:
            return True
        path = self.out / WORKERS / str(worker)
        if not isinstance(worker, str) or not files.is_directory(path):
            return False
        probe = RunDir(path)
        try:
            probe.lock()
        except RunError:
            return True
        probe.unlock()
        return False

    def report(self, asked: Asked, step: int, value: float | None) -> bool:
        """Notes a point of a trial's learning curve. Returns whether the trial is worth going on."""
        if value is None:
            return True
        asked.trial.report(value, step)
        return not asked.trial.should_prune()

    def complete(self, asked: Asked, value: float) -> None:
        self.study.tell(asked.number, value)

    def prune(self, asked: Asked, reason: str) -> None:
        """Ends a trial without a final value: for Optuna it is worse than those that have one."""
        asked.trial.set_user_attr("reason", reason)
        self.study.tell(asked.number, state=self.optuna.trial.TrialState.PRUNED)

    def give_back(self, unfinished: Sequence[Asked]) -> None:
        """Trials that the user has stopped: they are tried again when the search goes on."""
        with self._alone():
            for asked in unfinished:
                self._again(asked.number, asked.trial.params)

    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def best(self) -> tuple[FrozenTrial, Config] | None:
        """The complete trial with the highest value, the first of several; None while there is none."""
        complete = [trial for trial in self.trials() if trial.state.name == "COMPLETE"]
        if not complete:
            return None
        trial = max(complete, key=lambda trial: (trial.value, -trial.number))
        return trial, self.base.replace(self.space.options(trial.params)).validate()

    def write(self) -> Path:
        """Writes trials.json."""
        with self._alone():  # also while it reads: what another worker has written meanwhile is not undone
            rows = [
                {
                    "number": trial.number,
                    "state": trial.state.name.lower(),
                    "value": trial.value,
                    "options": self.space.options(trial.params),
                    "curve": [[step, value] for step, value in sorted(trial.intermediate_values.items())],
                    "reason": trial.user_attrs.get("reason"),
                }
                for trial in self.trials()
            ]
            files.write_atomically(self.out / TRIALS, (to_json(rows, indent=1) + "\n").encode())
        return self.out / TRIALS

    def close(self) -> None:
        """Lets go of the worker's lock."""
        self.worker.unlock()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One worker at a time: two must not take the same places of the budget."""
        lock = _KernelLock(str(self.out / ".lock"))
        lock.acquire()
        try:
            yield
        finally:
            lock.release()


class _KernelLock:
    """What Optuna's journal wants of a lock. Its own lock is a file, which a killed process leaves behind for 30 s."""

    def __init__(self, path: str):
        self.path, self.descriptor = path, -1

    def acquire(self) -> bool:
        try:
            import fcntl
        except ImportError as error:
            raise RunError("a search needs the file locks of a Unix system") from error
        self.descriptor = files.open_lock(Path(self.path))
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except OSError as error:
            os.close(self.descriptor)
            raise RunError(f"a search needs file locks, and {self.path} cannot be locked: {reason(error)}") from error
        return True

    def release(self) -> None:
        os.close(self.descriptor)


class _JournalLock(_KernelLock):
    """The lock that a worker holds while it writes to the journal."""

    def __init__(self, journal: Path):
        super().__init__(f"{journal}.lock")
        self.journal = journal

    def acquire(self) -> bool:
        """Also cuts a line that a killed worker left half written: the next one would go on right behind it, and
        nobody could read the journal any more."""
        super().acquire()
        try:
            with open(self.journal, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = file.seek(max(0, size - LONGEST_LINE))
                whole = start + file.read().rfind(b"\n") + 1
            if whole < size:
                os.truncate(self.journal, whole)
        except BaseException:
            self.release()
            raise
        return True


def _import_optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise ConfigError(f"pqn tune needs the package optuna: {how_to_install('tune')}") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
