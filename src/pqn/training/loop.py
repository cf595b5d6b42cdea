"""The host loop: compiled chunks, and between them everything that touches the disk, the screen or the user.

A run is a pure function of its configuration: the loop only decides where to look at it, never what it computes.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pqn.callbacks import Callback, Moment, ask, begin, waits_in_vain
from pqn.errors import EnvFailed, Interrupted, RunError
from pqn.hosts import processes
from pqn.hosts.watch import HINT
from pqn.programs import evaluation, health
from pqn.programs.base import Blocks, Program, RunState
from pqn.programs.spread import placement
from pqn.programs.totals import first_fault
from pqn.progress import Progress
from pqn.runs import checkpoint, files, provenance, shared
from pqn.runs import directory as runs
from pqn.runs.about import About
from pqn.runs.best import Best
from pqn.runs.loggers import open_loggers, scalars
from pqn.runs.metrics import MetricsWriter, Row, read_metrics
from pqn.runs.pending import Pending
from pqn.runs.trained import Trained
from pqn.training.clock import Clock
from pqn.training.pace import Every, Signals, pace
from pqn.training.result import Result
from pqn.training.saving import Saver
from pqn.training.standing import Standing
from pqn.types import PyTree


class Loop:
    """One process's work on one run."""

    def __init__(
        self,
        program: Program,
        run: runs.RunDir,
        progress: Progress,
        about: About,
        callbacks: Sequence[Callback] = (),
        clock: Clock | None = None,
    ):
        self.program, self.config, self.run, self.progress = program, program.config, run, progress
        self.about, self.callbacks = about, callbacks
        begin(callbacks)
        if warning := waits_in_vain(callbacks, self.config.eval.count):
            progress.warn(warning)
        self.clock = clock or Clock()
        self.metrics = MetricsWriter(run.metrics)
        for name in self.config.log.to:
            files.is_directory(run.path / name)  # where they write; a link must not lead them elsewhere
        names = self.config.log.to if processes.index() == 0 else ()
        self.loggers = open_loggers(names, run.path, self.config.to_dict(), progress.warn)
        self.update = 0  # updates done so far
        self.earlier = {"wall": 0.0, "train": 0.0}  # seconds spent by earlier processes of this run
        self.train_seconds = 0.0
        self.began = self.saved_at = time.perf_counter()
        self.saved_update: int | None = None  # of the checkpoint that this process wrote last
        self.last_eval: np.ndarray | None = None
        self.evaluated_at: int | None = None  # update of that evaluation
        self.saver = Saver()
        self.played: Callable[[], evaluation.Evaluation] | None = None  # an evaluation under way, of this update
        self.unsaved: checkpoint.Held | None = None  # the state that it is of
        self.saves = False  # whether that is to be saved with its result
        self.best = Best()  # the checkpoint to keep although it is old
        self.save_at_once = False  # whether to save before the first update
        self.reason: str | None = None  # why a callback ends the run
        self.failure: Exception | None = None  # of a callback
        self.pending = Pending()
        self.monitor: Any = None  # of stability; most runs have none

    def restore(self, trained: Trained | None) -> None:
        """Takes up the counters of a checkpoint and forgets what was logged after it."""
        if trained is None:
            self.metrics.truncate_after(-1)
            return
        self.best = Best.of(self.run.checkpoints)
        self.update, self.pending = trained.update, trained.pending
        self.saved_update = trained.update
        self.earlier, self.last_eval = trained.seconds, trained.eval_returns
        self.metrics.truncate_after(self.update)
        gap = self.metrics.gap(self.update - self.pending.updates, trained.rows)
        if gap:
            self.progress.warn(f"{self.run.metrics} is not complete: {gap}")
        evaluated_at = trained.contents.metadata.get("eval_update")
        self.evaluated_at = evaluated_at if isinstance(evaluated_at, int) else None
        if self.callbacks:
            self.replay(read_metrics(self.run.metrics))

    def replay(self, rows: Sequence[Row]) -> None:
        """Shows the rows of earlier processes to the callbacks: they shall decide as if nothing had interrupted."""
        for row in rows:
            update, step = row.get("update"), row.get("step")
            if not isinstance(update, int) or not isinstance(step, int):
                raise RunError(f"{self.run.metrics} is damaged: it has a row without update or step")
            moment = Moment(row, update, step, self.seconds(), self.run.path, replayed=True)
            self.reason = self.reason or ask(self.callbacks, moment)

    def compile(self) -> None:
        self.progress.note(f"run directory: {self.run.path}")
        self.progress.status("compiling …")
        self.clock.note_built()
        with self.clock.phase("compile"):
            self.program.compile()
        self.clock.move(self.program.trace_seconds, "compile", "trace")
        self.progress.note(f"compiled in {self.program.compile_seconds:.1f} s for {provenance.describe_device()}")
        if placed := placement(self.program, provenance.device_count()):
            self.progress.note(placed)

    def fit(self, state: RunState) -> Result:
        """Runs to the end, to divergence, to the first signal or until a callback ends it, whichever comes first."""
        config = self.config
        counts = (config.log.rows, config.eval.count, config.log.stability, config.save.checkpoints)
        log, evaluate, stability, save = (Every(config.updates, count) for count in counts)
        limit = 1
        with Signals() as signals, self.metrics, self.saver, contextlib.ExitStack() as stack:
            for logger in self.loggers:
                stack.callback(logger.close)
            first = self.update == 0 and config.eval.count and self.last_eval is None
            if first and (self.save_at_once or not self.start_evaluation(state, save=False)):
                self.evaluate(state)
            if self.save_at_once:
                self.save(state)
            while self.update < config.updates and not self.ends(state, signals.caught):
                stop = min(schedule.next(self.update) for schedule in (log, evaluate, stability, save))
                count = min(stop - self.update, limit)
                began = time.perf_counter()
                try:
                    with self.clock.phase("train"):
                        state, totals = self.program.chunk(state, count, self.pending.totals)
                except EnvFailed as failure:
                    self.settle()
                    raise self.rescue(failure, failure.state, time.perf_counter() - began) from failure
                seconds = time.perf_counter() - began
                self.settle()
                self.after_chunk(totals, count, seconds)
                self.saver.check()
                limit, late = shared.agree(pace(limit, count, seconds), self.minutes_passed())
                # Not where the clock, a signal or a callback asks for a checkpoint: rows must not depend on these.
                if log.at(self.update) or save.at(self.update):
                    self.write_row()
                alone = stability.at(self.update) or not save.at(self.update)
                if evaluate.at(self.update) and (alone or not self.start_evaluation(state)):
                    self.evaluate(state)
                if stability.at(self.update):
                    self.measure_stability(state)
                if (save.at(self.update) or late) and self.played is None:
                    self.save(state)
                self.show(None)
        result = self.finish()
        if self.failure:  # at the very end, where nothing is left to save
            raise self.failure
        return result

    def ends(self, state: RunState, signal: str | None) -> bool:
        """Whether a callback ends the run; everything is saved then.

        Raises:
          Interrupted: the user did, by a signal.
          Exception: of a callback.
        """
        signal, self.reason = shared.agree_to_stop(signal, self.reason)
        if not (signal or self.reason or self.failure):
            return False
        self.settle()
        if self.saved_update != self.update:
            self.save(state)
        self.saver.wait()
        self.progress.end()
        if self.failure:
            raise self.failure
        if signal:
            raise Interrupted(
                f"stopped by {signal} at update {self.update} of {self.config.updates}; "
                f"continue with: pqn resume {self.run.path}"
            )
        return True

    def show(self, row: Row | None) -> None:
        """Shows a row that was written, or just the clock, to the callbacks."""
        moment = Moment(row, self.update, self.steps, self.seconds(), self.run.path)
        try:
            self.reason = self.reason or ask(self.callbacks, moment)
        except Exception as error:  # of the user's code: what was learned is saved before it goes on its way
            self.failure = self.failure or error

    def after_chunk(self, totals: dict[str, np.ndarray], count: int, seconds: float) -> None:
        self.update += count
        self.train_seconds += seconds
        self.pending.add(totals, count, seconds)
        fault = first_fault(totals)
        if fault is not None:
            self.progress.end()
            self.saver.wait()
            index, update, what = fault
            path = checkpoint.latest(self.run.checkpoints)
            kept = f"the last good checkpoint is {path}" if path else "no checkpoint had been written yet"
            raise health.error(what, self.config.seed + index, update, self.program.algorithm.spec, kept)
        self.progress.update(self.standing().status())

    def rescue(self, failure: EnvFailed, state: RunState | checkpoint.Held, seconds: float = 0.0) -> EnvFailed:
        """Saves what was learned before an environment failed, and returns the sentence that says so.

        One process of several cannot save alone, and the others wait for it in the next gradient step.
        """
        if processes.count() > 1:
            return EnvFailed(f"{failure}; {HINT}")
        if failure.done:
            self.after_chunk(failure.totals, failure.done, seconds)
        if self.saved_update != self.update:
            self.save(state)
        self.saver.wait()
        self.progress.end()
        kept = checkpoint.latest(self.run.checkpoints)
        return EnvFailed(
            f"{failure}; update {self.update} is saved in {kept}, continue from it with: pqn resume {self.run.path}"
        )

    def write_row(self) -> None:
        """One training row: sums and counts of the episodes that ended since the last one."""
        if self.pending.updates:
            schedule = self.program.algorithm.schedules(self.update)
            row = self.pending.row(self.update, self.steps, self.config) | schedule | {"wall": self.wall()}
            memory = provenance.peak_memory()
            self.record(row if memory is None else row | {"peak_memory_bytes": memory})
            self.pending = Pending(shown=self.pending.shown | self.pending.means(self.config))

    def start_evaluation(self, state: RunState, save: bool = True) -> bool:
        """Begins an evaluation that goes on during the next chunk, if nothing can ask for this state meanwhile.

        A callback may end the run at the row of the evaluation, and the state of this update is no more by then. The
        checkpoint of this update, if it is time to `save`, is written with the result: `settle`.
        """
        if self.callbacks or self.update >= self.config.updates or processes.count() > 1:
            return False
        with self.clock.phase("evaluate"):
            self.played = self.program.start_evaluation(state)
        if self.played is not None:
            with self.clock.phase("write"):
                self.unsaved, self.saves = checkpoint.held(self.program.snapshot(state)), save
        return self.played is not None

    def settle(self) -> None:
        """Waits for the evaluation under way, if there is one; writes its row and then the checkpoint."""
        if self.played is None or self.unsaved is None:
            return
        played, unsaved, self.played, self.unsaved = self.played, self.unsaved, None, None
        try:
            with self.clock.phase("evaluate"):
                result = played()
        except EnvFailed as failure:
            raise self.rescue(failure, unsaved) from failure
        self.report(result)
        if self.saves:
            self.save(unsaved)

    def evaluate(self, state: RunState) -> None:
        try:
            with self.clock.phase("evaluate"):
                result = self.program.evaluate(state)
        except EnvFailed as failure:
            raise self.rescue(failure, state) from failure
        if result is not None:  # otherwise there is nothing to report yet
            self.report(result)

    def report(self, result: evaluation.Evaluation) -> None:
        """One row of kind "eval"."""
        self.clock.note_evaluation()
        self.last_eval, self.evaluated_at = np.asarray(result.ret, np.float64), self.update
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
        self.progress.update(self.standing().status())

    def measure_stability(self, state: RunState) -> None:
        """One row of kind "stability": the largest eigenvalue of the TD Jacobian and its split, for the first seed."""
        from pqn.theory.monitor import Monitor

        self.monitor = self.monitor or Monitor(self.program)
        report = self.monitor.measure(state)
        self.record({"kind": "stability", "update": self.update, "step": self.steps, **report.row()})

    def record(self, row: Row) -> None:
        with self.clock.phase("write"):
            self.metrics.write(row)
            for logger in self.loggers:
                logger.write(row["step"], scalars(row))
        self.show(row)

    def save(self, state: RunState | checkpoint.Held) -> None:
        """Copies the state and writes a checkpoint in the background; several processes write it here, together."""
        with self.clock.phase("write"):
            keep, update = self.config.save, self.update
            said = self.standing().metadata() | {"rows": self.metrics.counts} | self.about.to_dict()
            about = copy.deepcopy(said)
            saved: PyTree = state
            if not isinstance(state, checkpoint.Held):
                saved = self.program.snapshot(state)
                saved = saved if isinstance(saved, Blocks) else checkpoint.held(saved)
            if self.evaluated_at == self.update and self.last_eval is not None:
                self.best.consider(self.update, evaluation.mean(self.last_eval))
            also = [self.best.update] if keep.best and self.best.update is not None else []

            def write() -> None:
                self.metrics.sync()  # rows up to a checkpoint must not be lost where the checkpoint is not
                checkpoint.save(self.run.checkpoints, saved, update, about, keep=keep.keep, also=also)

            self.saver.write(write) if isinstance(saved, checkpoint.Held) else write()
        self.saved_at, self.saved_update = time.perf_counter(), self.update

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
        summary = self.standing().summary(self.clock.report(), self.reason)
        self.run.write_json(runs.SUMMARY, summary)
        return Result(self.run.path, runs.read_summary(self.run))

    def standing(self) -> Standing:
        """Where the run stands now."""
        return Standing(
            program=self.program,
            update=self.update,
            steps=self.steps,
            pending=self.pending,
            wall_seconds=self.wall(),
            train_seconds=self.earlier["train"] + self.train_seconds,
            returns=self.last_eval,
            evaluated_at=self.evaluated_at,
        )

    @property
    def steps(self) -> int:
        """Environment steps done, per seed."""
        return self.update * self.config.steps_per_update

    def seconds(self) -> float:
        """Since this process began to work on the run."""
        return time.perf_counter() - self.began

    def wall(self) -> float:
        return self.earlier["wall"] + self.seconds()

    def minutes_passed(self) -> bool:
        return time.perf_counter() - self.saved_at > 60.0 * self.config.save.minutes
