"""The program of a run whose environments live outside of JAX; it offers the host loop what `Program` does.

The learner is the same compiled code. Around it, a Python loop lets the simulators and the accelerator work at the
same time (`collect`), and a run's state is partly theirs: where a simulator can say where it stands, a checkpoint
holds that too and a resumed run equals an uninterrupted one to the bit; otherwise it starts new episodes, with the
parameters, the optimiser and the random keys of the checkpoint.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms import make_algorithm
from pqn.algorithms.base import Hyper, LearnerState, Metrics, Progress, Work
from pqn.algorithms.packing import named
from pqn.config import Config
from pqn.device import compiler_options, over_seeds, planned, require_memory
from pqn.errors import ConfigError, EnvFailed
from pqn.programs.base import HostFactory, RunState, Totals, restored_learner, saved_learner
from pqn.programs.evaluation import Evaluation, step_limit
from pqn.programs.rollout import Finished
from pqn.programs.simulators.collect import Collector, over_seeds_but_last
from pqn.programs.simulators.cores import apart
from pqn.programs.simulators.greedy import Beside, Player, env_seeds
from pqn.programs.simulators.pool import Pool
from pqn.programs.simulators.records import Collected, Shifted
from pqn.programs.totals import HEALTH, NEVER, combine, report
from pqn.types import Array, EnvSpec, EpisodeStats, Inputs, PyTree


class Saved(NamedTuple):
    """A checkpoint of a host run."""

    learner: LearnerState
    key: Array
    whole: Any  # bool: the rest is there, so that the run can go on where it stood
    stream: Any  # () for simulators that cannot be saved
    beside: PyTree
    envs: tuple[dict[str, Any], ...]


class Lesson(NamedTuple):
    """A rollout that is yet to be learned from."""

    collected: Collected
    key: Array  # of its minibatches


class SimulatorProgram:
    """S seeds of an algorithm on a pool of simulators.

    Args:
      config: a validated configuration.
      make_env: makes a `HostEnv` of a given size.
      spec: of those environments.
      groups: into how many the pool is split; the data do not depend on it.
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
        self.groups, self.num_beside = groups, config.simulators.greedy_envs if config.eval.count else 0
        self.compile_seconds = 0.0
        self._pending: Lesson | None = None  # with `simulators.overlap`: collected, not yet learned from
        self._steps = config.learner.epochs * config.learner.minibatches
        turns = groups * config.learner.rollout_steps if config.simulators.overlap else 1
        # Gradient steps queued at a time: few enough, when overlapped, that no action waits long behind them.
        self._piece = min(m for m in range(1, self._steps + 1) if self._steps % m == 0 and self._steps // m <= turns)

    # --- one seed ---------------------------------------------------------------------------------------------------

    def init_one(self, seed: Array) -> tuple[LearnerState, Array]:
        key, net_key, _ = self._split(seed)
        return self.algorithm.init(net_key), key

    @staticmethod
    def _split(seed: Array) -> tuple[Array, Array, Array]:
        """Keys for the run, the network and the environments: the same as those of a run in JAX."""
        key, net_key, env_key = jax.random.split(jax.random.key(seed), 3)
        return key, net_key, env_key

    def prepare_one(
        self, state: LearnerState, key: Array, collected: Collected, hyper: Hyper
    ) -> tuple[Progress, Work, EpisodeStats, Inputs, Finished]:
        data, episode, window, finished = self.collector.pack_one(collected, hyper)
        return *self.algorithm.prepare(state, data, key, hyper), episode, window, finished

    def descend_one(self, progress: Progress, work: Work, given: tuple[Hyper, Array]) -> tuple[Progress, Metrics]:
        """The gradient steps from number `start` on, as many as make a piece."""
        hyper, start = given
        return self.algorithm.descend(progress, work.part(start, self._piece), hyper)

    def finish_one(
        self, state: LearnerState, progress: Progress, work: Work, metrics: list[Metrics], finished: Finished
    ) -> tuple[LearnerState, Metrics]:
        joined = jax.tree.map(lambda *x: jnp.concatenate(x), *metrics)
        learner, means = self.algorithm.finish(state, progress, work, joined)
        return learner, report(learner, means, finished)

    # --- S seeds, compiled ------------------------------------------------------------------------------------------

    @functools.cached_property
    def pool(self) -> Pool:
        config = self.config
        layout = (config.seeds, config.env.num_envs, self.num_beside, self.groups)
        return Pool(self.make_env, *layout, apart=config.simulators.cores == "reserved", first_seed=config.seed)

    @functools.cached_property
    def collector(self) -> Collector:
        """Made with the first reset of the pool, which shows what its time steps are like."""
        pool, config = self.pool, self.config
        self._began = jax.tree.map(np.array, self._reset(0))  # a copy: the arrays are the simulators' own
        self._env_shape = _shape(pool.save()) if self._saves else ()
        return Collector(
            self.algorithm, config.seeds, config.env.num_envs, pool.shares, self._began, config.eval.epsilon
        )

    def _reset(self, update: int) -> Any:
        """Starts episodes everywhere; the seeds of a later start differ from those of the first."""
        keys = jax.vmap(lambda seed: self._split(seed)[2])(self.seeds)
        fold = lambda keys, number: jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)  # noqa: E731
        keys = fold(keys, update) if update else keys
        return self.pool.reset(env_seeds(keys, self.config.env.num_envs), env_seeds(fold(keys, NEVER), self.num_beside))

    @functools.cached_property
    def player(self) -> Player:
        return Player(self.algorithm.actor, self.config.seeds, self.config.eval.epsilon)

    @functools.cached_property
    def beside(self) -> Beside:
        return Beside(self.config.seeds, self.collector.shares, list(self.collector.blank[0].info))

    def compile(self) -> None:
        """Starts the simulators and compiles everything that is known beforehand."""
        began, seeds = time.perf_counter(), self.config.seeds
        jobs = {
            "init": jax.jit(over_seeds(self.init_one, seeds)),
            "split": jax.jit(jax.vmap(lambda key: tuple(jax.random.split(key, 3)))),
            "prepare": jax.jit(over_seeds_but_last(self.prepare_one, seeds)),
            "descend": jax.jit(over_seeds_but_last(self.descend_one, seeds)),
            "finish": jax.jit(over_seeds(self.finish_one, seeds)),
        }
        learner, key = jax.eval_shape(jobs["init"], self.seeds)
        shapes: dict[str, tuple] = {"init": (self.seeds,), "split": (key,)}
        shapes["prepare"] = (learner, key, self._collected_shape(), self.hyper)
        progress, work, _, _, finished = jax.eval_shape(jobs["prepare"], *shapes["prepare"])
        shapes["descend"] = (progress, work, (self.hyper, jax.ShapeDtypeStruct((), jnp.int32)))
        _, metrics = jax.eval_shape(jobs["descend"], *shapes["descend"])
        shapes["finish"] = (learner, progress, work, [metrics] * (self._steps // self._piece), finished)
        with ThreadPoolExecutor(len(shapes)) as pool:
            options = compiler_options()
            futures = {
                name: pool.submit(lambda name=name: jobs[name].lower(*shapes[name]).compile(options)) for name in shapes
            }
            self._compiled = {name: future.result() for name, future in futures.items()}
        require_memory(planned(self._compiled.values()))
        self._warm_up()
        self.compile_seconds = time.perf_counter() - began

    def _warm_up(self) -> None:
        """Every turn of a group calls `act`: it goes through the fast path of jit, which compiles at the first call."""
        state, key = self._compiled["init"](self.seeds)
        collector, policy = self.collector, self.algorithm.policy(state)
        draws = collector.draw(key, state._replace(opt=()), self.hyper)
        for group, seen in enumerate(collector.start(self._began).seen):
            given = (draws.uniform[group], draws.epsilon[group], collector.times[0])
            *_, kept = jax.block_until_ready(collector.act[group](policy, seen, *given))
            if self.pool.stacks:
                seen = seen._replace(obs=Shifted.of(kept[0], seen.obs))
                jax.block_until_ready(collector.act[group](policy, seen, *given))

    def _collected_shape(self) -> Any:
        """Shapes of a rollout, without stepping anything."""
        collector, steps = self.collector, self.config.learner.rollout_steps
        stream, tracks = _shape(collector.start(self._began)), []
        state, key = jax.eval_shape(jax.vmap(self.init_one), self.seeds)
        policy = self.algorithm.policy(state)
        uniform, epsilon = jax.eval_shape(collector.draw, key, state._replace(opt=()), self.hyper)
        for group, seen in enumerate(stream.seen):
            track = _shape(collector._blank_track(group, seen))
            note = jax.eval_shape(
                collector.act[group], policy, seen, uniform[group], epsilon[group], collector.times[0]
            )[2]
            carries = [seen.carry] * (steps // self.config.segment_length)
            tracks.append(
                track._replace(
                    obs=[seen.obs] * steps,
                    avail=[seen.avail] * steps,
                    world=[seen.world] * steps,
                    note=[note] * (steps + 1),
                    carries=carries,
                )
            )
        final = _shape(collector._no_final_values) if collector.bootstraps else None
        return Collected(tuple(tracks), final, stream)

    # --- the interface of `Program` ---------------------------------------------------------------------------------

    def init(self) -> RunState:
        learner, key = self._compiled["init"](self.seeds)
        return RunState(learner, self.collector.start(self._began), key)

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        rows: list[dict[str, Array]] = []
        try:
            left = self.config.updates - int(np.asarray(state.learner.updates)[0])
            with apart(self.pool.cores):
                for number in range(1, count + 1):
                    state, metrics = self._update(state, ahead=self.config.simulators.overlap and number < left)
                    rows.append(metrics)
        except EnvFailed as failure:
            failure.state, failure.totals, failure.done = state, _totals(rows, before), len(rows)
            raise
        return state, _totals(rows, before)

    def _update(self, state: RunState, ahead: bool) -> tuple[RunState, dict[str, Array]]:
        """One iteration of Algorithm 1; if `ahead`, the next rollout is collected while this one is learned from."""
        pending, self._pending = self._pending, None
        if pending is None:
            state, pending = self._collect(state, state.learner, lambda: None)
        stream, collected = state.stream, pending.collected
        episode, window = stream.episode, stream.window
        collected = collected._replace(stream=collected.stream._replace(episode=episode, window=window))
        progress, work, episode, window, finished = self._compiled["prepare"](
            state.learner, pending.key, collected, self.hyper
        )
        del collected, pending
        metrics: list[dict[str, Array]] = []
        rest = iter(range(0, self._steps, self._piece))

        learning = Lock()

        def learn_a_little() -> None:
            nonlocal progress
            if not learning.acquire(blocking=False):  # another thread is at it; this one has simulators to feed
                return
            try:
                start = next(rest, None)
                if start is not None:
                    given = (self.hyper, np.int32(start))
                    progress, seen = self._compiled["descend"](progress, work, given)
                    metrics.append(seen)
            finally:
                learning.release()

        after = state
        if ahead:
            after, self._pending = self._collect(state, state.learner, learn_a_little)
        while len(metrics) < self._steps // self._piece:
            learn_a_little()
        learner, row = self._compiled["finish"](state.learner, progress, work, metrics, finished)
        stream = after.stream._replace(episode=episode, window=window)
        return RunState(learner, stream, after.key), row

    def _collect(
        self, state: RunState, learner: LearnerState, meanwhile: Callable[[], None]
    ) -> tuple[RunState, Lesson]:
        """A rollout with the policy of `learner`, and the state after it; its `episode` and `window` lag behind."""
        key, collect_key, learn_key = self._compiled["split"](state.key)
        draws = self.collector.draw(collect_key, learner._replace(opt=()), self.hyper)
        collected = self.collector.collect(self.pool, self.algorithm.policy(learner), state.stream, draws, meanwhile)
        self.beside.add(collected.tracks)
        return state._replace(stream=collected.stream, key=key), Lesson(collected, learn_key)

    def evaluate(self, state: RunState) -> Evaluation | None:
        """In the end a full evaluation; until then what the greedy environments report, which is nothing at first."""
        update = int(np.asarray(state.learner.updates)[0])
        if self.num_beside and update < self.config.updates:
            return self.beside.report() if update else None
        fold = lambda seed: jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), NEVER), update)  # noqa: E731
        config = self.config
        limit = step_limit(config, self.algorithm.spec)
        keys = jax.vmap(fold)(self.seeds)
        played = self.player.play(
            self.make_env, self.algorithm.policy(state.learner), keys, config.eval.num_envs, limit
        )
        return played.check(self.algorithm.spec.name, config.seed)

    def saved_shape(self) -> Saved:
        learner, key = jax.eval_shape(lambda seeds: named(jax.vmap(self.init_one)(seeds)), self.seeds)
        flag = jax.ShapeDtypeStruct((), bool)
        if not self._saves:
            return Saved(learner, key, flag, (), (), ())
        stream = self.collector.start(self._began)
        return Saved(learner, key, flag, _shape(stream), _shape(self.beside.save()), self._env_shape)

    @property
    def _saves(self) -> bool:
        # With overlap a rollout is always under way that no checkpoint holds.
        return self.pool.can_save and not self.config.simulators.overlap

    def snapshot(self, state: RunState) -> Saved:
        """What a checkpoint holds. Of simulators that broke, only that they did."""
        if not self._saves:
            return Saved(saved_learner(state.learner), state.key, np.array(False), (), (), ())
        whole = not self.pool.broken
        envs: Any = self.pool.save() if whole else jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self._env_shape)
        return Saved(saved_learner(state.learner), state.key, np.array(whole), state.stream, self.beside.save(), envs)

    def restore(self, saved: Saved, note: Callable[[str], None]) -> RunState:
        like, _ = jax.eval_shape(jax.vmap(self.init_one), self.seeds)
        learner = restored_learner(saved.learner, like)
        if bool(saved.whole):
            self.pool.restore(saved.envs)
            self.beside.restore(saved.beside)
            return RunState(learner, saved.stream, saved.key)
        update = int(np.asarray(learner.updates)[0])
        note(f"the episodes that were open are lost: {self.algorithm.spec.name} starts new ones")
        return RunState(learner, self.collector.start(self._reset(update)), saved.key)

    def close(self) -> None:
        if "pool" in self.__dict__:
            self.pool.close()


def _shape(tree: PyTree) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), tree)


def _totals(rows: list[Metrics], before: Totals | None = None) -> Totals:
    """Totals per seed over some updates, and over those that `before` is of."""
    fetched = [
        {name: np.asarray(x, None if name in HEALTH else np.float64) for name, x in row.items()}
        for row in jax.device_get(rows)
    ]
    both = [before, *fetched] if before else fetched
    return functools.reduce(combine, both) if both else {}
