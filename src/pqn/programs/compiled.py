"""The compiled functions of a run: `init`, `chunk` (any number of updates) and `evaluate`, for S seeds at once.

The number of updates in a chunk is an argument, not a constant: one compilation serves every chunk, and because it is
the same executable, it does not matter to the numbers where a run is interrupted by logging, a checkpoint or Ctrl-C.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pqn import shards
from pqn.algorithms import make_algorithm
from pqn.algorithms.base import Hyper, LearnerState
from pqn.algorithms.packing import named
from pqn.config import Config
from pqn.device import (
    CompilerOptions,
    compiler_options,
    copied,
    hasty_options,
    over_seeds,
    planned,
    require_memory,
    size,
    worth_doubling,
)
from pqn.errors import ConfigError
from pqn.loops import repeated
from pqn.programs import evaluation, rollout
from pqn.programs.base import JaxFactory, RunState, Totals, restored_learner, saved_learner
from pqn.programs.compiling import Job, compile_all
from pqn.programs.keys import evaluation_key, seed_keys, update_keys
from pqn.programs.memory import MemoryPlan
from pqn.programs.shard_mesh import SAME, ShardMesh, device_axes, shard_axes
from pqn.programs.totals import HEALTH, AnyArray, blank, combine, join_shards, report
from pqn.types import Array, PyTree, Rollout

if TYPE_CHECKING:
    from jaxlib._jax import Device

P = ParamSpec("P")
R = TypeVar("R")


class CompiledProgram:
    """Builds the pure functions of a configuration and compiles them ahead of time.

    Args:
      config: a validated configuration.
      make_env: makes the environment with a given number of copies.
      devices: compute its shards, all of them the same number; () is the one that JAX uses by default.
    """

    def __init__(self, config: Config, make_env: JaxFactory, devices: tuple[Device, ...] = ()):
        if config.simulators.overlap:
            raise ConfigError("simulators.overlap is for environments outside of JAX; leave it false for this one")
        self.config, self.make_env = config, make_env
        self.env = make_env(config.env.num_envs // config.shards)
        self.eval_env = make_env(config.eval.num_envs)
        self.algorithm = make_algorithm(config, self.env.spec)
        self.hyper = Hyper.of(config)
        self.seeds = jnp.arange(config.seed, config.seed + config.seeds)
        self.mesh = ShardMesh(config.shards)  # shapes are those of one device that has all shards
        self.state_shape = jax.eval_shape(jax.vmap(self.init_one), self.seeds)
        require_memory(size(self.state_shape))  # of the least a run needs, before it leaves a trace
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.state_shape)
        self._reported = jax.eval_shape(self.update_one, one, self.hyper)[1]
        self.total_names = sorted(self._reported.keys() - HEALTH)
        self.mesh = ShardMesh(config.shards, devices)
        self._axes = device_axes(config.shards)
        self.planned_updates = config.updates
        self.compile_seconds = self.trace_seconds = 0.0
        self.memory: MemoryPlan | None = None

    # --- one shard of one seed ----------------------------------------------------------------------------------

    def init_shard(self, seed: Array) -> RunState:
        key, net_key, env_key = seed_keys(seed)
        stream = rollout.start(self.env, self.algorithm.actor, shards.own_key(env_key))
        return RunState(self.algorithm.init(net_key), stream, key)

    def update_shard(self, state: RunState, hyper: Hyper) -> tuple[RunState, dict[str, Array]]:
        """One iteration of Algorithm 1: collect a rollout, learn from it, forget it."""
        key, collect_key, learn_key = update_keys(state.key)
        collect_key, learn_key = shards.own_key(collect_key), shards.own_key(learn_key)
        stream, data, finished = rollout.collect(
            self.env, self.algorithm, state.learner, state.stream, collect_key, hyper
        )
        learner, metrics = self.algorithm.update(state.learner, data, learn_key, hyper)
        return RunState(learner, stream, key), join_shards(report(learner, metrics, finished))

    # --- one seed -----------------------------------------------------------------------------------------------

    def init_one(self, seed: Array) -> RunState:
        return self.mesh.over_shards(self.init_shard, (None,), shard_axes())(seed)

    def update_one(self, state: RunState, hyper: Hyper) -> tuple[RunState, dict[str, Array]]:
        axes = shard_axes()
        return self.mesh.over_shards(self.update_shard, (axes, None), (axes, None))(state, hyper)

    def evaluate_one(self, learner: LearnerState, seed: Array) -> evaluation.Evaluation:
        key = evaluation_key(seed, learner.updates)
        limit = evaluation.step_limit(self.config, self.eval_env.spec)
        policy = self.algorithm.policy(learner)
        return evaluation.evaluate(self.eval_env, self.algorithm.actor, policy, key, self.config.eval.epsilon, limit)

    # --- S seeds ------------------------------------------------------------------------------------------------

    def over_seeds(self, function: Callable[P, R]) -> Callable[P, R]:
        """Lifts a function of one seed to all of them."""
        return over_seeds(function, self.config.seeds)

    def _init(self, seeds: Array) -> RunState:
        return self.mesh.over_devices(self.over_seeds(self.init_one), SAME, self._axes)(seeds)

    def over_seeds_and(self, hyper: Hyper, function: Callable[..., R]) -> Callable[..., R]:
        """Lifts a function whose last argument is the hyperparameters of its seed; here all seeds have the same."""
        return self.over_seeds(lambda *of_seed: function(*of_seed, hyper))

    def _chunk(
        self, state: RunState, hyper: Hyper, count: Array, before: dict[str, Array] | None = None
    ) -> tuple[RunState, tuple[Array, Array]]:
        given, made = (self._axes, SAME, SAME, SAME), (self._axes, SAME)
        return self.mesh.over_devices(self._chunk_here, given, made)(state, hyper, count, before or {})

    def _chunk_here(
        self, state: RunState, hyper: Hyper, count: Array, before: dict[str, Array]
    ) -> tuple[RunState, tuple[Array, Array]]:
        """`count` updates of every seed. Returns the totals as two arrays, of `total_names` [F, S] and of `HEALTH`.

        The sums go on from those of `before`, one update after the other: they do not depend on how a run is split into
        chunks.
        """

        # The loop over updates is inside of that over seeds. Where seeds are taken one by one, the state of a seed is
        # then copied once for all of its updates: it may hold a large buffer.
        def updates(state: RunState, totals: tuple[Array, Array], hyper: Hyper) -> tuple[RunState, tuple[Array, Array]]:
            def update(_: Array, c: tuple[RunState, tuple[Array, Array]]) -> tuple[RunState, tuple[Array, Array]]:
                state, totals = c
                with repeated(self.planned_updates, self.doubled):
                    state, metrics = self.update_one(state, hyper)
                return state, self._stacked(combine(self._by_name(*totals), metrics))

            return jax.lax.fori_loop(0, count, update, (state, totals))

        floats, ints = self._stacked(blank(self._reported, self.config.seeds) | before)
        state, (floats, ints) = self.over_seeds_and(hyper, updates)(state, (floats.T, ints.T))
        return state, (floats.T, ints.T)

    def _stacked(self, totals: dict[str, Array]) -> tuple[Array, Array]:
        """Totals as two arrays, since each array is a kernel and a transfer. Numbers of updates stay exact integers."""
        return jnp.stack([totals[name] for name in self.total_names]), jnp.stack([totals[name] for name in HEALTH])

    def _by_name(self, floats: AnyArray, ints: AnyArray) -> dict[str, AnyArray]:
        """The inverse of `_stacked`."""
        return dict(zip((*self.total_names, *HEALTH), (*floats, *ints), strict=True))

    def _evaluate(self, learner: LearnerState, seeds: Array) -> tuple[Array, dict[str, Array]]:
        return self.mesh.over_devices(self._evaluate_here, (self._axes.learner, SAME), SAME)(learner, seeds)

    def _evaluate_here(self, learner: LearnerState, seeds: Array) -> tuple[Array, dict[str, Array]]:
        """Greedy returns, lengths and flags [3, S, E], and the infos, each [S, E].

        With several devices each plays the same episodes: an evaluation is too short to be spread.
        """
        result = self.over_seeds(self.evaluate_one)(learner, seeds)
        return jnp.stack([result.ret, result.length, result.finished.astype(jnp.float32)]), result.info

    # --- compiled -----------------------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compiles the three programs side by side; with a warm compilation cache this is a matter of loading them."""
        began = time.perf_counter()
        hasty = hasty_options(self.env)
        jobs = {"chunk": Job(self.lower_chunk, self.options)}
        if self.config.eval.count:
            jobs["evaluate"] = Job(self._lower_evaluate, hasty)
        jobs["init"] = Job(self._lower_init, hasty)
        self._compiled, self.trace_seconds = compile_all(jobs)
        most = planned(self._compiled.values())
        require_memory(most)
        shape = self.state_shape
        self.memory = MemoryPlan.of(shape.learner, shape.stream, self._rollout_shape(), most)
        self.compile_seconds = time.perf_counter() - began

    @property
    def options(self) -> CompilerOptions:
        """How the updates are compiled."""
        return compiler_options(self.env, self.doubled, len(self.mesh.devices))

    @property
    def doubled(self) -> bool:
        """Whether the run is long enough for its loops to be doubled: those over time and over gradient steps."""
        learner = self.config.learner
        return worth_doubling(self.planned_updates * (learner.rollout_steps + learner.epochs * learner.minibatches))

    def lower_chunk(self) -> jax.stages.Lowered:
        """The program of a chunk, before it is compiled for its devices."""
        sums = dict.fromkeys(self.total_names, jax.ShapeDtypeStruct((self.config.seeds,), jnp.float32))
        rest = self.mesh.shaped((self.hyper, jax.ShapeDtypeStruct((), jnp.int32), sums), SAME)
        places = self.mesh.result_places((self._axes, SAME))
        return jax.jit(self._chunk, donate_argnums=0, **places).lower(self._state(), *rest)

    def _lower_init(self) -> jax.stages.Lowered:
        return jax.jit(self._init, **self.mesh.result_places(self._axes)).lower(self.mesh.shaped(self.seeds, SAME))

    def _lower_evaluate(self) -> jax.stages.Lowered:
        seeds, places = self.mesh.shaped(self.seeds, SAME), self.mesh.result_places(SAME)
        return jax.jit(self._evaluate, **places).lower(self._state().learner, seeds)

    def _state(self) -> RunState:
        return self.mesh.shaped(self.state_shape, self._axes)

    def _rollout_shape(self) -> Rollout:
        """Shapes of the rollouts of all seeds and all shards."""
        whole, hyper = ShardMesh(self.config.shards), Hyper.of(self.config)

        def collect(state: RunState) -> Rollout:
            return rollout.collect(self.env, self.algorithm, state.learner, state.stream, state.key, hyper)[1]

        return jax.eval_shape(jax.vmap(whole.over_shards(collect, (shard_axes(),), 0)), self.state_shape)

    def init(self) -> RunState:
        return self._compiled["init"](self.mesh.put(self.seeds, SAME))

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        nothing = np.zeros(self.config.seeds, np.float32)
        sums = {name: np.float32((before or {}).get(name, nothing)) for name in self.total_names}
        hyper, count_, sums = self.mesh.put((self.hyper, np.int32(count), sums), SAME)
        state, totals = self._compiled["chunk"](state, hyper, count_, sums)
        return state, self._by_name(*jax.device_get(totals))

    def evaluate(self, state: RunState) -> evaluation.Evaluation:
        """The first full episode of every evaluation environment, [S, E]."""
        return self.played(state).check(self.eval_env.spec.name, self.config.seed)

    def played(self, state: RunState) -> evaluation.Evaluation:
        """`evaluate`, whatever came out of it."""
        return self._played(state.learner)()

    def start_evaluation(self, state: RunState) -> Callable[[], evaluation.Evaluation] | None:
        if self.config.replays:  # a buffer is too large to be copied
            return None
        # A copy on a CPU: there the next chunk would wait for the evaluation before it overwrites what that reads. On
        # an accelerator the two run one after the other anyway.
        played = self._played(copied(state.learner) if jax.default_backend() == "cpu" else state.learner)
        return lambda: played().check(self.eval_env.spec.name, self.config.seed)

    def _played(self, learner: LearnerState) -> Callable[[], evaluation.Evaluation]:
        """Starts greedy episodes; the function waits for their end."""
        packed, info = self._compiled["evaluate"](learner, self.mesh.put(self.seeds, SAME))
        return lambda: self._unpacked(packed, info)

    @staticmethod
    def _unpacked(packed: Array, info: dict[str, Array]) -> evaluation.Evaluation:
        ret, length, finished = np.asarray(packed)
        infos: PyTree = {name: np.asarray(value) for name, value in info.items()}
        return evaluation.Evaluation(ret, length, finished > 0, infos)

    def saved_shape(self) -> RunState:
        return jax.eval_shape(named, self.state_shape)

    def snapshot(self, state: RunState) -> RunState:
        return state._replace(learner=saved_learner(state.learner))

    def restore(self, saved: RunState, note: Callable[[str], None]) -> RunState:
        state = saved._replace(learner=restored_learner(saved.learner, self.state_shape.learner))
        return self.mesh.put(state, self._axes)

    def close(self) -> None:
        """Environments in JAX hold nothing."""
