"""Starting from the weights of another run: parameters and running statistics, with a fresh optimiser.

The weights of a run with one seed, and those of an agent, go to every seed. Those of a run with several seeds go to as
many seeds, in order.
"""

from __future__ import annotations

import os
from typing import NamedTuple, cast

import jax
import numpy as np

from pqn.agent import Agent
from pqn.algorithms.base import Algorithm
from pqn.config import Config
from pqn.errors import CheckpointError, ConfigError
from pqn.fields import brief
from pqn.programs.base import Program, RunState
from pqn.programs.spread import SpreadProgram
from pqn.runs.opened import open_run
from pqn.runs.state_tree import name_of
from pqn.types import Policy, PyTree

InitFrom = str | os.PathLike[str] | Agent
PARTS = ("params", "stats")  # of a `Policy`, and of a learner's state under the same names


class Weights(NamedTuple):
    """Weights to start from."""

    source: str
    """How a sentence calls them."""
    arrays: dict[str, np.ndarray]
    """[S', ...] by name, such as "params/torso/Dense_0/kernel"."""
    about: dict[str, object]
    """What the run records about them."""


def read_weights(given: InitFrom) -> Weights:
    """The weights of a run's newest intact checkpoint, or of an agent.

    Raises:
      PqnError: it is no run, has no intact checkpoint, or is something else.
    """
    if isinstance(given, Agent):
        leaves = jax.tree_util.tree_leaves_with_path(given.policy)
        arrays = {name_of(path): np.asarray(leaf)[None] for path, leaf in leaves}
        return Weights("the agent", arrays, given.origin | {"step": given.step})
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"init_from is {brief(given)}; give a run directory or an agent (pqn.load)")
    opened = open_run(given)
    trained = opened.newest()
    prefixes = tuple(f"learner/{part}/" for part in PARTS)
    arrays = {
        name.removeprefix("learner/"): array
        for name, array in trained.contents.arrays.items()
        if name.startswith(prefixes)
    }
    origin = {"path": str(opened.path), "run": opened.id, "checkpoint": trained.path.name, "step": trained.step}
    return Weights(str(opened.path), arrays, origin)


def fitted(weights: Weights, algorithm: Algorithm, config: Config) -> Policy:
    """The weights as the policies of all seeds [S, ...], if they fit.

    Raises:
      CheckpointError: the first array, by its name, that does not.
      ConfigError: there are several seeds on both sides, and not as many.
    """
    seeds = {len(array) for array in weights.arrays.values()}
    if seeds - {1, config.seeds}:
        raise ConfigError(
            f"init_from: {weights.source} has {max(seeds)} seeds and this run {config.seeds}; they must be as many, or "
            "give one agent: init_from=pqn.load(run, seed=…)"
        )
    like = jax.eval_shape(lambda key: algorithm.policy(algorithm.init(key)), jax.random.key(0))
    entries, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = {name_of(path): leaf for path, leaf in entries}
    for name in [*wanted, *sorted(weights.arrays.keys() - wanted.keys())]:
        have = weights.arrays[name].shape[1:] if name in weights.arrays else None
        need = wanted[name].shape if name in wanted else None
        if have != need or (need is not None and weights.arrays[name].dtype != wanted[name].dtype):
            raise CheckpointError(
                f"init_from: the weights of {weights.source} do not fit this network: {_shown(name)} is {_size(have)} "
                f"there and {_size(need)} here"
            )
    values = [
        np.broadcast_to(weights.arrays[name], (config.seeds, *leaf.shape)).copy() for name, leaf in wanted.items()
    ]
    return jax.tree.unflatten(structure, values)


def start_from(program: Program, state: RunState, policy: Policy) -> RunState:
    """A fresh state with other weights [S, ...], which lie where the fresh ones did."""
    if isinstance(program, SpreadProgram):  # a state for each group of seeds
        groups: PyTree = zip(program.parts, state, program.groups, strict=True)
        return cast(RunState, tuple(start_from(part, own, group.of(policy)) for part, own, group in groups))
    fresh = program.algorithm.policy(state.learner)
    placed = jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), policy, fresh)
    return state._replace(learner=program.algorithm.with_policy(state.learner, placed))


def _shown(name: str) -> str:
    return name.partition("/")[2].replace("/", ".") or name


def _size(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else f"of shape {shape}"
