"""From an object to an environment: `JaxEnv` and `HostEnv` are accepted as they are, a `SingleEnv` is wrapped."""

from __future__ import annotations

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


def as_env(env: object, num_envs: int, source: str = "the environment") -> JaxEnv | HostEnv:
    """`as_jax_env`, which also accepts a `HostEnv` of the right size."""
    if not hasattr(env, "send"):
        return as_jax_env(env, num_envs, source)
    _require(env, source, ("spec", "num_envs"), ("reset", "send", "recv", "close"), "HostEnv")
    host = cast(HostEnv, env)
    _require_size(host, num_envs, source)
    return host


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
