"""A checkpoint of a run as others use it: what it says about itself, found to agree, and the agents that it holds.

This module imports jax only where the agents are made: what lists and plots runs imports it, too.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pqn.config import Config
from pqn.envs import registry
from pqn.errors import CheckpointError, DamagedCheckpoint, EnvError, PqnError, RunError
from pqn.runs import metadata
from pqn.runs.configs import read_config
from pqn.runs.identity import EnvIdentity, spec_from_dict
from pqn.runs.pending import Pending

if TYPE_CHECKING:
    from pqn.algorithms.base import Actor
    from pqn.runs.leaves import Contents
    from pqn.types import EnvSpec, Policy


@dataclasses.dataclass(frozen=True)
class Trained:
    """A checkpoint of a run, read and found to agree with itself."""

    contents: Contents
    config: Config
    spec: EnvSpec
    env: EnvIdentity | None
    run: str | None
    """Id of the run that wrote it."""
    update: int
    step: int
    """Environment steps, per seed."""
    seconds: dict[str, float]
    """Spent by then: "wall" and "train"."""
    eval_returns: np.ndarray | None
    """[S, E] of the last evaluation."""
    pending: Pending
    """What had been counted since the last row of the metrics."""
    rows: dict[str, int] | None
    """How many rows of each kind the metrics had; None: not recorded."""

    @property
    def path(self) -> Path:
        return self.contents.path

    @property
    def own_returns(self) -> np.ndarray | None:
        """`eval_returns` if they are of these weights: a checkpoint may be newer than the last evaluation."""
        return self.eval_returns if self.contents.metadata.get("eval_update") == self.update else None

    def actor(self) -> tuple[Actor, Policy]:
        """The actor, and the policies of all seeds, [S, ...]; the optimiser's state stays on disk.

        Raises:
          CheckpointError: the configuration describes another network than the arrays are of.
        """
        import jax

        from pqn.algorithms import make_algorithm
        from pqn.runs import checkpoint

        try:
            actor = make_algorithm(self.config, self.spec).actor
            policies = jax.eval_shape(jax.vmap(actor.init), jax.random.split(jax.random.key(0), self.config.seeds))
        except PqnError:
            raise
        except Exception as error:  # whatever flax makes of a configuration that was tampered with
            raise CheckpointError(f"the checkpoint {self.path} describes a network that cannot be built") from error
        return actor, checkpoint.place(self.contents, policies, "learner/")


def trained_of(contents: Contents) -> Trained:
    """What a checkpoint's metadata say, if they agree with each other and with its arrays.

    Raises:
      DamagedCheckpoint: they do not.
    """
    meta = contents.metadata
    try:
        config = read_config(meta.get("config"), "its configuration")
        env = EnvIdentity.from_dict(meta["env"]) if "env" in meta else None
        if env and env.spec != meta.get("spec"):
            raise ValueError("it describes its environment in two ways")
        if env and env.name != config.env.name and _is_registered(config.env.name):
            raise ValueError(f"its environment is {env.name} and {config.env.name}")
        trained = Trained(
            contents,
            config,
            spec_from_dict(meta.get("spec")),
            env,
            metadata.identifier(meta.get("run")),
            *metadata.counters(contents, config),
            metadata.seconds(meta.get("seconds")),
            metadata.returns(meta.get("eval_returns"), config.seeds),
            Pending.from_dict(meta.get("pending"), config.seeds),
            metadata.rows(meta.get("rows")),
        )
    except (RunError, ValueError) as error:
        raise DamagedCheckpoint(f"the checkpoint {contents.path} is damaged: {error}") from error
    return trained


def _is_registered(name: str) -> bool:
    try:
        return registry.is_registered(name)
    except EnvError:  # given in Python, or nothing
        return False
