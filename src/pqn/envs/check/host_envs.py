"""Running a `HostEnv` for `check_env`, and the promises that only such an environment makes: seeds, stacks, save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from pqn.envs.check.declared import host_call
from pqn.envs.check.promises import Trace, check_fields, check_first, random_action, same
from pqn.envs.contract import HostEnv
from pqn.errors import EnvError
from pqn.types import TimeStep

T = TypeVar("T")


def random_seeds(env: HostEnv, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**31, env.num_envs)


def run(env: HostEnv, seeds: np.ndarray, steps: int, seed: int) -> Trace:
    """Random legal actions for `steps` steps from a reset."""
    return _go_on(env, _start(env, seeds), steps, seed)


def _called(env: HostEnv, method: str, call: Callable[[], T]) -> T:
    """`host_call` of an environment; where an adapter finds out more about why it fails, it says that instead."""
    try:
        return host_call(method, call)
    except EnvError as error:
        try:
            found = getattr(env, "diagnose", lambda: None)()
        except Exception:  # the environment fails again, and nothing more is found out
            found = None
        if found is None:
            raise
        raise EnvError(found) from error


def _start(env: HostEnv, seeds: np.ndarray) -> TimeStep:
    first = _called(env, "reset", lambda: env.reset(seeds))
    check_fields("reset", first, env.spec, env.num_envs)
    check_first(first)
    return first


def _go_on(env: HostEnv, timestep: TimeStep, steps: int, seed: int) -> Trace:
    """Random legal actions for `steps` steps from `timestep`; the arrays are copied when they are received."""
    rng = np.random.default_rng(seed)
    names, before, after = set(timestep.info), [], []
    for _ in range(steps):
        action = random_action(rng, env, timestep)
        before.append(np.array(timestep.obs))
        _called(env, "send", lambda action=action: env.send(action))
        timestep = _called(env, "recv", env.recv)
        check_fields("recv", timestep, env.spec, env.num_envs)
        if set(timestep.info) != names:
            raise EnvError(
                f"`info` has the names {sorted(names)} after `reset` but {sorted(timestep.info)} after `recv`."
            )
        after.append(jax.tree.map(np.array, timestep))
    return Trace(np.stack(before), jax.tree.map(lambda *x: np.stack(x), *after))


def check_reset(env: HostEnv, seeds: np.ndarray) -> list[str]:
    """The first time step, and whether the seeds alone decide it; returns notes."""
    obs = np.array(_start(env, seeds).obs)
    if np.array_equal(obs, env.reset((seeds + 1) % 2**31).obs):
        return ["every episode starts in the same state: `reset` makes no use of its seeds"]
    if not np.array_equal(obs, env.reset(seeds[::-1].copy()).obs[::-1]):
        return ["how an episode starts depends on the environment's place among the others, not on its seed alone"]
    return []


def check_repeatable(env: HostEnv, seeds: np.ndarray, trace: Trace, seed: int) -> None:
    """The same seeds and actions give the same trace again."""
    again = run(env, seeds, min(len(trace.before), 20), seed)
    if not same(again.steps, jax.tree.map(lambda x: x[: len(again.before)], trace.steps), exact=True):
        raise EnvError("the same seeds and actions gave two different results: an environment is more than its seed.")


def check_stacks(trace: Trace) -> None:
    """All frames but the newest [T, N, M, frame, ...] are the newest ones of the step before."""
    moved = np.asarray(trace.steps.obs)[:, :, :, :-1] == trace.before[:, :, :, 1:]
    broken = np.argwhere(~moved.all(axis=tuple(range(2, moved.ndim))) & ~np.asarray(trace.steps.over))
    if len(broken):
        step, env = broken[0]
        raise EnvError(
            f"`stacks` is set, but at step {step} of environment {env}, where no game ended, "
            "the older frames are not those of the step before."
        )


def check_save(env: HostEnv, seeds: np.ndarray, seed: int) -> None:
    """After `restore` everything goes on as it did after `save`."""
    able: Any = env  # to save and restore, which are no part of the protocol
    run(env, seeds, 5, seed)
    saved = {name: np.array(value) for name, value in host_call("save", able.save).items()}
    start = jax.tree.map(np.array, host_call("restore", lambda: able.restore(saved)))
    first = _go_on(env, start, 10, seed)
    shapes = {name: np.shape(value) for name, value in able.save().items()}
    if shapes != {name: value.shape for name, value in saved.items()}:
        raise EnvError("`save` gave arrays of other shapes ten steps later; they must never change.")
    able.restore(saved)
    if not same(first, _go_on(env, start, 10, seed), exact=True):
        raise EnvError("after `restore` the same actions gave another result: `save` does not hold the whole state.")
