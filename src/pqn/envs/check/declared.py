"""The promises that can be checked before an environment runs: its spec, and the shapes that jax traces.

Each broken promise is an `EnvError`. This only costs the tracing, so it is done before every training on an environment
of the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.check.promises import check_array, check_fields, check_info
from pqn.envs.contract import HostEnv, JaxEnv, Outcome, SingleEnv
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree, TimeStep

T = TypeVar("T")

LARGEST = 2**31 - 1  # steps are counted in int32


def check_spec(env: JaxEnv | HostEnv) -> None:
    """Types and ranges of `env.spec`."""
    spec: EnvSpec = env.spec
    if not isinstance(spec.name, str) or not spec.name:
        raise EnvError(f"`spec.name` must be a word, not {spec.name!r}.")
    if not isinstance(spec.obs_shape, tuple) or not all(_whole(n, 1) for n in spec.obs_shape):
        raise EnvError(f"`spec.obs_shape` must be a tuple of positive integers, not {spec.obs_shape!r}.")
    try:
        dtype = np.dtype(spec.obs_dtype)
    except TypeError as error:
        raise EnvError(f"`spec.obs_dtype` must be a numpy dtype, not {spec.obs_dtype!r}.") from error
    if not any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
        raise EnvError(f"`spec.obs_dtype` must be of real numbers or bool, not {dtype}.")
    for name, value in (("num_actions", spec.num_actions), ("num_agents", spec.num_agents), ("num_envs", env.num_envs)):
        if not _whole(value, 1):
            raise EnvError(f"`{name}` must be an integer of at least 1, not {value!r}.")
    if spec.max_episode_steps is not None and not _whole(spec.max_episode_steps, 1):
        raise EnvError(
            f"`spec.max_episode_steps` must be None or an integer from 1 to {LARGEST}, not {spec.max_episode_steps!r}."
        )
    if not _whole(spec.world_size, 0):
        raise EnvError(f"`spec.world_size` must be an integer of at least 0, not {spec.world_size!r}.")
    for name in ("truncates", "masked"):
        if not isinstance(getattr(spec, name), bool | np.bool_):
            raise EnvError(f"`spec.{name}` must be True or False, not {getattr(spec, name)!r}.")


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= LARGEST


def check_single(env: SingleEnv) -> None:
    """A `SingleEnv` as it is, before `Autoreset` casts and batches its arrays, so that errors name its own shapes."""
    spec, key = env.spec, jax.random.key(0)
    agents = (spec.num_agents,) if spec.num_agents > 1 else ()
    state, obs = _pair("reset", _abstract("reset", env.reset, key), "(state, observation)")
    _check_observation("reset", obs, spec)
    out = _abstract("step", env.step, key, state, jax.ShapeDtypeStruct(agents, jnp.int32))
    if not isinstance(out, Outcome):
        raise EnvError(f"`step` must return an Outcome, not a {type(out).__name__}.")
    _check_same_state(state, out.state)
    _check_observation("step", out.obs, spec)
    check_info("step", out.info)
    scalars = {"reward": out.reward, "terminated": out.terminated, "truncated": out.truncated}
    for name, value in {**scalars, **{f"info[{key!r}]": value for key, value in out.info.items()}}.items():
        check_array(f"`{name}` of `step`", value)
        if value.shape != ():
            raise EnvError(f"`{name}` of `step` must be one number, not an array of shape {value.shape}.")
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise EnvError(f"`{name}` of `step` must be a real number, not {value.dtype}.")


def _check_observation(method: str, obs: Array, spec: EnvSpec) -> None:
    wanted = ((spec.num_agents,) if spec.num_agents > 1 else ()) + spec.obs_shape
    check_array(f"the observation of `{method}`", obs)
    if obs.shape != wanted:
        raise EnvError(f"the observation of `{method}` has shape {obs.shape} but spec says {wanted}.")
    if not np.can_cast(obs.dtype, spec.obs_dtype, "same_kind"):
        raise EnvError(f"the observation of `{method}` has dtype {obs.dtype} but spec says {spec.obs_dtype}.")


def check_shapes(env: JaxEnv, reset: Callable, step: Callable) -> None:
    """That `reset` and `step` can be traced and yield what the spec says."""
    state, first = _pair("reset", _abstract("reset", reset, jax.random.key(0)), "(state, TimeStep)")
    action = jax.ShapeDtypeStruct((env.num_envs, env.spec.num_agents), jnp.int32)
    after, then = _pair("step", _abstract("step", step, state, action), "(state, TimeStep)")
    for method, timestep in (("reset", first), ("step", then)):
        if not isinstance(timestep, TimeStep):
            raise EnvError(f"`{method}` must return (state, TimeStep), not (state, {type(timestep).__name__}).")
        check_fields(method, timestep, env.spec, env.num_envs)
    if set(first.info) != set(then.info):
        raise EnvError(
            f"`info` has the names {sorted(first.info)} after `reset` but {sorted(then.info)} after `step`; "
            "both must have the same."
        )
    _check_same_state(state, after)


def _check_same_state(before: PyTree, after: PyTree) -> None:
    """The state keeps its structure, so that it can be carried through a compiled loop."""
    old, new = (
        {jax.tree_util.keystr(p): x for p, x in jax.tree_util.tree_leaves_with_path(t)} for t in (before, after)
    )
    what = "the state changes between `reset` and `step`"
    for path in [*old, *new]:
        if path not in new or path not in old:
            here, gone = ("reset", "step") if path in old else ("step", "reset")
            raise EnvError(f"{what}: {here} has `state{path}` and {gone} does not.")
        a, b = old[path], new[path]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise EnvError(f"{what}: `state{path}` is {a.dtype}{list(a.shape)} and becomes {b.dtype}{list(b.shape)}.")
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise EnvError(f"{what}: its leaves agree but their containers do not.")


def _abstract(method: str, function: Callable[..., T], *args: PyTree) -> T:
    return guard(method, "compiled", lambda: jax.eval_shape(function, *args))


def guard(method: str, treatment: str, run: Callable[[], T]) -> T:
    """Calls `run`; what jax raises while it traces user code becomes an `EnvError` of one sentence."""
    try:
        return run()
    except EnvError:
        raise
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError, jax.errors.UnexpectedTracerError) as error:
        raise EnvError(f"`{method}` cannot be {treatment}: {first_line(error)}") from error
    except Exception as error:
        how = "" if treatment == "compiled" else f" when {treatment}"
        raise EnvError(f"`{method}` raised {type(error).__name__}{how}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"


def _pair(method: str, result: PyTree, wanted: str) -> tuple[PyTree, PyTree]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvError(f"`{method}` must return {wanted}, not {_kind(result)}.")
    return result


def _kind(result: object) -> str:
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"


def host_call(method: str, run: Callable[[], T]) -> T:
    """Calls a method of a `HostEnv`; what it raises becomes an `EnvError` of one sentence."""
    try:
        return run()
    except EnvError:
        raise
    except Exception as error:
        raise EnvError(f"`{method}` raised {type(error).__name__}: {first_line(error)}") from error
