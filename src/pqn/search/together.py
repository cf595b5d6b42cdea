"""Trains trials, several as one program where they can share one, and stops those that are not worth going on.

The points of the learning curve are those at which a run evaluates, and the last one is the value of the trial: the
mean greedy return at the end, as in the summary of the run that `pqn train` would make of the same configuration.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from pqn.config import Config
from pqn.device import enable_compilation_cache
from pqn.envs.source import given
from pqn.errors import Interrupted
from pqn.programs import evaluation, health
from pqn.programs.base import Program, RunState, Totals
from pqn.programs.compiled import CompiledProgram
from pqn.programs.health import Fault
from pqn.programs.make import make_program
from pqn.programs.reported import NO_FAULT
from pqn.programs.trials import TrialsProgram, shape_of
from pqn.training.pace import Every, pace

Report = Callable[[int, int, float | None], bool]  # which trial, environment steps, its return so far -> go on?
Stop = Callable[[], str | None]  # what asks to stop, such as a signal


class Ending(NamedTuple):
    """How a trial ended: with a value, or without one for a reason."""

    value: float | None
    reason: str = ""


def groups(configs: Sequence[Config]) -> list[list[int]]:
    """Which trials can be one program, by their places."""
    found: dict[str, list[int]] = {}
    for place, config in enumerate(configs):
        found.setdefault(shape_of(config), []).append(place)
    return list(found.values())


def train_together(configs: Sequence[Config], report: Report, stop: Stop) -> list[Ending]:
    """Trains configurations of one group, in the order of `configs`.

    Args:
      configs: validated; `shape_of` is the same for all.
      report: told each point of each trial's curve; a trial for which it returns False is stopped.
      stop: asked once in a while; what it names, such as a signal, ends everything.

    Raises:
      Interrupted: `stop` named something.
      PqnError: the environment cannot be made, or fails.
    """
    enable_compilation_cache()
    source = given(configs[0].env.name, configs[0].env.kwargs)
    program = make_program(configs[0], source)
    if len(configs) > 1 and isinstance(program, CompiledProgram):
        trials = TrialsProgram(configs, program.make_env)
        return _Batch(trials, configs, report, stop).run()
    endings = []
    for place, config in enumerate(configs):  # simulators learn from one configuration at a time
        program = program if place == 0 else make_program(config, source)
        with contextlib.closing(program):
            alone = _Batch(program, [config], lambda _, step, value, place=place: report(place, step, value), stop)
            endings += alone.run()
    return endings


class _Batch:
    """The loop over one program and the trials in it."""

    def __init__(self, program: Program, configs: Sequence[Config], report: Report, stop: Stop):
        self.program, self.config, self.report, self.stop = program, configs[0], report, stop
        self.endings: dict[int, Ending] = {}
        self.lanes = list(range(len(configs)))  # the trials in the program, also those that have ended
        self.total = len(configs)

    @property
    def live(self) -> list[int]:
        return [trial for trial in self.lanes if trial not in self.endings]

    def run(self) -> list[Ending]:
        self.program.compile()
        state, update, limit = self.program.init(), 0, 1
        points = Every(self.config.updates, self.config.eval.count)
        self.program.evaluate(state)  # as a run does: simulators play their greedy episodes from here on
        while update < self.config.updates and self.live:
            if named := self.stop():
                raise Interrupted(f"stopped by {named}; call the same command again to go on")
            count = min(points.next(update) - update, limit)
            began = time.perf_counter()
            state, totals = self.program.chunk(state, count)
            limit = pace(limit, count, time.perf_counter() - began)
            update += count
            self.note_faults(totals)
            if points.at(update):
                self.note_returns(state, update)
                state = self.narrow(state) if update < self.config.updates else state
        return [self.endings[trial] for trial in range(self.total)]

    def rows(self, lane: int) -> slice:
        """The places of a lane on the axis of seeds."""
        return slice(lane * self.config.seeds, (lane + 1) * self.config.seeds)

    def note_faults(self, totals: Totals) -> None:
        for lane, trial in enumerate(self.lanes):
            bad = totals["bad"][self.rows(lane)]
            if trial in self.endings or bad.min() == NO_FAULT:
                continue
            seed = int(np.argmin(bad))
            fault = Fault(int(totals["fault"][self.rows(lane)][seed]))
            if fault != Fault.DIVERGED:
                raise health.error(
                    fault, self.config.seed + seed, int(bad[seed]), self.program.algorithm.spec, "the search stops"
                )
            self.endings[trial] = Ending(None, f"diverged at update {int(bad[seed])}")

    def note_returns(self, state: RunState, update: int) -> None:
        result = self.program.evaluate(state)
        if result is None:
            return
        returns = np.asarray(result.ret, np.float64)
        for lane, trial in enumerate(self.lanes):
            if trial in self.endings:
                continue
            value = evaluation.mean(returns[self.rows(lane)])
            going_on = self.report(trial, update * self.config.steps_per_update, value)
            if update == self.config.updates:
                self.endings[trial] = Ending(value, "no episode of the last evaluation ended" if value is None else "")
            elif not going_on:
                self.endings[trial] = Ending(None, f"below the median at update {update}")

    def narrow(self, state: RunState) -> RunState:
        """Leaves out trials that have ended, once these are half of the program or more.

        Another width is another compilation, so it is not done for each of them.
        """
        live = self.live
        if not live or 2 * len(live) > len(self.lanes) or not isinstance(self.program, TrialsProgram):
            return state
        kept = [lane for lane, trial in enumerate(self.lanes) if trial in live]
        self.program, state = self.program.narrowed(kept, jax.block_until_ready(state))
        self.lanes = live
        self.program.compile()
        return state
