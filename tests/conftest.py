"""Shared by all tests: a compilation cache, tiny configurations, and a learner small enough to be exact."""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings

from pqn.config import Config
from pqn.device import enable_compilation_cache
from pqn.envs import registry
from pqn.envs.contract import Outcome
from pqn.programs.base import RunState
from pqn.programs.compiled import CompiledProgram
from pqn.types import EnvSpec, Inputs

settings.register_profile("pqn", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("pqn")
enable_compilation_cache()

TINY = {
    "env.num_envs": 8,
    "network.hidden": (16,),
    "learner.rollout_steps": 8,
    "learner.epochs": 2,
    "learner.minibatches": 4,
    "eval.num_envs": 4,
    "eval.count": 2,
    "log.rows": 4,
    "save.checkpoints": 5,
}
"""Options that make any preset small enough to compile and run in a test."""


def tiny(options: dict[str, Any] | None = None, **top: Any) -> Config:
    """CartPole, 10 updates of 64 steps, in well under a second."""
    return Config().replace(TINY | {"total_steps": 640} | (options or {}), **top).validate()


def build(config: Config) -> CompiledProgram:
    return CompiledProgram(config, lambda n: registry.make(config.env.name, n, **config.env.kwargs))


def run_updates(program: CompiledProgram, updates: int, state: RunState | None = None) -> RunState:
    """`updates` updates without a host loop."""
    state = jax.jit(jax.vmap(program.init_one))(program.seeds) if state is None else state
    return jax.jit(program._chunk)(state, program.hyper, jnp.int32(updates))[0]


def tabular(env: str, updates: int, options: dict[str, Any] | None = None) -> tuple[CompiledProgram, np.ndarray]:
    """Trains a linear network on one-hot observations (an exact table) and returns its Q for every observation."""
    base = {
        "env.name": f"probe:{env}",
        "env.num_envs": 16,
        "network.hidden": (),
        "network.norm": "none",
        "learner.rollout_steps": 8,
        "learner.epochs": 2,
        "learner.minibatches": 4,
        "learner.lr": 0.03,
        "learner.gamma": 0.9,
        "learner.lam": 0.0,
        "learner.eps_finish": 1.0,
        "total_steps": updates * 16 * 8,
    }
    program = build(Config().replace(base | (options or {})).validate())
    state = run_updates(program, program.config.updates)
    learner = jax.tree.map(lambda x: x[0], state.learner)
    obs = jnp.asarray(program.env.env.observations)[:, None]  # [S, M = 1, ...]
    _, q = program.algorithm.actor.scores(learner, (), Inputs(obs, jnp.zeros(obs.shape[:2], bool)))
    return program, np.asarray(q[:, 0])


class Clock:
    """Two agents that see the time, a world that shows ten times it; cut after three steps."""

    spec = EnvSpec(
        "clock", (1,), np.dtype("float32"), 2, num_agents=2, max_episode_steps=3, truncates=True, world_size=1
    )

    def reset(self, key):
        return jnp.int32(0), jnp.zeros((2, 1))

    def step(self, key, state, action):
        state = state + 1
        return Outcome(state, jnp.full((2, 1), state.astype(jnp.float32)), jnp.float32(1), jnp.bool_(False))

    def world_state(self, state):
        return 10.0 * state[None].astype(jnp.float32)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A complete tiny run with two seeds, for the tests that only read one."""
    from pqn.progress import Progress
    from pqn.training import train

    out = tmp_path_factory.mktemp("runs") / "finished"
    return train(tiny(seeds=2), out=out, progress=Progress(quiet=True))


@pytest.fixture
def session(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, finished_run: Any, request: pytest.FixtureRequest) -> Any:
    """Executes code of the documentation in an empty directory; trainings are small, whoever starts them."""
    from documented import Session, first_and_last, small
    from hub import Client

    from pqn import training
    from pqn.cli import sweep

    train, combinations = training.train, sweep.combinations
    monkeypatch.setattr(training, "train", lambda config, **rest: train(small(config), **rest))
    # Of a sweep, whose combinations have all been found valid, the first and the last are trained.
    monkeypatch.setattr(sweep, "combinations", lambda *given: first_and_last(combinations(*given)))
    monkeypatch.setitem(sys.modules, "huggingface_hub", Client())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    # Nothing here runs for long, so compiling is the cost: it takes two thirds of the time without optimisation.
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    request.addfinalizer(lambda: jax.config.update("jax_disable_most_optimizations", before))
    return Session(finished_run.run)
