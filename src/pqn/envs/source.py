"""Where the environments of a run come from: a name, a function or an object, all as one function of their number.

`given` finds out what a user meant by a name or by `env=…`. `of_run` does the same for a run that exists. The files of
a run are data: they may name an environment of the catalog, but the program never imports or calls anything else
because of them. The user has to name it again.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from pqn.config import Config
from pqn.envs import registry
from pqn.envs.user_function import in_one_line
from pqn.errors import EnvError, PqnError

if TYPE_CHECKING:
    from pqn.envs.contract import HostEnv, JaxEnv

Kind = Literal["registered", "function", "python"]


class EnvSource:
    """Makes environments of any number, and knows what they are called.

    Attributes:
      kind: "registered" in `pqn.envs.catalog`, a "function" named module:function, or given in "python".
      name: the name of the first two; "python:module.name" for the third, from which nothing can be made.
      kwargs: the options it is made with.
      made: the class of what was made last, None before.
    """

    def __init__(self, kind: Kind, name: str, kwargs: Mapping[str, object], make: Callable[[int], JaxEnv | HostEnv]):
        self.kind, self.name, self.kwargs, self._make = kind, name, dict(kwargs), make
        self.made: type | None = None

    def __call__(self, num_envs: int) -> JaxEnv | HostEnv:
        try:
            env = self._make(num_envs)
        except PqnError:
            raise
        except Exception as error:  # of the user's code, or of a package that does not understand an option
            raise EnvError(f"{self.name} could not be made: {in_one_line(error)}") from error
        # Of one environment, where `Autoreset` or an adapter wraps it.
        self.made = getattr(env, "made_of", None) or type(getattr(env, "env", env))
        return env


def given(env: object, kwargs: Mapping[str, object]) -> EnvSource:
    """The source of what the user named or handed over.

    Args:
      env: a name; an id of Gymnasium; a `SingleEnv`; an environment or a vector environment of Gymnasium, which is
        copied; or a function that makes one of these, a `JaxEnv` or a `HostEnv`. The function is called with the number
        of environments if it asks for one: by a parameter num_envs, or by a first one without a default.
      kwargs: the options of a name or a function; an object takes none.

    Raises:
      EnvError: it is none of these.
    """
    if "num_envs" in kwargs:
        raise EnvError("env.kwargs has num_envs; the number of environments is the option env.num_envs.")
    if isinstance(env, str):
        env = registry.spelled_out(env)
        kind = "registered" if registry.is_registered(env) else "function"
        return EnvSource(kind, env, kwargs, lambda num_envs: registry.make(env, num_envs, **kwargs))
    name = f"{registry.GIVEN_IN_PYTHON}:{_qualified(env)}"
    if _is_gymnasium(env):
        return EnvSource("python", name, {}, lambda num_envs: _as_env(env, num_envs))
    if hasattr(env, "send") and not isinstance(env, type):
        raise EnvError(
            f"env is one {type(env).__name__}; give a function that makes one of any size, such as "
            f"`lambda num_envs: {type(env).__name__}(num_envs)`, since the environments are split into groups."
        )
    if hasattr(env, "step") and not isinstance(env, type):
        return EnvSource("python", name, {}, lambda num_envs: _as_env(env, num_envs))
    if not callable(env):
        raise EnvError(
            f"env is of type {type(env).__name__}; give the name of an environment, a SingleEnv, an environment of "
            "Gymnasium, or a function that makes one."
        )
    return EnvSource("python", name, kwargs, _maker(env, kwargs))


def of_run(config: Config, env: object, command: str) -> EnvSource:
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
        same = (
            registry.spelled_out(env) == name
            if isinstance(env, str)
            else name.startswith(f"{registry.GIVEN_IN_PYTHON}:")
        )
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


def _as_env(env: object, num_envs: int, make: Callable[[], object] | None = None) -> JaxEnv | HostEnv:
    from pqn.envs.objects import as_env  # loads jax, which commands that only read runs do without

    return as_env(env, num_envs, make=make)


def _is_gymnasium(env: object) -> bool:
    from pqn.envs.objects import is_gymnasium

    return is_gymnasium(env)


def _qualified(env: object) -> str:
    """`module.name` of a class or a function, or of the class of an object."""
    while isinstance(env, functools.partial):
        env = env.func
    env = getattr(env, "unwrapped", env) if not isinstance(env, type) else env  # the environment, not a wrapper
    kind = type(env)
    return f"{getattr(env, '__module__', kind.__module__)}.{getattr(env, '__qualname__', kind.__qualname__)}"


def _maker(build: Callable[..., object], kwargs: Mapping[str, object]) -> Callable[[int], JaxEnv | HostEnv]:
    """A function of the number of environments from one that may or may not ask for it.

    Raises:
      EnvError: the function cannot be called with the run's options.
    """
    takes_number = _takes_number(build, kwargs)

    def make(num_envs: int) -> JaxEnv | HostEnv:
        def call() -> object:
            return build(*((num_envs,) if takes_number else ()), **kwargs)

        return _as_env(call(), num_envs, call)

    return make


def _takes_number(build: Callable[..., object], kwargs: Mapping[str, object]) -> bool:
    """Whether a function is called with the number of environments: where it needs, or names, something to be first."""
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):  # some callables written in C have none
        return True
    first = next((p for p in signature.parameters.values() if p.name not in kwargs), None)
    needed = first is not None and (
        first.kind is first.VAR_POSITIONAL
        or (first.kind in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD) and _asks(first))
    )
    try:
        signature.bind(*((1,) if needed else ()), **kwargs)
    except TypeError as error:
        options = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
        what = f" and env.kwargs ({options})" if options else ""
        raise EnvError(
            f"env is called with the number of environments{what}, and {_qualified(build)} does not take that: {error}"
        ) from error
    return needed


def _asks(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty or parameter.name == "num_envs"
