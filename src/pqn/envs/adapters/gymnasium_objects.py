"""Gymnasium environments that a user hands over: an environment, a vector environment, or a function that makes one.

A run needs them in several numbers, so one that is handed over is copied, or made again. What was given is not stepped.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper

from pqn.envs.adapters.gymnasium import GymnasiumEnv, autoreset_mode_of, spec_of, start_method
from pqn.envs.user_function import in_one_line
from pqn.errors import EnvError
from pqn.types import EnvSpec

Make = Callable[[], gymnasium.Env]


class GivenEnv(GymnasiumEnv):
    """Environments of the user's; `made_of` is the class of one."""

    def __init__(
        self,
        spec: EnvSpec,
        num_envs: int,
        start: Callable[[], VectorEnv],
        made_of: type,
        concurrent: bool = False,
        make_one: Make | None = None,
    ):
        super().__init__(spec, num_envs, start, concurrent, make_one=make_one)
        self.made_of = made_of


def copies(env: object, num_envs: int) -> GivenEnv:
    """`num_envs` environments like the one that was given.

    Raises:
      EnvError: it can neither be copied nor made again, or has spaces that Q-learning cannot use.
    """
    if isinstance(env, VectorEnv):
        return _vectorised_again(env, num_envs)
    assert isinstance(env, gymnasium.Env)
    return _many(_copier(env), env, num_envs)


def made_by(function: Callable[[], object], env: object, num_envs: int) -> GivenEnv:
    """`num_envs` environments of a function that made `env` when it was called first.

    Raises:
      EnvError: it made a vector environment of another size, or spaces that Q-learning cannot use.
    """
    if isinstance(env, VectorEnv):
        if env.num_envs != num_envs:
            raise EnvError(
                f"the function made a vector environment of {env.num_envs} where {num_envs} were asked for; take their "
                "number as num_envs"
            )
        return GivenEnv(spec_of(_name(env), env), num_envs, lambda: env, type(env), isinstance(env, AsyncVectorEnv))
    one = cast(gymnasium.Env, env)
    given = _many(cast(Make, function), one, num_envs)
    one.close()
    return given


def _many(make: Make, like: gymnasium.Env, num_envs: int) -> GivenEnv:
    start = partial(SyncVectorEnv, [make] * num_envs, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    return GivenEnv(spec_of(_name(like), like), num_envs, start, type(like.unwrapped), make_one=make)


def _copier(env: gymnasium.Env) -> Make:
    """A function that copies an environment with all that was done to it; one that cannot be copied is made again."""
    try:
        copy.deepcopy(env).close()
        return lambda: copy.deepcopy(env)
    except Exception as error:  # such as a simulator in C
        why = in_one_line(error)
    try:
        spec = env.spec
        if spec is None:
            raise ValueError("it was not made by gymnasium.make")
        gymnasium.make(spec).close()
    except Exception as error:  # a wrapper that cannot be made again, for one
        raise EnvError(
            f"{_name(env)} can neither be copied ({why}) nor made again ({in_one_line(error)}); give a function that "
            "makes one, such as env=lambda: gymnasium.make(…)"
        ) from error
    warnings.warn(
        f"{_name(env)} cannot be copied, so gymnasium.make makes more of it; what was changed in it since is not there",
        stacklevel=2,
    )
    return lambda: gymnasium.make(spec)


def _vectorised_again(envs: VectorEnv, num_envs: int) -> GivenEnv:
    name = _name(envs)
    again = (
        f"give a function of the number of environments that makes it, such as env=lambda num_envs: "
        f"{type(envs).__name__}(…)"
    )
    if isinstance(envs, VectorWrapper):
        raise EnvError(f"{name} is wrapped in {type(envs).__name__} and cannot be made in other sizes; {again}")
    form = partial(GivenEnv, spec_of(name, envs), num_envs)
    if type(envs) is SyncVectorEnv:
        mode, makers = autoreset_mode_of(envs), _in_turn([_copier(env) for env in envs.envs], num_envs)
        return form(partial(SyncVectorEnv, makers, copy=False, autoreset_mode=mode), type(envs.envs[0].unwrapped))
    if type(envs) is AsyncVectorEnv and (functions := list(envs.env_fns)):  # make_vec leaves none of them
        mode, makers = autoreset_mode_of(envs), _in_turn(functions, num_envs)
        start = partial(AsyncVectorEnv, makers, copy=False, context=start_method(), autoreset_mode=mode)
        return form(start, type(envs), concurrent=True)
    if envs.spec is None:
        raise EnvError(f"{name} has a fixed number of environments and cannot be made in other sizes; {again}")
    spec, is_async = copy.deepcopy(envs.spec), type(envs) is AsyncVectorEnv
    spec.kwargs = {key: value for key, value in spec.kwargs.items() if key not in ("num_envs", "vectorization_mode")}
    how, options = "async" if is_async else "vector_entry_point", {"autoreset_mode": autoreset_mode_of(envs)}
    options |= {"context": start_method()}
    start = partial(gymnasium.make_vec, spec, num_envs, how, vector_kwargs=options if is_async else None)
    return form(start, type(envs), concurrent=is_async)


def _in_turn(functions: Sequence[Make], num_envs: int) -> list[Make]:
    """As many functions as environments, from the first to the last and then from the first again."""
    return list(itertools.islice(itertools.cycle(functions), num_envs))


def _name(env: gymnasium.Env | VectorEnv) -> str:
    """Its id, if Gymnasium made it; otherwise its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
