"""Environments: the contract, the adapters, the probes, and a checker.

Everything here is loaded on first use, so that listing the environments (`pqn envs`) never imports jax.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pqn.errors import EnvError

if TYPE_CHECKING:
    from pqn.envs.autoreset import Autoreset
    from pqn.envs.check import CheckReport, check_env
    from pqn.envs.contract import HostEnv, JaxEnv, Outcome, SingleEnv
    from pqn.envs.objects import as_env, as_jax_env
    from pqn.envs.registry import EnvInfo, available, make


_HOME = {
    "Autoreset": "autoreset",
    "CheckReport": "check",
    "EnvInfo": "registry",
    "HostEnv": "contract",
    "JaxEnv": "contract",
    "Outcome": "contract",
    "SingleEnv": "contract",
    "as_env": "objects",
    "as_jax_env": "objects",
    "available": "registry",
    "check_env": "check",
    "make": "registry",
}

__all__ = [
    "Autoreset",
    "CheckReport",
    "EnvError",
    "EnvInfo",
    "HostEnv",
    "JaxEnv",
    "Outcome",
    "SingleEnv",
    "as_env",
    "as_jax_env",
    "available",
    "check_env",
    "make",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
