"""Learning algorithms. Each is one file behind the protocol of `base`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pqn.config import Config
from pqn.types import EnvSpec

if TYPE_CHECKING:
    from pqn.algorithms.base import Algorithm


def make_algorithm(config: Config, spec: EnvSpec) -> Algorithm:
    """The algorithm that `config.algorithm` names. No other place looks at the name.

    Raises:
      ConfigError: it cannot learn in the environment, such as by a network that cannot take its observations.
    """
    module = importlib.import_module(f"{__name__}.{config.algorithm.replace('-', '_')}")
    algorithm: Algorithm = module.ALGORITHM(config, spec)
    algorithm.check()
    return algorithm
