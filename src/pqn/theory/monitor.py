"""The stability meter for a PQN run: the network as it is, on the data it would learn from next."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import jax
import jax.numpy as jnp

from pqn.algorithms.acting import QActor
from pqn.device import enable_compilation_cache
from pqn.errors import ConfigError
from pqn.options import OWN_NETWORK
from pqn.programs import rollout
from pqn.programs.base import Program, RunState
from pqn.programs.compiled import CompiledProgram
from pqn.programs.make import make_program
from pqn.programs.spread import SpreadProgram
from pqn.runs import checkpoint
from pqn.runs.opened import open_run
from pqn.theory.jacobian import Transitions
from pqn.theory.regulariser import Regulariser, final_layer_mask
from pqn.theory.stability import make_meter, stability
from pqn.theory.stability_report import Setting, StabilityReport
from pqn.types import Array, PyTree


class Monitor:
    """Measures the seeds of one program, any number of times; compiled on first use.

    The criterion is that of one-step TD (λ = 0) with the greedy bootstrap, on the rollout the run would collect next.
    Where an episode was truncated, the value of its end is part of the reward, a constant.

    Args:
      program: the run's compiled functions.
      transitions: use as many environments as give about this many transitions.
      iterations: of Lanczos; more sharpen the eigenvalue.
    """

    def __init__(self, program: Program, transitions: int = 1024, iterations: int = 40):
        self._whole = program
        program = program.parts[0] if isinstance(program, SpreadProgram) else program  # all parts have one network
        if not isinstance(program, CompiledProgram):
            raise ConfigError("stability is measured on environments written in JAX; this one is a simulator")
        if program.env.spec.num_agents > 1:
            raise ConfigError("stability is defined for one agent; this environment has several")
        if transitions < 1 or iterations < 2:
            raise ConfigError("stability needs at least 1 transition and 2 iterations")
        actor = program.algorithm.actor
        if not isinstance(actor, QActor):
            raise ConfigError("stability is measured on Q-values; this algorithm has none")
        self.program, self.network = program, actor.network
        self.envs = max(1, min(program.env.num_envs, transitions // program.config.learner.rollout_steps))
        params = program.state_shape.learner.params
        if "head" not in params:
            raise ConfigError("stability is measured on networks whose output layer is called head; this one has none")
        # A network without hidden layers is all final layer: there is nothing to split.
        self.final = final_layer_mask(params, ("head",)) if set(params) != {"head"} else None
        self._meter = make_meter(self.q_values, final=self.final, iterations=iterations)
        self._next_batch = jax.jit(self.next_batch)

    def measure(self, state: PyTree, index: int = 0) -> StabilityReport:
        """The report of one seed, counted from 0; `state` is not changed."""
        if isinstance(self._whole, SpreadProgram):
            _, state, index = self._whole.part_of(state, index)
        one = jax.device_put(jax.tree.map(lambda x: x[index], state), jax.local_devices()[0])
        if self.program.config.shards > 1:
            one = one._replace(stream=jax.tree.map(lambda x: x[0], one.stream))  # the data of the first shard
        return stability(
            self.q_values,
            one.learner.params,
            self._next_batch(one),
            final=self.final,
            meter=self._meter,
            setting=self.setting(one),
        )

    def setting(self, state: RunState) -> Setting:
        """What this run's network and learner already have against instability."""
        network, learner = self.program.config.network, self.program.config.learner
        hidden = len(network.hidden) > 0 or network.torso != "mlp"  # without a hidden layer there is nothing to norm
        epsilon = float(self.program.algorithm.epsilon(state.learner, self.program.hyper))
        norm = (network.norm if hidden else "none") if network.module == OWN_NETWORK else None  # of another: unknown
        return Setting(norm, Regulariser(learner.l2_final, learner.l2_inner), epsilon)

    def q_values(self, params: PyTree, given: tuple[PyTree, PyTree, PyTree]) -> Array:
        """Q [T + 1, B, A] from (batch statistics, carry, inputs), recurrent or not."""
        stats, carry, inputs = given
        out: PyTree = self.network.apply({"params": params, "batch_stats": stats}, carry, inputs)
        return out[1][:, :, 0]

    def next_batch(self, state: RunState) -> Transitions:
        """The next rollout of a run's state, of its first environments, as time-major transitions."""
        program, envs = self.program, self.envs
        _, key, _ = jax.random.split(state.key, 3)
        given = (program.env, program.algorithm, state.learner, state.stream, key, program.hyper)
        after, data, _ = rollout.collect(*given)

        def extend(x: Array, last: Array) -> Array:
            return jnp.concatenate([x, last[None]])[:, :envs]

        def flat(x: Array) -> Array:
            return x[:, :envs].reshape(-1)

        inputs, avail = jax.tree.map(extend, (data.inputs, data.avail), (after.inputs, after.avail))
        return Transitions(
            obs=(state.learner.stats, jax.tree.map(lambda x: x[:envs], state.stream.carry), inputs),
            action=flat(data.action[..., 0]),
            reward=flat(data.reward),
            discount=flat(data.discount),
            next_avail=None if avail is None else avail[1:, :, 0].reshape(-1, avail.shape[-1]),
        )


def measure_run(
    run: str | os.PathLike[str],
    index: int = 0,
    transitions: int = 1024,
    iterations: int = 40,
    *,
    env: object = None,
    network: object = None,
    warn: Callable[[str], None] | None = None,
) -> tuple[StabilityReport, int]:
    """Measures a run's newest intact checkpoint; returns the report and the environment steps trained.

    Args:
      run: a run directory.
      index: which seed, counted from 0.
      transitions: see `Monitor`.
      iterations: see `Monitor`.
      env: the environment, where the run was trained in one of your own; see `pqn.train`.
      network: the network, where the run was trained with one of your own. Its output layer must be called `head`.
      warn: told what the user should know, in a sentence; by default a Python warning.

    Raises:
      RunError: `run` is not a run.
      CheckpointError: it has no parameters yet, or they are damaged.
      EnvError: its environment must be given again, or what was given is another.
    """
    opened = open_run(run, warn)
    config = opened.given_network(network, "stability")
    if not 0 <= index < config.seeds:
        raise ConfigError(f"{run} has {config.seeds} seeds, numbered from 0; there is no number {index}")
    source, trained = opened.source(env, "stability"), opened.newest()
    enable_compilation_cache()
    program = make_program(config, source)
    with contextlib.closing(program):
        opened.compare(trained, source, program.algorithm.spec)
        monitor = Monitor(program, transitions, iterations)
        saved = checkpoint.place(trained.contents, program.saved_shape())
        state = program.restore(saved, lambda text: None)
        return monitor.measure(state, index), trained.step
