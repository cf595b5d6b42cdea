"""Where the environments of a run come from: a name, a function or an object, all as one function of their number.

`given` says what a user meant by a name or by `env=…`. `of_run` does the same for a run that exists, whose files are
data: they may name an environment that is registered here, but never make the program import or call anything that the
user has not named anew.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pqn.config import Config
from pqn.envs import registry
from pqn.errors import EnvError, PqnError

Kind = Literal["registered", "function", "python"]


class EnvSource:
    """Makes environments of any number, and knows what they are called.

    Attributes:
      kind: "registered" in `pqn.envs.registry`, a "function" named module:function, or given in "python".
      name: the first two by name; the last as "python:module.name", of which nothing can be made.
      kwargs: the options it is made with.
      made: the class of what was made last, None before.
    """

    def __init__(self, kind: Kind, name: str, kwargs: Mapping[str, Any], make: Callable[[int], Any]):
        self.kind, self.name, self.kwargs, self._make = kind, name, dict(kwargs), make
        self.made: type | None = None

    def __call__(self, num_envs: int) -> Any:
        try:
            env = self._make(num_envs)
        except PqnError:
            raise
        except Exception as error:  # of the user's code, or of a package that was given a strange option
            raise EnvError(f"{self.name} could not be made: {registry.in_one_line(error)}") from error
        self.made = type(getattr(env, "env", env))  # of one environment, where `Autoreset` wraps it
        return env


def given(env: Any, kwargs: Mapping[str, Any]) -> EnvSource:
    """The source of what the user named or handed over.

    Args:
      env: a name, a `SingleEnv`, or a function of `num_envs` that makes a `JaxEnv` or a `HostEnv`.
      kwargs: the options of what is made by a name or a function; an object has none any more.

    Raises:
      EnvError: it is none of these.
    """
    if "num_envs" in kwargs:
        raise EnvError("env.kwargs has num_envs; the number of environments is the option env.num_envs.")
    if isinstance(env, str):
        kind = "registered" if registry.is_registered(env) else "function"
        return EnvSource(kind, env, kwargs, lambda num_envs: registry.make(env, num_envs, **kwargs))
    name = f"{registry.GIVEN_IN_PYTHON}:{_qualified(env)}"
    if hasattr(env, "send") and not isinstance(env, type):
        raise EnvError(
            f"env is one {type(env).__name__}; give a function that makes one of any size, such as "
            f"`lambda num_envs: {type(env).__name__}(num_envs)`, since the pool is split into groups."
        )
    if hasattr(env, "step") and not isinstance(env, type):
        return EnvSource("python", name, {}, lambda num_envs: registry.as_env(env, num_envs))
    if not callable(env):
        raise EnvError(
            f"env is of type {type(env).__name__}; give the name of an environment, a SingleEnv, or a function of the "
            "number of environments."
        )
    build: Callable[..., Any] = env
    _check_call(build, kwargs)
    return EnvSource("python", name, kwargs, lambda num_envs: registry.as_env(build(num_envs, **kwargs), num_envs))


def of_run(config: Config, env: Any, command: str) -> EnvSource:
    """The source for a run that was trained before.

    Args:
      config: the run's configuration, from its files.
      env: what the user gave, or None.
      command: how to repeat the command, without its `--env`.

    Raises:
      EnvError: the run's environment must be given again, or what was given is no environment.
    """
    name, kwargs = config.env.name, config.env.kwargs
    if env is not None:
        same = env == name if isinstance(env, str) else name.startswith(f"{registry.GIVEN_IN_PYTHON}:")
        return given(env, kwargs if same else {})
    if name.startswith(f"{registry.GIVEN_IN_PYTHON}:"):
        raise EnvError(
            f"this run was trained in an environment given in Python ({name.partition(':')[2]}); give it again: env=… "
            f"in Python, or `{command} --env module:function` with a function that makes it"
        )
    if not registry.is_harmless(name, kwargs):
        raise EnvError(
            f"this run was trained in {name}, which is code that pqn runs only if you name it; if you trust it, repeat "
            f"`{command} --env {shlex.quote(name)}` (in Python: env={name!r})"
        )
    return given(name, kwargs)


def _qualified(env: Any) -> str:
    """`module.name` of a class or a function, or of the class of an object."""
    while isinstance(env, functools.partial):
        env = env.func
    named = env if hasattr(env, "__qualname__") else type(env)
    return f"{named.__module__}.{named.__qualname__}"


def _check_call(build: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
    """Raises `EnvError` if a function cannot be called with the number of environments and the run's options."""
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):  # some callables written in C have none
        return
    try:
        signature.bind(1, **kwargs)
    except TypeError as error:
        options = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
        what = f" and env.kwargs ({options})" if options else ""
        raise EnvError(
            f"env is called with the number of environments{what}, and {_qualified(build)} does not take that: {error}"
        ) from error
