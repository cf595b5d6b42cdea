"""The program of a run with shards whose environments are outside of JAX; it fulfils `Program`.

A shard has simulators of its own, with seeds and random numbers of its own. It is collected from as a run of its size
would be. Rollouts are learned from as in `CompiledProgram`: one compiled update for all shards, joined by means over
them. Several processes each step the simulators of their shards, and the update is computed on one device of each.

Which process has a shard does not matter to the shard, so neither does the number of processes to the run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn import shards
from pqn.algorithms import make_algorithm
from pqn.algorithms.base import PER_SHARD, Hyper, LearnerState, Metrics
from pqn.algorithms.packing import named
from pqn.config import Config
from pqn.device import compiler_options, over_seeds, over_seeds_but_last, planned, require_memory, worth_doubling
from pqn.errors import ConfigError, EnvFailed
from pqn.loops import repeated
from pqn.programs.base import Block, Blocks, HostFactory, RunState, Totals, restored_learner, saved_learner
from pqn.programs.compiling import Job, compile_all
from pqn.programs.episodes import Finished
from pqn.programs.evaluation import Evaluation, step_limit
from pqn.programs.keys import evaluation_key, seed_keys, update_keys
from pqn.programs.memory import MemoryPlan
from pqn.programs.shard_mesh import OWN, SAME, ShardMesh, device_axes, shard_axes
from pqn.programs.simulators.collect import shapes_of
from pqn.programs.simulators.cores import reserved_cores
from pqn.programs.simulators.groups import Layout
from pqn.programs.simulators.joining import AfterRollout, join_groups
from pqn.programs.simulators.player import Player
from pqn.programs.simulators.program import SimulatorCheckpoint
from pqn.programs.simulators.records import Collected, SimulatorStream
from pqn.programs.simulators.seeds import episode_seeds
from pqn.programs.simulators.sharing import Sharing, gathered
from pqn.programs.simulators.started import Started, start_simulators
from pqn.programs.totals import add_up, join_shards, report
from pqn.types import Array, EnvSpec, PyTree, Rollout


class Gathered(NamedTuple):
    """What the rollouts of all shards [S, D, ...] leave for learning."""

    rollout: Rollout
    finished: Finished


class ShardedSimulatorProgram:
    """S seeds of an algorithm on simulators, each seed in D shards.

    Args:
      config: a validated configuration.
      make_env: makes a `HostEnv` of a given size.
      spec: of those environments.
      groups: into how many groups those of a shard are split; the data do not depend on it.
    """

    def __init__(self, config: Config, make_env: HostFactory, spec: EnvSpec, groups: int = 2):
        self.sharing = Sharing.of(config, spec.name)
        self.config, self.make_env = config, make_env
        self.algorithm = make_algorithm(config, spec)
        if self.algorithm.buffer_on_host:
            raise ConfigError(
                "a buffer in the host's memory (replay.place) is for a run without shards; lower replay.size so that "
                "it fits the device"
            )
        self.hyper = Hyper.of(config)
        self.seeds = jnp.arange(config.seed, config.seed + config.seeds)
        self.layout = Layout.of(config, spec, groups)
        self.planned_updates = config.updates
        self.compile_seconds = self.trace_seconds = 0.0
        self.memory: MemoryPlan | None = None
        self.mesh = ShardMesh(config.shards)  # shapes are those of one device that has all shards
        self.learner_shape = jax.eval_shape(jax.vmap(self.init_one), self.seeds)
        self.mesh = ShardMesh(config.shards, self.sharing.devices)
        self._axes = device_axes(config.shards).learner
        self._player = Player(self.algorithm.actor, config.seeds, config.eval.epsilon, *self.sharing.of_episodes)
        self._started: list[Started] = []  # of each shard that is here

    # --- one shard of one seed ----------------------------------------------------------------------------------

    def init_shard(self, seed: Array) -> LearnerState:
        return self.algorithm.init(seed_keys(seed).network)

    def learn_shard(
        self, learner: LearnerState, given: Gathered, key: Array, hyper: Hyper
    ) -> tuple[LearnerState, Metrics]:
        """What `CompiledProgram.update_shard` does after it has collected."""
        with repeated(self.planned_updates, self.doubled):
            learner, metrics = self.algorithm.update(learner, given.rollout, shards.own_key(key), hyper)
        return learner, join_shards(report(learner, metrics, given.finished))

    def join_shard(self, collected: Collected, hyper: Hyper) -> tuple[Gathered, AfterRollout]:
        rollout, after = join_groups(self.algorithm.actor, self.layout, collected, hyper)
        return Gathered(rollout, after.finished), after

    # --- one seed -----------------------------------------------------------------------------------------------

    def init_one(self, seed: Array) -> LearnerState:
        return self.mesh.over_shards(self.init_shard, (None,), shard_axes().learner)(seed)

    def learn_one(
        self, learner: LearnerState, given: Gathered, key: Array, hyper: Hyper
    ) -> tuple[LearnerState, Metrics]:
        axes = shard_axes().learner
        return self.mesh.over_shards(self.learn_shard, (axes, 0, None, None), (axes, None))(learner, given, key, hyper)

    # --- S seeds ------------------------------------------------------------------------------------------------

    def _init(self, seeds: Array) -> LearnerState:
        return self.mesh.over_devices(over_seeds(self.init_one, self.config.seeds), SAME, self._axes)(seeds)

    def _learn(self, learner: LearnerState, given: Gathered, key: Array, hyper: Hyper) -> tuple[LearnerState, Metrics]:
        of_all = over_seeds_but_last(self.learn_one, self.config.seeds)
        axes = (self._axes, OWN, SAME, SAME), (self._axes, SAME)
        return self.mesh.over_devices(of_all, *axes)(learner, given, key, hyper)

    def _split(self, keys: Array) -> tuple[Array, tuple[Array, ...], Array]:
        """Of S seeds: keys of the run, of what each shard here collects, and of what all learn."""
        run, collect, learn = jax.vmap(update_keys)(keys)
        fold = jax.vmap(jax.random.fold_in, (0, None))
        return run, tuple(fold(collect, shard) for shard in self.sharing.here), learn

    # --- compiled -----------------------------------------------------------------------------------------------

    def start(self) -> list[Started]:
        """Starts the simulators of the shards that are here, unless they have been started already."""
        if not self._started:
            with contextlib.ExitStack() as unless_started:
                unless_started.callback(self.close)
                for shard in self.sharing.here:
                    collector = self._started[0].collector if self._started else None
                    given = (self.make_env, self.algorithm, self.layout, self.seeds)
                    self._started.append(start_simulators(*given, shard, collector))
                unless_started.pop_all()
        return self._started

    def compile(self) -> None:
        """Starts the simulators and compiles everything that is known beforehand."""
        began, seeds = time.perf_counter(), self.config.seeds
        collector, first = self.start()[0].collector, self._started[0].first
        key = jax.eval_shape(jax.vmap(lambda seed: seed_keys(seed).run), self.seeds)
        light = self.learner_shape._replace(buffer=())
        stream = shapes_of(collector.start(first))
        draws = jax.eval_shape(collector.draw, key, light, self.hyper)
        collected = collector.collected_shape(self.algorithm.policy(light), stream, draws)
        join = jax.jit(over_seeds_but_last(self.join_shard, seeds))
        given, _ = jax.eval_shape(join, collected, self.hyper)
        whole = _stacked_shape(given, self.config.shards)
        learner = self.mesh.shaped(self.learner_shape, self._axes)
        keys, hyper = self.mesh.shaped((key, self.hyper), SAME)
        places, result = self.mesh.result_places(self._axes), self.mesh.result_places((self._axes, SAME))
        lowered = {
            "learn": lambda: jax.jit(self._learn, donate_argnums=0, **result).lower(
                learner, self.mesh.shaped(whole, OWN), keys, hyper
            ),
            "join": lambda: join.lower(collected, self.hyper),
            "init": lambda: jax.jit(self._init, **places).lower(self.mesh.shaped(self.seeds, SAME)),
            "split": lambda: jax.jit(self._split).lower(key),
        }
        options = compiler_options(None, self.doubled, len(self.mesh.devices))
        self._compiled, self.trace_seconds = compile_all({name: Job(each, options) for name, each in lowered.items()})
        most = planned(self._compiled.values())
        require_memory(most)
        streams = _stacked_shape(stream, self.config.shards)
        self.memory = MemoryPlan.of(self.learner_shape, streams, whole.rollout, most)
        self._compile_acting()
        self.compile_seconds = time.perf_counter() - began

    @property
    def doubled(self) -> bool:
        """Whether the run is long enough for the loop over gradient steps to be doubled."""
        learner = self.config.learner
        return worth_doubling(self.planned_updates * learner.epochs * learner.minibatches)

    def _compile_acting(self) -> None:
        state, started = self.init(), self._started[0]
        learner = self.sharing.local(state.learner._replace(buffer=()))
        _, collect_keys, _ = self._compiled["split"](state.key)
        draws = started.collector.draw(collect_keys[0], learner, self.hyper)
        given = (started.simulators, self.algorithm.policy(learner), state.stream[0], draws)
        started.collector.compile_acting(*given)
        self._everywhere = self.mesh.put(self.hyper, SAME)

    # --- the interface of `Program` -----------------------------------------------------------------------------

    def init(self) -> RunState:
        learner = self._compiled["init"](self.mesh.put(self.seeds, SAME))
        key = jax.vmap(lambda seed: seed_keys(seed).run)(self.seeds)
        return RunState(learner, tuple(one.collector.start(one.first) for one in self._started), key)

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        rows: list[Metrics] = []
        try:
            with reserved_cores(self._started[0].simulators.cores):
                for _ in range(count):
                    state, metrics = self._update(state)
                    rows.append(metrics)
        except EnvFailed as failure:
            failure.state, failure.totals, failure.done = state, add_up(rows, before), len(rows)
            raise
        return state, add_up(rows, before)

    def _update(self, state: RunState) -> tuple[RunState, Metrics]:
        """One iteration of Algorithm 1: every shard collects a rollout, all learn from theirs together."""
        run, collect_keys, learn = self._compiled["split"](state.key)
        learner = self.sharing.local(state.learner._replace(buffer=()))
        found = [
            self._collect(learner, stream, key, started)
            for stream, key, started in zip(state.stream, collect_keys, self._started, strict=True)
        ]
        given = self.sharing.joined([given for given, _ in found], self.mesh)
        key = self.mesh.put(learn, SAME)
        learner, row = self._compiled["learn"](state.learner, given, key, self._everywhere)
        return RunState(learner, tuple(stream for _, stream in found), run), row

    def _collect(
        self, learner: LearnerState, stream: SimulatorStream, key: Array, started: Started
    ) -> tuple[Gathered, SimulatorStream]:
        """A rollout of one shard, and where its simulators stand after it."""
        simulators, collector, greedy, _, _ = started
        draws = collector.draw(key, learner, self.hyper)
        collected = collector.collect(simulators, self.algorithm.policy(learner), stream, draws)
        greedy.add(collected.groups)
        given, after = self._compiled["join"](collected, self.hyper)
        return given, collected.stream._replace(episode=after.episode, window=after.window)

    def evaluate(self, state: RunState) -> Evaluation | None:
        """As `SimulatorProgram.evaluate`; the episodes are shared out among the processes."""
        update, config = _updates(state.learner), self.config
        if self.layout.num_greedy and update < config.updates:
            if not update:
                return None
            return gathered([one.greedy.report() for one in self._started])
        keys = jax.vmap(lambda seed: evaluation_key(seed, update))(self.seeds)
        policy = self.algorithm.policy(self.sharing.local(state.learner._replace(buffer=())))
        limit = step_limit(config, self.algorithm.spec)
        played = self._player.play(self.make_env, policy, keys, config.eval.num_envs, limit)
        whole = gathered([played], same=self._player.parts == 1)
        return whole.check(self.algorithm.spec.name, config.seed)

    def start_evaluation(self, state: RunState) -> None:
        """Between chunks only: episodes are played by simulators."""

    def saved_shape(self) -> SimulatorCheckpoint:
        started, count = self.start()[0], self.config.shards
        learner: LearnerState = jax.eval_shape(named, self.learner_shape)
        key = jax.eval_shape(jax.vmap(lambda seed: seed_keys(seed).run), self.seeds)
        whole: PyTree = jax.ShapeDtypeStruct((), bool)
        if not started.saved_shape:
            return SimulatorCheckpoint(learner, key, whole, (), (), ())
        each = shapes_of((started.collector.start(started.first), started.greedy.save()))
        stream, greedy = _stacked_shape(each, count)
        return SimulatorCheckpoint(learner, key, whole, stream, greedy, (started.saved_shape,) * count)

    def snapshot(self, state: RunState) -> SimulatorCheckpoint | Blocks:
        """As `SimulatorProgram.snapshot`; with several processes, this one's share of it."""
        learner, shape = saved_learner(self.sharing.local(state.learner)), self._started[0].saved_shape
        whole = bool(shape) and not any(one.simulators.broken for one in self._started)
        saved = SimulatorCheckpoint(learner, state.key, np.array(whole), (), (), ())
        if shape:
            envs: list[PyTree] = [None] * self.config.shards
            for shard, one in zip(self.sharing.here, self._started, strict=True):
                envs[shard] = one.simulators.save() if whole else _zeros(shape)
            greedy = _stacked([one.greedy.save() for one in self._started])
            saved = saved._replace(stream=_stacked(state.stream), greedy=greedy, envs=tuple(envs))
        if not self.sharing.devices:
            return saved
        if self.sharing.here.start:  # what all shards share is the first process's to give
            shared = {name: None for name in LearnerState._fields if name not in PER_SHARD}
            saved = saved._replace(learner=learner._replace(**shared), key=None, whole=None)
        blocks = (Block(0, self.sharing.here.start, saved),) if jax.tree.leaves(saved) else ()
        return Blocks(blocks, self.saved_shape())

    def restore(self, saved: SimulatorCheckpoint, note: Callable[[str], None]) -> RunState:
        learner = self.mesh.put(restored_learner(saved.learner, self.learner_shape), self._axes)
        if not bool(saved.whole):
            note(f"the episodes that were open are lost: {self.algorithm.spec.name} starts new ones")
        streams = tuple(
            self._restore_shard(saved, shard, one, _updates(learner))
            for shard, one in zip(self.sharing.here, self._started, strict=True)
        )
        return RunState(learner, streams, saved.key)

    def _restore_shard(self, saved: SimulatorCheckpoint, shard: int, one: Started, update: int) -> SimulatorStream:
        if not bool(saved.whole):
            seeds = episode_seeds(self.seeds, self.layout, update, shard)
            return one.collector.start(one.simulators.reset(*seeds))
        one.simulators.restore(saved.envs[shard])
        stream, greedy = jax.tree.map(lambda x: x[:, shard], (saved.stream, saved.greedy))
        one.greedy.restore(greedy)
        return stream

    def close(self) -> None:
        started, self._started = self._started, []
        with contextlib.ExitStack() as stack:  # also the others, where one cannot be closed
            for one in started:
                stack.callback(one.simulators.close)


def _updates(learner: LearnerState) -> int:
    """How many updates all seeds have had."""
    return int(np.asarray(learner.updates)[0])


def _zeros(shape: PyTree) -> PyTree:
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shape)


def _stacked(trees: PyTree) -> PyTree:
    """Trees of arrays [S, ...] of some shards, as one on the host with an axis of shards after that of seeds."""
    return jax.tree.map(lambda *x: np.stack(jax.device_get(x), axis=1), *trees)


def _stacked_shape(tree: PyTree, count: int) -> PyTree:
    """Shapes [S, ...] of one shard, as those of `count` shards."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((x.shape[0], count, *x.shape[1:]), x.dtype), tree)
