"""The program of a run whose environments are outside of JAX; it fulfils `Program`.

The algorithm is the same compiled code as that of `CompiledProgram`. A Python loop around it lets the simulators and
the accelerator work at the same time (`collect`). The simulators hold a part of a run's state. Where they can save it,
a checkpoint holds it too, and a resumed run equals an uninterrupted one to the bit. Otherwise a resumed run starts new
episodes, with the parameters, the optimiser and the random keys of the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms import make_algorithm
from pqn.algorithms.base import Hyper, LearnerState, Metrics, Progress, Work
from pqn.algorithms.packing import named
from pqn.config import Config
from pqn.device import compiler_options, over_seeds, over_seeds_but_last, planned, require_memory, worth_doubling
from pqn.errors import ConfigError, EnvFailed
from pqn.loops import repeated
from pqn.programs.base import HostFactory, RunState, Totals, restored_learner, saved_learner
from pqn.programs.compiling import Job, compile_all
from pqn.programs.evaluation import Evaluation, step_limit
from pqn.programs.host_buffer import HostBuffer
from pqn.programs.keys import evaluation_key, seed_keys, update_keys
from pqn.programs.memory import MemoryPlan
from pqn.programs.rollout import Finished
from pqn.programs.simulators.collect import shapes_of
from pqn.programs.simulators.cores import reserved_cores
from pqn.programs.simulators.groups import Layout
from pqn.programs.simulators.joining import AfterRollout, join_groups
from pqn.programs.simulators.overlap import GradientSteps, UnlearnedRollout, piece_size
from pqn.programs.simulators.player import Player
from pqn.programs.simulators.records import Collected, SimulatorStream
from pqn.programs.simulators.seeds import episode_seeds
from pqn.programs.simulators.started import Started, start_simulators
from pqn.programs.totals import add_up, report
from pqn.types import Array, EnvSpec, PyTree, Rollout


class SimulatorCheckpoint(NamedTuple):
    """What a checkpoint of a run with simulators holds."""

    learner: LearnerState
    key: Array
    whole: np.ndarray  # bool: the rest is there, so that the run can continue where it stood
    stream: SimulatorStream | tuple[()]  # () for simulators that cannot be saved
    greedy: PyTree  # the open episodes of the greedy environments
    envs: PyTree  # of each simulator, arrays by name


class SimulatorProgram:
    """S seeds of an algorithm on simulators.

    Args:
      config: a validated configuration.
      make_env: makes a `HostEnv` of a given size.
      spec: of those environments.
      groups: into how many groups they are split; the data do not depend on it.
    """

    def __init__(self, config: Config, make_env: HostFactory, spec: EnvSpec, groups: int = 2):
        if config.log.stability:
            raise ConfigError(
                f"log.stability is {config.log.stability}; it must be 0 for {spec.name}, "
                "since stability is measured on environments written in JAX"
            )
        self.config, self.make_env = config, make_env
        self.algorithm = make_algorithm(config, spec)
        self.hyper = Hyper.of(config)
        self.seeds = jnp.arange(config.seed, config.seed + config.seeds)
        self.layout = Layout.of(config, spec, groups)
        self.planned_updates = config.updates
        self.compile_seconds = self.trace_seconds = 0.0
        self.memory: MemoryPlan | None = None
        # With overlap a simulator may fail after the buffer has changed, and the state before that is to be saved.
        self._in_place = not config.simulators.overlap
        on_host = self.algorithm.buffer_on_host
        self._host = HostBuffer(self.algorithm, config.seeds, self._in_place) if on_host else None
        self._player = Player(self.algorithm.actor, config.seeds, config.eval.epsilon)
        self._started: Started | None = None
        self._unlearned: UnlearnedRollout | None = None  # with overlap, between two updates
        self._gradient_steps = config.learner.epochs * config.learner.minibatches
        # With overlap, the pieces are small enough that no action waits long behind one.
        most = groups * config.learner.rollout_steps if config.simulators.overlap else 1
        self._piece = piece_size(self._gradient_steps, most)

    # --- one seed ---------------------------------------------------------------------------------------------------

    def init_one(self, seed: Array) -> tuple[LearnerState, Array]:
        """A fresh learner without its buffer, which is kept to itself, and the key of the run."""
        keys = seed_keys(seed)
        return self.algorithm.init(keys.network)._replace(buffer=()), keys.run

    def _empty_buffer(self) -> PyTree:
        """The buffers of all seeds."""
        if self._host is not None:
            return self._host.empty()
        return jax.vmap(lambda _: self.algorithm.empty_buffer())(self.seeds)

    def join_one(self, collected: Collected, hyper: Hyper) -> tuple[Rollout, AfterRollout]:
        return join_groups(self.algorithm.actor, self.layout, collected, hyper)

    def prepare_one(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> tuple[Progress, Work]:
        return self.algorithm.prepare(state, data, key, hyper)

    def join_and_prepare_one(
        self, state: LearnerState, buffer: PyTree, key: Array, collected: Collected, hyper: Hyper
    ) -> tuple[Progress, Work, AfterRollout, PyTree]:
        """Where the gradient steps start, what they are, what follows from the rollout, and the buffer after it.

        The buffer, which may be most of the memory, comes alone: it is changed in place, while others still read the
        rest of the state.
        """
        rollout, after = self.join_one(collected, hyper)
        buffer, data = self.algorithm.remember(buffer, rollout, key)
        return *self.prepare_one(state, data, key, hyper), after, buffer

    def descend_one(self, progress: Progress, work: Work, given: tuple[Hyper, Array]) -> tuple[Progress, Metrics]:
        """One piece of the gradient steps; `given` has the hyperparameters and the number of its first step."""
        hyper, start = given
        with repeated(self.planned_updates, self.doubled):
            return self.algorithm.descend(progress, work.part(start, self._piece), hyper)

    def finish_one(
        self, state: LearnerState, progress: Progress, work: Work, metrics: list[Metrics], finished: Finished
    ) -> tuple[LearnerState, Metrics]:
        joined = jax.tree.map(lambda *x: jnp.concatenate(x), *metrics)
        learner, means = self.algorithm.finish(state, progress, work, joined)
        return learner, report(learner, means, finished)

    # --- S seeds, compiled ------------------------------------------------------------------------------------------

    def start(self) -> Started:
        """Starts the simulators, unless they have been started already."""
        if self._started is None:
            self._started = start_simulators(self.make_env, self.algorithm, self.layout, self.seeds)
        return self._started

    @property
    def started(self) -> Started:
        """What `start` has started. It is an error to ask for it earlier."""
        if self._started is None:
            raise RuntimeError("the simulators have not been started; call start() or compile()")
        return self._started

    def compile(self) -> None:
        """Starts the simulators and compiles everything that is known beforehand."""
        began, seeds = time.perf_counter(), self.config.seeds
        jobs = {
            "init": jax.jit(over_seeds(self.init_one, seeds)),
            "split": jax.jit(jax.vmap(update_keys)),
            "join": jax.jit(over_seeds_but_last(self.join_one, seeds)),
            "prepare": jax.jit(over_seeds_but_last(self.prepare_one, seeds)),
            "join_and_prepare": jax.jit(
                over_seeds_but_last(self.join_and_prepare_one, seeds), donate_argnums=1 if self._in_place else ()
            ),
            "descend": jax.jit(over_seeds_but_last(self.descend_one, seeds)),
            "finish": jax.jit(over_seeds(self.finish_one, seeds)),
        }
        learner, key = jax.eval_shape(jobs["init"], self.seeds)
        collected = self._collected_shape(learner, key)
        shapes: dict[str, tuple[PyTree, ...]] = {"init": (self.seeds,), "split": (key,)}
        if self._host is None:
            buffer = jax.eval_shape(over_seeds(lambda _: self.algorithm.empty_buffer(), seeds), self.seeds)
            shapes["join_and_prepare"] = (learner, buffer, key, collected, self.hyper)
            progress, work, after, _ = jax.eval_shape(jobs["join_and_prepare"], *shapes["join_and_prepare"])
        else:
            buffer = self._host.shape()
            shapes["join"] = (collected, self.hyper)
            rollout, after = jax.eval_shape(jobs["join"], *shapes["join"])
            shapes["prepare"] = (learner, self._host.data_shape(rollout, key), key, self.hyper)
            progress, work = jax.eval_shape(jobs["prepare"], *shapes["prepare"])
        shapes["descend"] = (progress, work, (self.hyper, jax.ShapeDtypeStruct((), jnp.int32)))
        _, metrics = jax.eval_shape(jobs["descend"], *shapes["descend"])
        pieces = [metrics] * (self._gradient_steps // self._piece)
        shapes["finish"] = (learner, progress, work, pieces, after.finished)
        self._compile(jobs, shapes)
        most = planned(self._compiled.values())
        require_memory(most)
        self.memory = MemoryPlan.of(learner._replace(buffer=buffer), collected.stream, collected.groups, most)
        self._compile_acting()
        self.compile_seconds = time.perf_counter() - began

    @property
    def doubled(self) -> bool:
        """Whether the run is long enough for the loop over gradient steps to be doubled."""
        return worth_doubling(self.planned_updates * self._gradient_steps)

    def _compile(self, jobs: dict[str, PyTree], shapes: dict[str, tuple[PyTree, ...]]) -> None:
        """Compiles the jobs that have shapes, side by side."""
        options = compiler_options(None, self.doubled)
        lower = {name: Job(lambda name=name: jobs[name].lower(*shapes[name]), options) for name in shapes}
        self._compiled, self.trace_seconds = compile_all(lower)

    def _collected_shape(self, learner: LearnerState, key: Array) -> Collected:
        """Shapes of a rollout, from those of S learners and keys."""
        started = self.start()
        collector = started.collector
        draws = jax.eval_shape(collector.draw, key, learner, self.hyper)
        stream = shapes_of(collector.start(started.first))
        return collector.collected_shape(self.algorithm.policy(learner), stream, draws)

    def _compile_acting(self) -> None:
        simulators, collector, _, first, _ = self.started
        learner, key = self._compiled["init"](self.seeds)
        draws = collector.draw(key, learner, self.hyper)
        collector.compile_acting(simulators, self.algorithm.policy(learner), collector.start(first), draws)

    # --- the interface of `Program` ---------------------------------------------------------------------------------

    def init(self) -> RunState:
        learner, key = self._compiled["init"](self.seeds)
        learner = learner._replace(buffer=self._empty_buffer())
        return RunState(learner, self.started.collector.start(self.started.first), key)

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        rows: list[Metrics] = []
        try:
            left = self.config.updates - _updates(state.learner)
            with reserved_cores(self.started.simulators.cores):
                for number in range(1, count + 1):
                    state, metrics = self._update(state, ahead=self.config.simulators.overlap and number < left)
                    rows.append(metrics)
        except EnvFailed as failure:
            failure.state, failure.totals, failure.done = state, add_up(rows, before), len(rows)
            raise
        return state, add_up(rows, before)

    def _update(self, state: RunState, ahead: bool) -> tuple[RunState, Metrics]:
        """One iteration of Algorithm 1; if `ahead`, the next rollout is collected while this one is learned from."""
        unlearned, self._unlearned = self._unlearned, None
        if unlearned is None:
            state, unlearned = self.collect(state)
        steps, after, buffer = self._prepare(state, unlearned)
        del unlearned  # its memory is needed for the next rollout
        then = state
        if ahead:
            then, self._unlearned = self.collect(state, meanwhile=steps.take_piece)
        progress, metrics = steps.finish()
        light = state.learner._replace(buffer=())
        learner, row = self._compiled["finish"](light, progress, steps.work, metrics, after.finished)
        learner = learner._replace(buffer=buffer)
        stream = then.stream._replace(episode=after.episode, window=after.window)
        return RunState(learner, stream, then.key), row

    def collect(
        self, state: RunState, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[RunState, UnlearnedRollout]:
        """A rollout, and the state after it, whose `episode` and `window` are still those before it.

        `meanwhile` is called while actions are computed; see `Collector.collect`.
        """
        simulators, collector, greedy, _, _ = self.started
        keys = self._compiled["split"](state.key)
        draws = collector.draw(keys.collect, state.learner._replace(buffer=()), self.hyper)
        policy = self.algorithm.policy(state.learner)
        collected = collector.collect(simulators, policy, state.stream, draws, meanwhile)
        greedy.add(collected.groups)
        return state._replace(stream=collected.stream, key=keys.run), UnlearnedRollout(collected, keys.learn)

    def _prepare(self, state: RunState, unlearned: UnlearnedRollout) -> tuple[GradientSteps, AfterRollout, PyTree]:
        """The gradient steps of an update, what follows from its rollout, and the buffer after it."""
        collected, before = unlearned.collected, state.stream
        stream = collected.stream._replace(episode=before.episode, window=before.window)
        light, buffer = state.learner._replace(buffer=()), state.learner.buffer
        collected, key = collected._replace(stream=stream), unlearned.key
        if self._host is None:
            given = (light, buffer, key, collected, self.hyper)
            progress, work, after, buffer = self._compiled["join_and_prepare"](*given)
        else:
            rollout, after = self._compiled["join"](collected, self.hyper)
            buffer, data = self._host.remember(buffer, rollout, key)
            progress, work = self._compiled["prepare"](light, data, key, self.hyper)
        starts = range(0, self._gradient_steps, self._piece)
        return GradientSteps(self._compiled["descend"], self.hyper, progress, work, starts), after, buffer

    def evaluate(self, state: RunState) -> Evaluation | None:
        """During a run what the greedy environments report, which is nothing at first; at its end full episodes."""
        update, config = _updates(state.learner), self.config
        if self.layout.num_greedy and update < config.updates:
            return self.started.greedy.report() if update else None
        keys = jax.vmap(lambda seed: evaluation_key(seed, update))(self.seeds)
        policy, limit = self.algorithm.policy(state.learner), step_limit(config, self.algorithm.spec)
        played = self._player.play(self.make_env, policy, keys, config.eval.num_envs, limit)
        return played.check(self.algorithm.spec.name, config.seed)

    def start_evaluation(self, state: RunState) -> None:
        """Between chunks only: episodes are played by simulators."""

    def saved_shape(self) -> SimulatorCheckpoint:
        started = self.start()
        learner, key = jax.eval_shape(lambda seeds: named(jax.vmap(self.init_one)(seeds)), self.seeds)
        learner = learner._replace(
            buffer=jax.eval_shape(self._empty_buffer) if self._host is None else self._host.shape()
        )
        whole: PyTree = jax.ShapeDtypeStruct((), bool)
        if not started.saved_shape:
            return SimulatorCheckpoint(learner, key, whole, (), (), ())
        stream, greedy = shapes_of((started.collector.start(started.first), started.greedy.save()))
        return SimulatorCheckpoint(learner, key, whole, stream, greedy, started.saved_shape)

    def snapshot(self, state: RunState) -> SimulatorCheckpoint:
        """What a checkpoint holds. Of simulators that failed, it holds zeros, and `whole` is false."""
        simulators, _, greedy, _, shape = self.started
        learner = saved_learner(state.learner)
        if not shape:
            return SimulatorCheckpoint(learner, state.key, np.array(False), (), (), ())
        whole = not simulators.broken
        envs = simulators.save() if whole else jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shape)
        return SimulatorCheckpoint(learner, state.key, np.array(whole), state.stream, greedy.save(), envs)

    def restore(self, saved: SimulatorCheckpoint, note: Callable[[str], None]) -> RunState:
        simulators, collector, greedy, _, _ = self.started
        like, _ = jax.eval_shape(jax.vmap(self.init_one), self.seeds)
        learner = restored_learner(saved.learner._replace(buffer=()), like)._replace(buffer=saved.learner.buffer)
        if bool(saved.whole):
            simulators.restore(saved.envs)
            greedy.restore(saved.greedy)
            return RunState(learner, saved.stream, saved.key)
        note(f"the episodes that were open are lost: {self.algorithm.spec.name} starts new ones")
        timesteps = simulators.reset(*episode_seeds(self.seeds, self.layout, _updates(learner)))
        return RunState(learner, collector.start(timesteps), saved.key)

    def close(self) -> None:
        if self._started is not None:
            self._started.simulators.close()


def _updates(learner: LearnerState) -> int:
    """How many updates all seeds have had."""
    return int(np.asarray(learner.updates)[0])
