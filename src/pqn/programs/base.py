"""What a program is to the host loop: `init`, `chunk` and `evaluate`, for all seeds at once.

`compiled` fulfils it for environments written in JAX, `simulators` for those outside of it; `make_program` chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import numpy as np

from pqn.algorithms.base import Algorithm, LearnerState
from pqn.algorithms.packing import named, packed_again
from pqn.config import Config
from pqn.envs.contract import HostEnv, JaxEnv
from pqn.programs.evaluation import Evaluation
from pqn.programs.memory import MemoryPlan
from pqn.types import Array, PyTree

EnvFactory = Callable[[int], JaxEnv | HostEnv]  # makes that many environments
JaxFactory = Callable[[int], JaxEnv]
HostFactory = Callable[[int], HostEnv]
Totals = dict[str, np.ndarray]  # name -> [S], see `totals`


class RunState(NamedTuple):
    """Everything a run needs to go on, with a leading axis of S seeds."""

    learner: LearnerState
    stream: PyTree  # where collection stands: `rollout.Stream`, or the simulators' own
    key: Array


class Block(NamedTuple):
    """What one device holds of a state that several processes hold together."""

    first_seed: int  # where it begins on the axis of seeds
    first_shard: int  # and on that of shards, where there is one
    state: PyTree  # arrays on the host, under the names of the whole state


class Blocks(NamedTuple):
    """This process's share of a state; together, the shares of all processes are the whole."""

    blocks: tuple[Block, ...]
    whole: PyTree  # shapes of the whole state


class Program(Protocol):
    """An environment and an algorithm, for all seeds of a run."""

    config: Config
    algorithm: Algorithm
    planned_updates: int
    """Of the whole run, as it was planned first: how much is unrolled depends on it. A run that trains on beyond its
    plan goes on with the program that it has, since another might round otherwise."""
    compile_seconds: float
    """From the first trace to the last compiled program."""
    trace_seconds: float
    """Of these, until the compiler had been given all of them."""
    memory: MemoryPlan | None
    """Known once the program is compiled."""

    def compile(self) -> None:
        """Compiles all that a run will need, and starts simulators."""
        ...

    def init(self) -> RunState:
        """Fresh state of all seeds."""
        ...

    def chunk(self, state: RunState, count: int, before: Totals | None = None) -> tuple[RunState, Totals]:
        """`count` updates, and the totals per seed of the updates of `before` and of these (see `totals.combine`).

        Raises:
          EnvFailed: an environment failed; it carries what had been done by then.
        """
        ...

    def evaluate(self, state: RunState) -> Evaluation | None:
        """Greedy episodes [S, E]; None where there is nothing to report yet.

        Raises:
          EnvFailed: an environment failed, or a return is NaN or infinite.
        """
        ...

    def start_evaluation(self, state: RunState) -> Callable[[], Evaluation] | None:
        """Begins to `evaluate`, and returns a function that waits for the result and raises what `evaluate` raises.

        Meanwhile the state may be given to `chunk`. None where a program can evaluate between chunks only.
        """
        ...

    def saved_shape(self) -> PyTree:
        """Shapes of what `snapshot` returns. Simulators that can be saved are started to know it."""
        ...

    def snapshot(self, state: RunState) -> PyTree:
        """What a checkpoint holds: arrays by readable name, independent of how the program packs them.

        `Blocks` where other processes hold the rest.
        """
        ...

    def restore(self, saved: PyTree, note: Callable[[str], None]) -> RunState:
        """The inverse of `snapshot`; `note` is told what could not be restored."""
        ...

    def close(self) -> None:
        """Frees what the environments hold."""
        ...


def saved_learner(learner: LearnerState) -> LearnerState:
    """A learner's state as a checkpoint holds it. The host takes it apart: on a device each part would be a program."""
    return named(learner._replace(opt=jax.device_get(learner.opt)))


def restored_learner(saved: LearnerState, like: LearnerState) -> LearnerState:
    """The inverse of `saved_learner`; `like` has the shapes of the result."""
    return packed_again(saved, like)
