"""From an object to an environment: `JaxEnv` and `HostEnv` are accepted as they are, the others are wrapped.

The others are a `SingleEnv`, and environments and vector environments of Gymnasium.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import cast

from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import HostEnv, JaxEnv, SingleEnv
from pqn.errors import EnvError
from pqn.types import EnvSpec


def as_jax_env(env: object, num_envs: int, source: str = "the environment") -> JaxEnv:
    """Accepts a `JaxEnv` of the right size, or wraps a `SingleEnv` in `Autoreset`.

    Raises:
      EnvError: `env` is neither, with what it lacks, or has another number of environments.
    """
    _require(env, source, ("spec",), ("reset", "step"), "JaxEnv and SingleEnv")
    if not hasattr(env, "num_envs"):
        return Autoreset(cast(SingleEnv, env), num_envs)
    vectorised = cast(JaxEnv, env)
    _require_size(vectorised, num_envs, source)
    return vectorised


def as_env(
    env: object, num_envs: int, source: str = "the environment", make: Callable[[], object] | None = None
) -> JaxEnv | HostEnv:
    """`as_jax_env`, which also accepts a `HostEnv` of the right size, and what Gymnasium calls an environment.

    Args:
      env: what was given, or made.
      num_envs: how many environments are needed.
      source: how a sentence calls it.
      make: the function that made it, and makes more of it; without one, it is copied.
    """
    if is_gymnasium(env):
        from pqn.envs.adapters.gymnasium_objects import copies, made_by

        return copies(env, num_envs) if make is None else made_by(make, env, num_envs)
    if not hasattr(env, "send"):
        return as_jax_env(env, num_envs, source)
    _require(env, source, ("spec", "num_envs"), ("reset", "send", "recv", "close"), "HostEnv")
    host = cast(HostEnv, env)
    _require_size(host, num_envs, source)
    return host


def is_gymnasium(thing: object) -> bool:
    """Whether it is an environment or a vector environment of Gymnasium, which nobody can have without loading it."""
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(thing, (gymnasium.Env, gymnasium.vector.VectorEnv))


def _require(env: object, source: str, attributes: tuple[str, ...], methods: tuple[str, ...], protocol: str) -> None:
    missing = [name for name in attributes if not hasattr(env, name)]
    missing += [name for name in methods if not callable(getattr(env, name, None))]
    if missing:
        parts = " and ".join(f"`{part}`" for part in missing)
        raise EnvError(f"{source} is a {type(env).__name__} without {parts}; see {protocol} in pqn.envs.")
    spec = getattr(env, "spec", None)
    if not isinstance(spec, EnvSpec):
        raise EnvError(f"{source} has a `spec` of type {type(spec).__name__}; it must be a pqn.types.EnvSpec.")


def _require_size(env: JaxEnv | HostEnv, num_envs: int, source: str) -> None:
    if env.num_envs != num_envs:
        raise EnvError(f"{source} has {env.num_envs} environments where {num_envs} were asked for.")
