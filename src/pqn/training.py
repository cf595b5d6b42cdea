"""The host loop: compiled chunks, and between them everything that touches the disk, the screen or the user.

`train` starts a run, `resume` continues one; both end in `_Loop.fit`. A run is a pure function of its configuration:
the loop only decides where to look at it, never what it computes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from pqn.algorithms.base import schedules
from pqn.config import Config
from pqn.device import enable_compilation_cache
from pqn.envs.source import given
from pqn.errors import CheckpointError, EnvFailed, Interrupted, RunError, explained
from pqn.play import Agent, load
from pqn.programs import evaluation, health
from pqn.programs.base import Program, RunState
from pqn.programs.make import make_program
from pqn.programs.totals import first_fault
from pqn.progress import Progress, Status
from pqn.runs import checkpoint, files, provenance
from pqn.runs import directory as runs
from pqn.runs.identity import EnvIdentity, identify, spec_to_dict
from pqn.runs.loggers import check_loggers, open_loggers, scalars
from pqn.runs.metrics import MetricsWriter, Row
from pqn.runs.opened import OpenedRun, Trained, describe, differences, open_run
from pqn.runs.pending import Pending

SECONDS_PER_CHUNK = 1.0  # how long the program may run before the host looks at signals and the clock


@dataclasses.dataclass(frozen=True)
class Result:
    """What a finished run hands back."""

    run: Path
    summary: dict[str, Any]

    def agent(self, seed: int | None = None) -> Agent:
        """The trained agent; see `pqn.load`."""
        return load(self.run, seed)


@explained()
def train(
    config: Config, *, env: object = None, out: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Result:
    """Trains `config` in a new run directory.

    Args:
      config: what to train; see `pqn.preset`.
      env: your own environment instead of `config.env.name`: a name, a `SingleEnv`, or a function of `num_envs` that
        makes a `JaxEnv` or a `HostEnv`. The run records what it was, and wants it again to be resumed or evaluated.
      out: the run directory; by default `runs/<preset>-<time>`.
      progress: where to report; by default to standard error.

    Raises:
      PqnError: with a sentence for the user. `Interrupted` after Ctrl-C, `Diverged` on NaN or infinity.
    """
    config.validate()
    check_loggers(config.log.to)
    enable_compilation_cache()
    progress = progress or Progress()
    source = given(config.env.name if env is None else env, config.env.kwargs)
    config = dataclasses.replace(
        config, env=dataclasses.replace(config.env, name=source.name, kwargs=dict(source.kwargs))
    )
    program = make_program(config, source)  # before the directory exists: a bad option leaves no litter
    with runs.RunDir.create(out, preset=config.preset) as run, contextlib.closing(program):
        about = _About(uuid.uuid4().hex, identify(source, program.algorithm.spec))
        machine = provenance.describe_environment() | {"device": provenance.describe_device()}
        # First: a configuration makes a run of the directory, and a run must have its id.
        run.write_json(runs.ENVIRONMENT, machine | about.to_dict())
        run.write_json(runs.CONFIG, config.to_dict())
        if rounded := config.rounding():
            progress.note(rounded)
        loop = _Loop(program, run, progress, about)
        loop.compile()
        return loop.fit(program.init())


@explained()
def resume(run: str | os.PathLike[str], *, env: object = None, progress: Progress | None = None) -> Result:
    """Continues a run from its newest intact checkpoint, to exactly the state an uninterrupted run would reach.

    Args:
      run: a run directory.
      env: the environment, where the run was trained in one of your own; see `train`.
      progress: where to report; by default to standard error.

    Raises:
      PqnError: with a sentence for the user: what was found is not this run, or not its environment.
    """
    progress = progress or Progress()
    with runs.RunDir.open(run) as directory, contextlib.ExitStack() as stack:
        directory.lock()
        opened = open_run(directory, progress.warn)
        source = opened.source(env, "resume")
        trained = _newest(opened, progress)
        config = opened.config
        enable_compilation_cache()
        program = make_program(config, source)
        stack.enter_context(contextlib.closing(program))
        if trained is None:
            identity = identify(source, program.algorithm.spec)
        else:
            identity = opened.compare(trained, source, program.algorithm.spec)
            _say_changes(opened, trained, progress)
        state = None if trained is None else checkpoint.place(trained.contents, program.saved_shape())
        loop = _Loop(program, directory, progress, _About(opened.id, identity))
        loop.restore(trained)
        if loop.update >= config.updates:
            progress.note(f"{run} is already complete ({config.updates} updates)")
            return loop.complete()
        if files.is_file(directory.path / runs.SUMMARY):
            (directory.path / runs.SUMMARY).unlink()  # of an end that is no more
        loop.compile()
        return loop.fit(program.init() if state is None else program.restore(state, progress.note))


class _About(NamedTuple):
    """What identifies a run, in its environment.json and in each of its checkpoints."""

    run: str | None  # None: the run is older than this
    env: EnvIdentity

    def to_dict(self) -> dict[str, object]:
        return {"run": self.run, "env": self.env.to_dict()}


def _newest(opened: OpenedRun, progress: Progress) -> Trained | None:
    """The checkpoint to go on from; None for a run that was stopped before its first."""
    try:
        return opened.newest()
    except checkpoint.NoIntactCheckpoint as error:
        raise CheckpointError(
            f"{error}; to start anew, train in another directory, or remove {opened.directory.checkpoints} and resume"
        ) from error
    except checkpoint.NoCheckpoint as reason:
        progress.warn(f"{reason}; starting from the beginning")
        return None


def _say_changes(opened: OpenedRun, trained: Trained, progress: Progress) -> None:
    """Names the options that were changed since the checkpoint, all of which may."""
    changed = differences(opened.config, trained.config)
    if changed:
        progress.warn(f"changed since the checkpoint: {describe(changed)}")
    if opened.config.log.to:
        progress.note(f"metrics also go to {', '.join(opened.config.log.to)} (log.to)")


class _Loop:
    """One process's work on one run."""

    def __init__(self, program: Program, run: runs.RunDir, progress: Progress, about: _About):
        self.program, self.config, self.run, self.progress = program, program.config, run, progress
        self.about = about
        self.metrics = MetricsWriter(run.metrics)
        for name in self.config.log.to:
            files.is_directory(run.path / name)  # where they write; a link must not lead them elsewhere
        self.loggers = open_loggers(self.config.log.to, run.path, self.config.to_dict(), progress.warn)
        self.update = 0  # updates done so far
        self.earlier = {"wall": 0.0, "train": 0.0}  # seconds spent by earlier processes of this run
        self.train_seconds = 0.0
        self.began = self.saved_at = time.perf_counter()
        self.last_eval: np.ndarray | None = None
        self.pending = Pending()
        self.monitor: Any = None  # of stability; most runs have none

    def restore(self, trained: Trained | None) -> None:
        """Takes up the counters of a checkpoint and forgets what was logged after it."""
        if trained is None:
            self.metrics.truncate_after(-1)
            return
        self.update, self.pending = trained.update, trained.pending
        self.earlier, self.last_eval = trained.seconds, trained.eval_returns
        self.metrics.truncate_after(self.update)
        gap = self.metrics.gap(self.update - self.pending.updates, trained.rows)
        if gap:
            self.progress.warn(f"{self.run.metrics} is not complete: {gap}")

    def compile(self) -> None:
        self.progress.note(f"run directory: {self.run.path}")
        self.progress.status("compiling …")
        self.program.compile()
        self.progress.note(f"compiled in {self.program.compile_seconds:.1f} s for {provenance.describe_device()}")

    def fit(self, state: RunState) -> Result:
        """Runs to the end, to divergence or to the first signal, whichever comes first."""
        config = self.config
        counts = (config.log.rows, config.eval.count, config.log.stability, config.save.checkpoints)
        log, evaluate, stability, save = (Every(config.updates, count) for count in counts)
        limit = 1
        with _Signals() as signals, self.metrics, contextlib.ExitStack() as stack:
            for logger in self.loggers:
                stack.callback(logger.close)
            if self.update == 0 and config.eval.count and self.last_eval is None:
                self.evaluate(state)
            while self.update < config.updates:
                stop = min(schedule.next(self.update) for schedule in (log, evaluate, stability, save))
                count = min(stop - self.update, limit)
                began = time.perf_counter()
                try:
                    state, totals = self.program.chunk(state, count, self.pending.totals)
                except EnvFailed as failure:
                    raise self.rescue(failure, failure.state, time.perf_counter() - began) from failure
                seconds = time.perf_counter() - began
                self.after_chunk(totals, count, seconds)
                limit = pace(limit, count, seconds)
                due = save.at(self.update) or self.minutes_passed() or signals.caught
                # Not where the clock or a signal asks for a checkpoint: rows must not depend on either.
                if log.at(self.update) or save.at(self.update):
                    self.write_row()
                if evaluate.at(self.update):
                    self.evaluate(state)
                if stability.at(self.update):
                    self.measure_stability(state)
                if due:
                    self.save(state)
                if signals.caught and self.update < config.updates:
                    self.progress.end()
                    raise Interrupted(
                        f"stopped by {signals.caught} at update {self.update} of {config.updates}; "
                        f"continue with: pqn resume {self.run.path}"
                    )
        return self.finish()

    def after_chunk(self, totals: dict[str, np.ndarray], count: int, seconds: float) -> None:
        self.update += count
        self.train_seconds += seconds
        self.pending.add(totals, count, seconds)
        fault = first_fault(totals)
        if fault is not None:
            self.progress.end()
            index, update, what = fault
            path = checkpoint.latest(self.run.checkpoints)
            kept = f"the last good checkpoint is {path}" if path else "no checkpoint had been written yet"
            raise health.error(what, self.config.seed + index, update, self.program.algorithm.spec, kept)
        self.progress.update(self.progress_fields())

    def rescue(self, failure: EnvFailed, state: RunState, seconds: float = 0.0) -> EnvFailed:
        """Saves what was learned before an environment failed, and returns the sentence that says so."""
        if failure.done:
            self.after_chunk(failure.totals, failure.done, seconds)
        self.save(state)
        self.progress.end()
        kept = checkpoint.latest(self.run.checkpoints)
        return EnvFailed(
            f"{failure}; update {self.update} is saved in {kept}, continue from it with: pqn resume {self.run.path}"
        )

    def write_row(self) -> None:
        """One training row: sums and counts of the episodes that ended since the last one."""
        if self.pending.updates:
            schedule = self.schedules()
            row = self.pending.row(self.update, self.steps, self.config) | schedule | {"wall": self.wall()}
            memory = provenance.peak_memory()
            self.record(row if memory is None else row | {"peak_memory_bytes": memory})
            self.pending = Pending(shown=self.pending.shown | self.pending.means(self.config))

    def evaluate(self, state: RunState) -> None:
        try:
            result = self.program.evaluate(state)
        except EnvFailed as failure:
            raise self.rescue(failure, state) from failure
        if result is None:  # nothing to report yet
            return
        self.last_eval = np.asarray(result.ret, np.float64)
        row: Row = {
            "kind": "eval",
            "update": self.update,
            "step": self.steps,
            "returns": result.ret,
            "length_mean": evaluation.means(result.length),
            "unfinished": result.unfinished,
            **{f"info/{name}": evaluation.means(value) for name, value in result.info.items()},
            "wall": self.wall(),
        }
        self.record(row)
        self.progress.update(self.progress_fields())

    def measure_stability(self, state: RunState) -> None:
        """One row of kind "stability": the largest eigenvalue of the TD Jacobian and its split, for the first seed."""
        from pqn.theory.monitor import Monitor

        self.monitor = self.monitor or Monitor(self.program)
        report = self.monitor.measure(state)
        self.record({"kind": "stability", "update": self.update, "step": self.steps, **report.row()})

    def record(self, row: Row) -> None:
        self.metrics.write(row)
        for logger in self.loggers:
            logger.write(row["step"], scalars(row))

    def save(self, state: RunState) -> None:
        self.metrics.sync()  # rows up to a checkpoint must not be lost where the checkpoint is not
        meta = {
            "update": self.update,
            "step": self.steps,
            "config": self.config.to_dict(),
            "spec": spec_to_dict(self.program.algorithm.spec),
            "seconds": {"wall": self.wall(), "train": self.earlier["train"] + self.train_seconds},
            "eval_returns": self.last_eval,
            "pending": self.pending.to_dict(),
            "rows": self.metrics.counts,
            **self.about.to_dict(),
        }
        saved = self.program.snapshot(state)
        checkpoint.save(self.run.checkpoints, saved, self.update, meta, keep=self.config.save.keep)
        self.saved_at = time.perf_counter()

    def complete(self) -> Result:
        """The result of a run that has ended before, whose summary may have been lost since."""
        try:
            return Result(self.run.path, runs.read_summary(self.run))
        except RunError as error:
            if files.kind_of(self.run.path / runs.SUMMARY):
                self.progress.warn(f"{error}; writing it again")
            return self.finish()

    def finish(self) -> Result:
        self.progress.end()
        config, train_seconds = self.config, self.earlier["train"] + self.train_seconds
        returns = self.last_eval
        summary = {
            "preset": config.preset,
            "env": config.env.name,
            "steps": self.steps,
            "requested_steps": config.total_steps,
            "seeds": config.seeds,
            "wall_seconds": round(self.wall(), 3),
            "compile_seconds": round(self.program.compile_seconds, 3),
            "train_seconds": round(train_seconds, 3),
            "steps_per_second": round(self.steps * config.seeds / max(train_seconds, 1e-9), 1),
            "eval_return": None
            if returns is None
            else {"mean": evaluation.mean(returns), "per_seed": evaluation.means(returns)},
            "eval_unfinished": self.unfinished(),
            "device": provenance.describe_device(),
            "peak_memory_bytes": provenance.peak_memory(),
        }
        self.run.write_json(runs.SUMMARY, summary)
        return Result(self.run.path, runs.read_summary(self.run))

    def unfinished(self) -> dict[str, Any] | None:
        """How many episodes of the last evaluation did not end, and are in none of its means."""
        if self.last_eval is None:
            return None
        per_seed = np.isnan(self.last_eval).sum(axis=1)
        limit = evaluation.step_limit(self.config, self.program.algorithm.spec)
        counts = {"episodes": self.last_eval.size, "total": int(per_seed.sum()), "per_seed": per_seed}
        return counts | {"max_steps": limit}

    @property
    def steps(self) -> int:
        """Environment steps done, per seed."""
        return self.update * self.config.steps_per_update

    def wall(self) -> float:
        return self.earlier["wall"] + time.perf_counter() - self.began

    def minutes_passed(self) -> bool:
        return time.perf_counter() - self.saved_at > 60.0 * self.config.save.minutes

    def schedules(self) -> dict[str, float]:
        """ε and learning rate now, as the compiled program has them."""
        return schedules(self.config, self.update)

    def progress_fields(self) -> Status:
        """What the progress line shows."""
        means = self.pending.shown | self.pending.means(self.config)
        rate = means.get("rate")
        left = (self.config.updates - self.update) * self.config.steps_per_update * self.config.seeds
        return {
            "step": self.steps,
            "total": self.config.updates * self.config.steps_per_update,
            "return": means.get("return"),
            "eval": None if self.last_eval is None else evaluation.mean(self.last_eval),
            "unfinished": self.unfinished(),
            "epsilon": self.schedules()["epsilon"],
            "loss": means.get("loss"),
            "rate": rate,
            "eta": left / rate if rate else None,
        }


class Every:
    """Evenly spaced points of a run: `count` of them, the last at its end; none when `count` is 0."""

    def __init__(self, updates: int, count: int):
        self.updates, self.count = updates, count

    def at(self, update: int) -> bool:
        return self.count > 0 and update > 0 and self._point(update * self.count // self.updates) == update

    def next(self, update: int) -> int:
        return self._point(update * self.count // self.updates + 1)

    def _point(self, number: int) -> int:
        """The update of a point, counted from 1; computed and not kept, since a run may ask for a billion."""
        return min(-(-self.updates * number // self.count), self.updates) if self.count else self.updates


def pace(limit: int, count: int, seconds: float) -> int:
    """Chunk length that keeps the host's look at the world about once a second, growing at most eightfold a time."""
    return max(1, min(8 * max(limit, count), int(SECONDS_PER_CHUNK * count / max(seconds, 1e-6))))


class _Signals:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a note for the loop; a second one acts at once, as usual."""

    def __init__(self) -> None:
        self.caught: str | None = None
        self._old: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        hangup = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
        if hangup and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # `nohup`: the user wants it ignored
            hangup = []
        for number in (signal.SIGINT, signal.SIGTERM, *hangup):
            try:
                self._old[number] = signal.signal(number, self._catch)
            except ValueError:  # not in the main thread: the program around us handles signals
                break
        return self

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = signal.Signals(number).name
        signal.signal(number, self._old[number])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
