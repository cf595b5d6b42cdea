"""The compiled functions of a run: `init`, `chunk` (any number of updates) and `evaluate`, for S seeds at once.

The number of updates in a chunk is an argument, not a constant: one compilation serves every chunk, and because it is
the same executable, it does not matter to the numbers where a run is interrupted by logging, a checkpoint or Ctrl-C.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms import make_algorithm
from pqn.algorithms.base import Hyper, LearnerState
from pqn.algorithms.packing import named
from pqn.config import Config
from pqn.device import compiler_options, over_seeds, planned, require_memory, size
from pqn.errors import ConfigError
from pqn.programs import evaluation, rollout
from pqn.programs.base import JaxFactory, RunState, Totals, restored_learner, saved_learner
from pqn.programs.keys import evaluation_key, seed_keys, update_keys
from pqn.programs.totals import HEALTH, blank, combine, report
from pqn.types import Array, PyTree

P = ParamSpec("P")
R = TypeVar("R")


class CompiledProgram:
    """Builds the pure functions of a configuration and compiles them ahead of time.

    Args:
      config: a validated configuration.
      make_env: makes the environment with a given number of copies.
    """

    def __init__(self, config: Config, make_env: JaxFactory):
        if config.simulators.overlap:
            raise ConfigError("simulators.overlap is for environments outside of JAX; leave it false for this one")
        self.config, self.make_env = config, make_env
        self.env = make_env(config.env.num_envs)
        self.eval_env = make_env(config.eval.num_envs)
        self.algorithm = make_algorithm(config, self.env.spec)
        self.hyper = Hyper.of(config)
        self.seeds = jnp.arange(config.seed, config.seed + config.seeds)
        self.state_shape = jax.eval_shape(jax.vmap(self.init_one), self.seeds)
        require_memory(size(self.state_shape))  # of the least a run needs, before it leaves a trace
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.state_shape)
        self._reported = jax.eval_shape(self.update_one, one, self.hyper)[1]
        self.total_names = sorted(self._reported.keys() - HEALTH)
        self.compile_seconds = 0.0

    # --- one seed -----------------------------------------------------------------------------------------------

    def init_one(self, seed: Array) -> RunState:
        key, net_key, env_key = seed_keys(seed)
        return RunState(self.algorithm.init(net_key), rollout.start(self.env, self.algorithm.actor, env_key), key)

    def update_one(self, state: RunState, hyper: Hyper) -> tuple[RunState, dict[str, Array]]:
        """One iteration of Algorithm 1: collect a rollout, learn from it, forget it."""
        key, collect_key, learn_key = update_keys(state.key)
        stream, data, finished = rollout.collect(
            self.env, self.algorithm, state.learner, state.stream, collect_key, hyper
        )
        learner, metrics = self.algorithm.update(state.learner, data, learn_key, hyper)
        return RunState(learner, stream, key), report(learner, metrics, finished)

    def evaluate_one(self, learner: LearnerState, seed: Array) -> evaluation.Evaluation:
        key = evaluation_key(seed, learner.updates)
        limit = evaluation.step_limit(self.config, self.eval_env.spec)
        policy = self.algorithm.policy(learner)
        return evaluation.evaluate(self.eval_env, self.algorithm.actor, policy, key, self.config.eval.epsilon, limit)

    # --- S seeds ------------------------------------------------------------------------------------------------

    def over_seeds(self, function: Callable[P, R]) -> Callable[P, R]:
        """Lifts a function of one seed to all of them."""
        return over_seeds(function, self.config.seeds)

    def update_all(self, state: RunState, hyper: Hyper) -> tuple[RunState, dict[str, Array]]:
        """One update of every seed."""
        return self.over_seeds(lambda one: self.update_one(one, hyper))(state)

    def _chunk(
        self, state: RunState, hyper: Hyper, count: Array, before: dict[str, Array] | None = None
    ) -> tuple[RunState, tuple[Array, Array]]:
        """`count` updates of every seed. Returns the totals as two arrays, of `total_names` [F, S] and of `HEALTH`.

        The sums go on from those of `before`, one update after the other: they do not depend on how a run is split into
        chunks.
        """

        def body(_: Array, c: tuple[RunState, dict[str, Array]]) -> tuple[RunState, dict[str, Array]]:
            state, totals = c
            state, metrics = self.update_all(state, hyper)
            return state, combine(totals, metrics)

        c = (state, blank(self._reported, self.config.seeds) | (before or {}))
        state, totals = jax.lax.fori_loop(0, count, body, c)
        # Few arrays, since each is a transfer; the numbers of updates stay integers, which are exact.
        floats, ints = ([totals[name] for name in names] for names in (self.total_names, HEALTH))
        return state, (jnp.stack(floats), jnp.stack(ints))

    def _evaluate(self, learner: LearnerState, seeds: Array) -> tuple[Array, dict[str, Array]]:
        """Greedy returns, lengths and flags [3, S, E], and the infos, each [S, E]."""
        result = self.over_seeds(self.evaluate_one)(learner, seeds)
        return jnp.stack([result.ret, result.length, result.finished.astype(jnp.float32)]), result.info

    # --- compiled -----------------------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compiles the three programs side by side; with a warm compilation cache this is a matter of loading them."""
        began = time.perf_counter()
        shape, count = self.state_shape, jax.ShapeDtypeStruct((), jnp.int32)
        sums = dict.fromkeys(self.total_names, jax.ShapeDtypeStruct((self.config.seeds,), jnp.float32))
        jobs = {
            "chunk": lambda: jax.jit(self._chunk, donate_argnums=0).lower(shape, self.hyper, count, sums),
            "init": lambda: jax.jit(self.over_seeds(self.init_one)).lower(self.seeds),
        }
        if self.config.eval.count:
            jobs["evaluate"] = lambda: jax.jit(self._evaluate).lower(shape.learner, self.seeds)
        with ThreadPoolExecutor(len(jobs)) as pool:  # XLA compiles outside the interpreter lock
            options = compiler_options(self.env)
            futures = {name: pool.submit(lambda job=job: job().compile(options)) for name, job in jobs.items()}
            self._compiled = {name: future.result() for name, future in futures.items()}
        require_memory(planned(self._compiled.values()))
        self.compile_seconds = time.perf_counter() - began

    def init(self) -> RunState:
        return self._compiled["init"](self.seeds)

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        nothing = np.zeros(self.config.seeds, np.float32)
        sums = {name: np.float32((before or {}).get(name, nothing)) for name in self.total_names}
        state, totals = self._compiled["chunk"](state, self.hyper, np.int32(count), sums)
        floats, ints = jax.device_get(totals)
        return state, dict(zip((*self.total_names, *HEALTH), (*floats, *ints), strict=True))

    def evaluate(self, state: RunState) -> evaluation.Evaluation:
        """The first full episode of every evaluation environment, [S, E]."""
        packed, info = self._compiled["evaluate"](state.learner, self.seeds)
        ret, length, finished = np.asarray(packed)
        infos: PyTree = {name: np.asarray(value) for name, value in info.items()}
        result = evaluation.Evaluation(ret, length, finished > 0, infos)
        return result.check(self.eval_env.spec.name, self.config.seed)

    def saved_shape(self) -> RunState:
        return jax.eval_shape(named, self.state_shape)

    def snapshot(self, state: RunState) -> RunState:
        return state._replace(learner=saved_learner(state.learner))

    def restore(self, saved: RunState, note: Callable[[str], None]) -> RunState:
        return saved._replace(learner=restored_learner(saved.learner, self.state_shape.learner))

    def close(self) -> None:
        """Environments in JAX hold nothing."""
