"""The promises of the contract about time steps: each broken one is an `EnvError`.

`check_env` runs an environment and applies these to what it recorded. Training applies `check_fields` to the first step
of simulators.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from pqn.envs.contract import HostEnv, JaxEnv
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree, TimeStep

REQUIRED = ("obs", "first", "reward", "terminated", "truncated")  # fields of a time step that are never None


class Trace(NamedTuple):
    """A run as numpy arrays, time first. `before[t]` is the observation from which action t was chosen."""

    before: np.ndarray  # [T, N, M, ...]
    steps: TimeStep  # [T, N, ...]


def check_first(timestep: TimeStep) -> None:
    if not np.all(timestep.first):
        raise EnvError("`first` is not set after `reset`.")
    if np.any(timestep.terminated) or np.any(timestep.truncated):
        raise EnvError("`terminated` or `truncated` is set after `reset`, where no step has been taken.")
    if np.any(timestep.reward):
        raise EnvError("`reward` is not 0 after `reset`, where no step has been taken.")


def check_array(what: str, value: object) -> Array:
    """Returns the value, which must be an array or the shape and dtype of one."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        raise EnvError(f"{what} must be an array, not a {type(value).__name__}.")
    return cast(Array, value)


def check_info(method: str, info: object) -> None:
    if not isinstance(info, dict) or not all(isinstance(name, str) for name in info):
        what = f"one with the names {list(info)}" if isinstance(info, dict) else f"a {type(info).__name__}"
        raise EnvError(f"`info` of `{method}` must be a dict from words to numbers, not {what}.")


def check_fields(method: str, timestep: object, spec: EnvSpec, num_envs: int) -> None:
    """Presence, shapes and dtypes in a time step of numpy or jax arrays, or of `jax.ShapeDtypeStruct`."""
    if not isinstance(timestep, TimeStep):
        raise EnvError(f"`{method}` must return a TimeStep, not a {type(timestep).__name__}.")
    check_info(method, timestep.info)
    n, agents = (num_envs,), (num_envs, spec.num_agents)
    _check_presence(method, timestep, spec)
    expected: dict[str, tuple[tuple[int, ...], DTypeLike]] = {
        "obs": (agents + spec.obs_shape, spec.obs_dtype),
        "first": (agents, bool),
        "reward": (n, np.float32),
        "terminated": (n, bool),
        "truncated": (n, bool),
        "final_obs": (agents + spec.obs_shape, spec.obs_dtype),
        "avail": ((*agents, spec.num_actions), bool),
        "final_avail": ((*agents, spec.num_actions), bool),
        "world": ((*n, spec.world_size), np.float32),
        "final_world": ((*n, spec.world_size), np.float32),
        "ended": (n, bool),
        "valid": (n, bool),
    }
    fields: dict[str, Any] = {name: (getattr(timestep, name), *wanted) for name, wanted in expected.items()}
    fields |= {f"info[{name!r}]": (value, n, np.float32) for name, value in timestep.info.items()}
    for name, (value, shape, dtype) in fields.items():
        if value is None and name not in REQUIRED:
            continue
        array = check_array(f"`{name}` of `{method}`", value)
        if array.shape != shape:
            raise EnvError(f"`{name}` of `{method}` has shape {array.shape} but must have {shape}.")
        if array.dtype != np.dtype(dtype):
            by = "spec says" if "obs" in name else "it must be"
            raise EnvError(f"`{name}` of `{method}` has dtype {array.dtype} but {by} {np.dtype(dtype)}.")


def _check_presence(method: str, timestep: TimeStep, spec: EnvSpec) -> None:
    """The optional fields are there exactly when the spec announces them."""
    rules = {
        "final_obs": (spec.truncates, "spec.truncates"),
        "avail": (spec.masked, "spec.masked"),
        "final_avail": (spec.masked and spec.truncates, "spec.masked and spec.truncates"),
        "world": (spec.world_size > 0, "spec.world_size > 0"),
        "final_world": (spec.world_size > 0 and spec.truncates, "spec.world_size > 0 and spec.truncates"),
    }
    for name, (announced, rule) in rules.items():
        present = getattr(timestep, name) is not None
        if announced and not present:
            raise EnvError(f"`{name}` of `{method}` is missing although {rule} is True.")
        if present and not announced:
            raise EnvError(f"`{name}` of `{method}` is given although {rule} is False; leave it None.")


def check_ends(steps: TimeStep, spec: EnvSpec) -> None:
    terminated, truncated = steps.terminated, steps.truncated
    if (terminated & truncated).any():
        raise EnvError("`terminated` and `truncated` are both true at one step; terminated wins, so clear truncated.")
    if truncated.any() and not spec.truncates:
        raise EnvError("`truncated` is raised although spec.truncates is False.")
    if steps.ended is not None and (steps.ended & ~(terminated | truncated)).any():
        raise EnvError("`ended` is set where no episode ended; a game ends with its last episode.")
    done = (terminated | truncated)[..., None]
    if steps.valid is not None:
        _check_next_step_resets(steps, done)
        return
    if (done & ~steps.first).any():
        raise EnvError("`first` is not set after an episode ended: `obs` must already start the next one.")
    if (steps.first & ~done).any():
        raise EnvError("`first` is set in the middle of an episode.")


def _check_next_step_resets(steps: TimeStep, done: np.ndarray | Array) -> None:
    """Where the step after an episode's end only resets, it must be marked, and be nothing else."""
    valid = np.asarray(steps.valid)
    if not np.array_equal(~valid[1:], done[:-1, :, 0]):
        raise EnvError("`valid` must be false at the step after each end of an episode, and at no other.")
    if (~valid & (done[..., 0] | (steps.reward != 0))).any():
        raise EnvError("a step that is not `valid` has a reward or ends an episode, which no reset does.")
    if (steps.first != ~valid[..., None]).any():
        raise EnvError("`first` must be set by the steps that are not `valid`, whose `obs` starts an episode, only.")


def check_lengths(steps: TimeStep, spec: EnvSpec, early: bool) -> list[int]:
    """Lengths of the finished games, after comparing all lengths with `spec.max_episode_steps`.

    `early` allows truncation before that: only the compiled program relies on the opposite, since it must know how many
    final observations to make room for.
    """
    limit, lengths = spec.max_episode_steps, []
    length = np.zeros(steps.terminated.shape[1], int)
    valid = np.ones_like(steps.terminated) if steps.valid is None else steps.valid
    for over, truncated, counts in zip(steps.over, steps.truncated, valid, strict=True):
        length += counts
        if limit is not None and (length > limit).any():
            raise EnvError(f"an episode is longer than spec.max_episode_steps = {limit}.")
        if limit is not None and not early and (truncated & (length < limit)).any():
            raise EnvError(
                f"an episode was truncated after {int(length[truncated].min())} steps although spec.max_episode_steps "
                f"= {limit}; where truncation may come earlier, max_episode_steps must be None."
            )
        lengths += length[over].tolist()
        length[over] = 0
    return lengths


def check_numbers(trace: Trace) -> None:
    """Finite numbers, and a legal action in every mask."""
    steps = trace.steps
    numbers = {"obs": np.concatenate([trace.before[:1], steps.obs]), "reward": steps.reward}
    if steps.final_obs is not None:
        numbers["final_obs"] = steps.final_obs[steps.truncated]
    numbers |= {f"info[{name!r}]": value for name, value in steps.info.items()}
    for name, value in numbers.items():
        if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
            raise EnvError(f"`{name}` holds a NaN or an infinity.")
    if steps.avail is not None and not steps.avail.any((-1, -2)).all():
        raise EnvError("`avail` leaves an environment without any legal action.")
    if steps.final_avail is not None and not steps.final_avail[steps.truncated].any((-1, -2)).all():
        raise EnvError("`final_avail` leaves an environment without any legal action at a truncation.")


def check_final_obs(trace: Trace) -> None:
    """The three usual mistakes in `final_obs`. Each shows at *every* truncation; once may be a coincidence."""
    steps = trace.steps
    truncated = steps.truncated
    if steps.final_obs is None or not truncated.any():
        return
    going_on = ~(truncated | steps.terminated)
    before, after, final = trace.before[truncated], steps.obs[truncated], steps.final_obs[truncated]
    if (final == after).all() and (before != after).any():
        raise EnvError(
            "`final_obs` equals the reset observation at a truncation: it must be the last one of the old episode."
        )
    moves = _any(trace.before[going_on] != steps.obs[going_on])
    if (final == before).all() and moves.size and moves.all():
        raise EnvError("`final_obs` equals the observation before the step at a truncation: it must be its successor.")
    if not final.any() and _any(np.concatenate([trace.before[going_on], before])).all():
        raise EnvError("`final_obs` is all zeros at a truncation: it is never filled in.")


def random_action(rng: np.random.Generator, env: JaxEnv | HostEnv, timestep: TimeStep) -> np.ndarray:
    """A legal action [N, M]; an agent without one, which is dead or not at turn, gets any number."""
    scores = rng.random((env.num_envs, env.spec.num_agents, env.spec.num_actions))
    if timestep.avail is not None:
        avail = np.asarray(timestep.avail)
        if not avail.any((-1, -2)).all():
            raise EnvError("`avail` leaves an environment without any legal action.")
        scores = np.where(avail, scores, -1.0)
    return scores.argmax(-1).astype(np.int32)


def _any(x: np.ndarray) -> np.ndarray:
    """[K, ...] -> [K], whether anything in each item is non-zero."""
    return np.asarray(x.any(axis=tuple(range(1, x.ndim))))


def to_numpy(tree: PyTree) -> PyTree:
    """All leaves on the host, random keys as their bits."""

    def bits(x: Array) -> Array:
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return jax.device_get(jax.tree.map(bits, tree))


def same(a: PyTree, b: PyTree, exact: bool = False) -> bool:
    """Equality of two trees of arrays; floats to rounding unless `exact`."""

    def equal(x: np.ndarray, y: np.ndarray) -> bool:
        if exact or not np.issubdtype(x.dtype, np.floating):
            return bool(np.array_equal(x, y, equal_nan=np.issubdtype(x.dtype, np.floating)))
        return bool(np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True))

    leaves = (jax.tree.leaves(to_numpy(tree)) for tree in (a, b))
    return all(equal(x, y) for x, y in zip(*leaves, strict=True))
