"""The program of a run whose environments are in JAX and whose buffer is in the host's memory.

A buffer on the host splits an update into two compiled functions, with a Python loop around them. What they compute is
what `CompiledProgram` computes in one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from pqn.algorithms.base import Hyper, LearnerState, Metrics
from pqn.algorithms.packing import named
from pqn.device import compiler_options, hasty_options, over_seeds_but_last, planned, require_memory
from pqn.loops import repeated
from pqn.programs import evaluation, rollout
from pqn.programs.base import RunState, Totals, restored_learner, saved_learner
from pqn.programs.compiled import CompiledProgram
from pqn.programs.compiling import Job, compile_all
from pqn.programs.host_buffer import HostBuffer
from pqn.programs.keys import update_keys
from pqn.programs.memory import MemoryPlan
from pqn.programs.rollout import Finished
from pqn.programs.totals import add_up, report
from pqn.types import Array, PyTree, Rollout


class Gathered(NamedTuple):
    """What a rollout leaves for learning."""

    rollout: Rollout
    finished: Finished
    key: Array


class HostedProgram:
    """Collects on the device, remembers on the host, learns on the device.

    Args:
      whole: the same run with everything on the device, which is not compiled.
    """

    def __init__(self, whole: CompiledProgram):
        self.whole, self.config, self.algorithm = whole, whole.config, whole.algorithm
        self.host = HostBuffer(self.algorithm, self.config.seeds)
        learner = whole.state_shape.learner._replace(buffer=())
        self.state_shape = whole.state_shape._replace(learner=learner)
        self.planned_updates = self.config.updates
        self.compile_seconds = self.trace_seconds = 0.0
        self.memory: MemoryPlan | None = None

    # --- one seed -----------------------------------------------------------------------------------------------

    def init_one(self, seed: Array) -> RunState:
        state = self.whole.init_one(seed)
        return state._replace(learner=state.learner._replace(buffer=()))

    def collect_one(self, state: RunState, hyper: Hyper) -> tuple[RunState, Gathered]:
        key, collect_key, learn_key = update_keys(state.key)
        given = (self.whole.env, self.algorithm, state.learner, state.stream, collect_key, hyper)
        stream, data, finished = rollout.collect(*given)
        return RunState(state.learner, stream, key), Gathered(data, finished, learn_key)

    def learn_one(
        self, learner: LearnerState, data: PyTree, key: Array, finished: Finished, hyper: Hyper
    ) -> tuple[LearnerState, Metrics]:
        progress, work = self.algorithm.prepare(learner, data, key, hyper)
        with repeated(self.planned_updates, self.whole.doubled):
            progress, metrics = self.algorithm.descend(progress, work, hyper)
        learner, metrics = self.algorithm.finish(learner, progress, work, metrics)
        return learner, report(learner, metrics, finished)

    # --- S seeds, compiled --------------------------------------------------------------------------------------

    def compile(self) -> None:
        self.whole.planned_updates = self.planned_updates
        began, whole, seeds = time.perf_counter(), self.whole, self.config.seeds
        collect = jax.jit(over_seeds_but_last(self.collect_one, seeds))
        learn = jax.jit(over_seeds_but_last(self.learn_one, seeds))
        _, gathered = jax.eval_shape(collect, self.state_shape, whole.hyper)
        data = self.host.data_shape(gathered.rollout, gathered.key)
        given = (self.state_shape.learner, data, gathered.key, gathered.finished, whole.hyper)
        lowered = {
            "init": lambda: jax.jit(whole.over_seeds(self.init_one)).lower(whole.seeds),
            "collect": lambda: collect.lower(self.state_shape, whole.hyper),
            "learn": lambda: learn.lower(*given),
            "evaluate": lambda: jax.jit(self._evaluate).lower(self.state_shape.learner, whole.seeds),
        }
        hasty, options = hasty_options(whole.env), compiler_options(whole.env, whole.doubled)
        jobs = {name: Job(lower, hasty if name in ("init", "evaluate") else options) for name, lower in lowered.items()}
        self._compiled, self.trace_seconds = compile_all(jobs)
        most = planned(self._compiled.values())
        require_memory(most)
        learner = self.state_shape.learner._replace(buffer=self.host.shape())
        self.memory = MemoryPlan.of(learner, self.state_shape.stream, gathered.rollout, most)
        self.compile_seconds = time.perf_counter() - began

    def _evaluate(self, learner: LearnerState, seeds: Array) -> evaluation.Evaluation:
        return self.whole.over_seeds(self.whole.evaluate_one)(learner, seeds)

    # --- the interface of `Program` -----------------------------------------------------------------------------

    def init(self) -> RunState:
        state = self._compiled["init"](self.whole.seeds)
        return state._replace(learner=state.learner._replace(buffer=self.host.empty()))

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        rows: list[Metrics] = []
        learner, buffer = state.learner._replace(buffer=()), state.learner.buffer
        state = state._replace(learner=learner)
        for _ in range(count):
            state, (data, finished, keys) = self._compiled["collect"](state, self.whole.hyper)
            buffer, drawn = self.host.remember(buffer, data, keys)
            learner, row = self._compiled["learn"](state.learner, drawn, keys, finished, self.whole.hyper)
            state = state._replace(learner=learner)
            rows.append(row)
        return state._replace(learner=state.learner._replace(buffer=buffer)), add_up(rows, before)

    def evaluate(self, state: RunState) -> evaluation.Evaluation:
        result = self._compiled["evaluate"](state.learner._replace(buffer=()), self.whole.seeds)
        played: evaluation.Evaluation = jax.tree.map(np.asarray, result)
        return played.check(self.whole.eval_env.spec.name, self.config.seed)

    def start_evaluation(self, state: RunState) -> None:
        """Between chunks only: a buffer is too large to be copied."""

    def saved_shape(self) -> RunState:
        shape = jax.eval_shape(named, self.state_shape)
        return shape._replace(learner=shape.learner._replace(buffer=self.host.shape()))

    def snapshot(self, state: RunState) -> RunState:
        return state._replace(learner=saved_learner(state.learner))

    def restore(self, saved: RunState, note: Callable[[str], None]) -> RunState:
        light, buffer = saved.learner._replace(buffer=()), saved.learner.buffer
        learner = restored_learner(light, self.state_shape.learner)
        return saved._replace(learner=learner._replace(buffer=buffer))

    def close(self) -> None:
        """Environments in JAX hold nothing."""
