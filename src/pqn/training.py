"""The host loop: compiled chunks, and between them everything that touches the disk, the screen or the user.

`train` starts a run, `resume` continues one; both end in `_Loop.fit`. A run is a pure function of its configuration:
the loop only decides where to look at it, never what it computes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from pqn import checkpoint, health, runs
from pqn import evaluate as evaluation
from pqn.config import Config
from pqn.device import enable_compilation_cache
from pqn.envs import registry
from pqn.errors import EnvError, EnvFailed, Interrupted, explained
from pqn.learner import schedules
from pqn.loggers import check_loggers, open_loggers, scalars
from pqn.metrics import MetricsWriter, Row
from pqn.program import EnvFactory, RunState, make_program
from pqn.progress import Progress
from pqn.totals import HEALTH, combine, first_fault

SECONDS_PER_CHUNK = 1.0  # how long the program may run before the host looks at signals and the clock


@dataclasses.dataclass(frozen=True)
class Result:
    """What a finished run hands back."""

    run: Path
    summary: dict[str, Any]

    def agent(self, seed: int | None = None) -> Any:
        """The trained agent; see `pqn.load`."""
        from pqn.agent import load

        return load(self.run, seed)


@explained()
def train(
    config: Config, *, env: Any = None, out: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Result:
    """Trains `config` in a new run directory.

    Args:
      config: what to train; see `pqn.preset`.
      env: your own environment instead of `config.env.name`: a `SingleEnv`, or a function of `num_envs` that makes a
        `JaxEnv` or a `HostEnv`.
      out: the run directory; by default `runs/<preset>-<time>`.
      progress: where to report; by default to standard error.

    Raises:
      PqnError: with a sentence for the user. `Interrupted` after Ctrl-C, `Diverged` on NaN or infinity.
    """
    config.validate()
    check_loggers(config.save.loggers)
    enable_compilation_cache()
    program = make_program(
        config, _env_factory(config, env)
    )  # before the directory exists: a bad option leaves no litter
    with runs.RunDir.create(out, preset=config.preset) as run, contextlib.closing(program):
        run.write_json(runs.CONFIG, config.to_dict())
        run.write_json(runs.ENVIRONMENT, runs.describe_environment() | {"device": runs.describe_device()})
        loop = _Loop(program, run, progress or Progress())
        loop.compile()
        return loop.fit(program.init())


@explained()
def resume(run: str | os.PathLike[str], *, env: Any = None, progress: Progress | None = None) -> Result:
    """Continues a run from its newest intact checkpoint, to exactly the state an uninterrupted run would reach."""
    progress = progress or Progress()
    with runs.RunDir.open(run) as directory, contextlib.ExitStack() as stack:
        config = Config.from_dict(directory.read_json(runs.CONFIG)).validate()
        directory.lock()
        enable_compilation_cache()
        program = make_program(config, _env_factory(config, env))
        stack.enter_context(contextlib.closing(program))
        loop = _Loop(program, directory, progress)
        try:
            state, meta = checkpoint.restore_latest(directory.checkpoints, program.state_shape, warn=progress.note)
        except checkpoint.NoCheckpoint as reason:
            progress.note(f"{reason}; starting from the beginning")
            state, meta = None, {}
        loop.restore(meta)
        if loop.update >= config.updates:
            progress.note(f"{run} is already complete ({config.updates} updates)")
            known = (directory.path / runs.SUMMARY).exists()  # not when it was killed between checkpoint and summary
            return Result(directory.path, directory.read_json(runs.SUMMARY)) if known else loop.finish()
        loop.compile()
        return loop.fit(program.init() if state is None else program.restore(state, progress.note))


class _Loop:
    """One process's work on one run."""

    def __init__(self, program: Any, run: runs.RunDir, progress: Progress):
        self.program, self.config, self.run, self.progress = program, program.config, run, progress
        self.metrics = MetricsWriter(run.metrics)
        self.loggers = open_loggers(self.config.save.loggers, run.path, self.config.to_dict(), progress.warn)
        self.update = 0  # updates done so far
        self.earlier = {"wall": 0.0, "train": 0.0}  # seconds spent by earlier processes of this run
        self.train_seconds = 0.0
        self.began = self.saved_at = time.perf_counter()
        self.last_eval: np.ndarray | None = None
        self.pending = _Pending()
        self.monitor: Any = None  # of stability; most runs have none

    def restore(self, meta: dict[str, Any]) -> None:
        """Takes up the counters of a checkpoint and forgets what was logged after it."""
        self.update = int(meta.get("update", 0))
        self.earlier = meta.get("seconds", self.earlier)
        self.metrics.truncate_after(self.update if meta else -1)
        if meta.get("eval_returns") is not None:
            self.last_eval = np.asarray(meta["eval_returns"], np.float64)

    def compile(self) -> None:
        self.progress.note(f"run directory: {self.run.path}")
        self.progress.status("compiling …")
        self.program.compile()
        self.progress.note(f"compiled in {self.program.compile_seconds:.1f} s for {runs.describe_device()}")

    def fit(self, state: RunState) -> Result:
        """Runs to the end, to divergence or to the first signal, whichever comes first."""
        config = self.config
        counts = (config.save.logs, config.eval.count, config.save.stability, config.save.checkpoints)
        log, evaluate, stability, save = (_Every(config.updates, count) for count in counts)
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
                    state, totals = self.program.chunk(state, count)
                except EnvFailed as failure:
                    raise self.rescue(failure, failure.state, time.perf_counter() - began) from failure
                seconds = time.perf_counter() - began
                self.after_chunk(totals, count, seconds)
                limit = _pace(limit, count, seconds)
                due = save.at(self.update) or self.minutes_passed() or signals.caught
                if due or log.at(self.update):
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
            raise health.error(what, self.config.seed + index, update, self.program.learner.spec, kept)
        self.progress.update(self.progress_fields())

    def rescue(self, failure: EnvFailed, state: RunState, seconds: float = 0.0) -> EnvFailed:
        """Saves what was learned before an environment failed, and returns the sentence that says so."""
        if failure.done:
            self.after_chunk(failure.totals, failure.done, seconds)
            self.write_row()
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
            memory = runs.peak_memory()
            self.record(row if memory is None else row | {"peak_memory_bytes": memory})
            self.pending = _Pending(shown=self.pending.shown | self.pending.means(self.config))

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
            "spec": spec_to_dict(self.program.learner.spec),
            "seconds": {"wall": self.wall(), "train": self.earlier["train"] + self.train_seconds},
            "eval_returns": self.last_eval,
        }
        saved = self.program.snapshot(state)
        checkpoint.save(self.run.checkpoints, saved, self.update, meta, keep=self.config.save.keep)
        self.saved_at = time.perf_counter()

    def finish(self) -> Result:
        self.progress.end()
        config, train_seconds = self.config, self.earlier["train"] + self.train_seconds
        returns = self.last_eval
        summary = {
            "preset": config.preset,
            "env": config.env.name,
            "steps": self.steps,
            "seeds": config.seeds,
            "wall_seconds": round(self.wall(), 3),
            "compile_seconds": round(self.program.compile_seconds, 3),
            "train_seconds": round(train_seconds, 3),
            "steps_per_second": round(self.steps * config.seeds / train_seconds, 1),
            "eval_return": None
            if returns is None
            else {"mean": evaluation.mean(returns), "per_seed": evaluation.means(returns)},
            "eval_unfinished": self.unfinished(),
            "device": runs.describe_device(),
            "peak_memory_bytes": runs.peak_memory(),
        }
        self.run.write_json(runs.SUMMARY, summary)
        return Result(self.run.path, self.run.read_json(runs.SUMMARY))

    def unfinished(self) -> dict[str, Any] | None:
        """How many episodes of the last evaluation did not end, and are in none of its means."""
        if self.last_eval is None:
            return None
        per_seed = np.isnan(self.last_eval).sum(axis=1)
        limit = evaluation.step_limit(self.config, self.program.learner.spec)
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

    def progress_fields(self) -> dict[str, Any]:
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


class _Pending:
    """Totals since the last row."""

    def __init__(self, shown: dict[str, float] | None = None):
        self.totals: dict[str, np.ndarray] = {}
        self.updates, self.seconds = 0, 0.0
        self.shown = shown or {}  # what the progress line shows while no new number is there

    def add(self, totals: dict[str, np.ndarray], count: int, seconds: float) -> None:
        wide = {name: value if name in HEALTH else value.astype(np.float64) for name, value in totals.items()}
        self.totals = combine(self.totals, wide) if self.totals else wide
        self.updates += count
        self.seconds += seconds

    def means(self, config: Config) -> dict[str, float]:
        if not self.updates:
            return {}
        means = {"loss": float(self.totals["loss"].mean() / self.updates), "rate": self.rate(config)}
        episodes = self.totals["episodes"].sum()
        return means | ({"return": float(self.totals["return_sum"].sum() / episodes)} if episodes else {})

    def rate(self, config: Config) -> float:
        """Environment steps per second, of all seeds together."""
        return self.updates * config.steps_per_update * config.seeds / max(self.seconds, 1e-9)

    def row(self, update: int, step: int, config: Config) -> Row:
        averaged = ("loss", "q", "target", "grad_norm")
        row: Row = {"kind": "train", "update": update, "step": step}
        for name, value in self.totals.items():
            if name not in HEALTH:
                row[name] = value / self.updates if name in averaged else value
        return row | {"steps_per_second": self.rate(config)}


class _Every:
    """Evenly spaced points of a run: `count` of them, the last at its end; none when `count` is 0."""

    def __init__(self, updates: int, count: int):
        self.updates = updates
        self.points = {math.ceil(updates * i / count) for i in range(1, count + 1)} if count else set()
        self.sorted = sorted(self.points)

    def at(self, update: int) -> bool:
        return update in self.points

    def next(self, update: int) -> int:
        return next((point for point in self.sorted if point > update), self.updates)


def _pace(limit: int, count: int, seconds: float) -> int:
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


def _env_factory(config: Config, env: Any) -> EnvFactory:
    """From what the user gave (a name, a `SingleEnv`, a function) to a function of the number of environments."""
    kwargs = config.env.kwargs
    if env is None:
        return lambda num_envs: registry.make(config.env.name, num_envs, **kwargs)
    if hasattr(env, "send") and not isinstance(env, type):
        raise EnvError(
            f"env is one {type(env).__name__}; give a function that makes one of any size, such as "
            f"`lambda num_envs: {type(env).__name__}(num_envs)`, since the pool is split into groups."
        )
    if hasattr(env, "step") and not isinstance(env, type):
        return lambda num_envs: registry.as_env(env, num_envs)
    build: Callable[..., Any] = env
    return lambda num_envs: registry.as_env(build(num_envs, **kwargs), num_envs)


def spec_to_dict(spec: Any) -> dict[str, Any]:
    return dataclasses.asdict(spec) | {"obs_dtype": str(np.dtype(spec.obs_dtype))}
