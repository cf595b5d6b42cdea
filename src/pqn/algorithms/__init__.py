"""Learning algorithms. Each is one file behind the protocol of `base`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pqn.config import ALGORITHMS, Config
from pqn.types import EnvSpec

if TYPE_CHECKING:
    from pqn.algorithms.base import Algorithm


def make_algorithm(config: Config, spec: EnvSpec) -> Algorithm:
    """The algorithm that `config.algorithm` names. No other place looks at the name.

    Raises:
      ConfigError: its network cannot take the environment's observations.
    """
    module, _, name = ALGORITHMS[config.algorithm].partition(":")
    algorithm: Algorithm = getattr(importlib.import_module(module), name)(config, spec)
    algorithm.actor.check()
    return algorithm
