"""Parallelised Q-Networks: deep Q-learning with no replay buffer and no target network, on JAX.

>>> import pqn
>>> config = pqn.preset("cartpole", seeds=10)
>>> config.env.name
'CartPole-v1'

`pqn.train(config)` trains it, `pqn.load(run)` loads the agent, `pqn.evaluate(run)` plays it, `pqn.resume(run)`
continues, and `pqn.runs("runs/")` lists what there is.
Everything is loaded on first use, so that importing `pqn` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pqn import callbacks as callbacks
    from pqn import runs as runs
    from pqn.agent import Agent as Agent
    from pqn.config import Config as Config
    from pqn.envs.check import check_env as check_env
    from pqn.errors import PqnError as PqnError
    from pqn.play import evaluate as evaluate
    from pqn.play import load as load
    from pqn.presets import preset as preset
    from pqn.training import Result as Result
    from pqn.training import resume as resume
    from pqn.training import train as train
    from pqn.types import EnvSpec as EnvSpec

__version__ = "0.1.0"

_HOMES = {
    "Agent": "pqn.agent",
    "Config": "pqn.config",
    "EnvSpec": "pqn.types",
    "PqnError": "pqn.errors",
    "Result": "pqn.training",
    "check_env": "pqn.envs.check",
    "evaluate": "pqn.play",
    "load": "pqn.play",
    "preset": "pqn.presets",
    "resume": "pqn.training",
    "train": "pqn.training",
}
_MODULES = ("callbacks", "runs")  # the second is also a function
__all__ = [
    "Agent",
    "Config",
    "EnvSpec",
    "PqnError",
    "Result",
    "callbacks",
    "check_env",
    "evaluate",
    "load",
    "preset",
    "resume",
    "runs",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"pqn.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pqn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
