"""`check_env`: does an environment keep the promises that the learner relies on?

It runs the environment for a while with random legal actions and raises `EnvError` at the first broken promise, in
one sentence that names it. What it cannot prove (a truncation that never came up, say) it mentions in the report.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pqn.envs.autoreset import Autoreset
from pqn.envs.check.declared import check_shapes, check_single, check_spec, guard, host_call
from pqn.envs.check.promises import (
    Trace,
    check_ends,
    check_fields,
    check_final_obs,
    check_first,
    check_lengths,
    check_numbers,
    same,
    to_numpy,
)
from pqn.envs.contract import HostEnv, JaxEnv, SingleEnv
from pqn.envs.objects import as_env, as_jax_env
from pqn.errors import EnvError
from pqn.types import Array, TimeStep

QUICK_STEPS = 3


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """What `check_env` saw; `notes` are observations that deserve a look but break no promise."""

    name: str
    steps: int
    num_envs: int
    episodes: int
    terminations: int
    truncations: int
    lengths: tuple[int, ...]
    """Lengths of the finished episodes."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        span = f" of {min(self.lengths)} to {max(self.lengths)} steps" if self.lengths else ""
        head = (
            f"{self.name}: {self.steps} steps of {self.num_envs} environments, {self.episodes} episodes{span}, "
            f"{self.terminations} terminated and {self.truncations} truncated; every promise kept."
        )
        return "\n".join([head, *(f"note: {note}" for note in self.notes)])


def check_env(env: JaxEnv | SingleEnv | HostEnv, steps: int = 200, seed: int = 0, num_envs: int = 4) -> CheckReport:
    """Checks an environment against the contract of `JaxEnv` or `HostEnv` by running it.

    Args:
      env: a `JaxEnv`; a `SingleEnv`, which is wrapped in `Autoreset` first; or a `HostEnv`, which is not closed.
      steps: how long to run; more than the longest episode is best.
      seed: of the resets and of the random actions.
      num_envs: copies of a `SingleEnv`; the others have their own number.

    Raises:
      EnvError: the first broken promise, as one sentence.
    """
    if hasattr(env, "send"):
        return _check_host(env, steps, seed)
    assert not isinstance(env, HostEnv)
    wrapped = as_jax_env(env, getattr(env, "num_envs", num_envs), source=f"the {type(env).__name__}")
    check_spec(wrapped)
    if isinstance(wrapped, Autoreset):
        check_single(wrapped.env)
    reset, step = _compiled(wrapped.reset), _compiled(wrapped.step)
    check_shapes(wrapped, reset, step)
    notes = _check_reset(wrapped, reset, seed)
    trace = _run(wrapped, reset, step, steps, seed)
    check_ends(trace.steps, wrapped.spec)
    lengths = check_lengths(trace.steps, wrapped.spec)
    check_numbers(trace, wrapped.spec)
    if not isinstance(wrapped, Autoreset):  # which gets these right by construction
        check_final_obs(trace)
    _check_pure_and_batched(wrapped, reset, step, seed)
    return _report(wrapped, trace.steps, lengths, notes)


def check_quickly(env: JaxEnv | HostEnv, seed: int = 0) -> None:
    """The checks of `check_env` that take next to no time: the spec, the shapes, and the first few steps.

    Training does this to every environment of the user's own, so that its mistakes have names and leave nothing behind.

    Args:
      env: as `registry.as_env` gives it; a `HostEnv` is reset and stepped, and not closed.

    Raises:
      EnvError: the first broken promise, as one sentence.
    """
    check_spec(env)
    if hasattr(env, "send"):
        host: Any = env
        seeds = np.random.default_rng(seed).integers(0, 2**31, host.num_envs)
        trace = _run_host(host, seeds, QUICK_STEPS, seed)
    else:
        jax_env: Any = env
        if isinstance(jax_env, Autoreset):
            check_single(jax_env.env)
        check_shapes(jax_env, jax_env.reset, jax_env.step)
        few = Autoreset(jax_env.env, 2) if type(jax_env) is Autoreset else jax_env  # more of them prove no more
        trace = _run(few, _compiled(few.reset), _compiled(few.step), QUICK_STEPS, seed)
    check_ends(trace.steps, env.spec)
    check_lengths(trace.steps, env.spec)
    check_numbers(trace, env.spec)


def is_ours(env: Any) -> bool:
    """Whether an environment, or the one inside `Autoreset`, comes with this package, whose tests check it."""
    inner = env.env if isinstance(env, Autoreset) else env
    return all(type(one).__module__.partition(".")[0] == "pqn" for one in (env, inner))


def _report(env: JaxEnv | HostEnv, steps: TimeStep, lengths: list[int], notes: list[str]) -> CheckReport:
    count, truncations = len(steps.reward), int(np.sum(steps.truncated))
    if env.spec.truncates and not truncations:
        notes.append(f"no episode was truncated in {count} steps, so `final_obs` is unchecked; try more steps")
    if not lengths:
        notes.append(f"no episode ended in {count} steps, so the reset within a step is unchecked; try more steps")
    return CheckReport(
        name=env.spec.name,
        steps=count,
        num_envs=env.num_envs,
        episodes=len(lengths),
        terminations=int(np.sum(steps.terminated)),
        truncations=truncations,
        lengths=tuple(lengths),
        notes=tuple(notes),
    )


# ---- environments outside of JAX ----


def _check_host(env: Any, steps: int, seed: int) -> CheckReport:
    host: Any = as_env(env, getattr(env, "num_envs", 1), source=f"the {type(env).__name__}")
    check_spec(host)
    seeds = np.random.default_rng(seed).integers(0, 2**31, host.num_envs)
    notes = _check_host_reset(host, seeds)
    trace = _run_host(host, seeds, steps, seed)
    again = _run_host(host, seeds, min(steps, 20), seed)
    if not same(again.steps, jax.tree.map(lambda x: x[: len(again.before)], trace.steps), exact=True):
        raise EnvError("the same seeds and actions gave two different results: an environment is more than its seed.")
    check_ends(trace.steps, host.spec)
    lengths = check_lengths(trace.steps, host.spec)
    check_numbers(trace, host.spec)
    if trace.steps.valid is None:  # otherwise `obs` itself is the final observation
        check_final_obs(trace)
    if getattr(host, "stacks", False):
        _check_stacks(trace)
    if hasattr(host, "save"):
        _check_save(host, seeds, seed)
    return _report(host, trace.steps, lengths, notes)


def _check_host_reset(env: Any, seeds: np.ndarray) -> list[str]:
    obs = np.array(_host_start(env, seeds).obs)
    if np.array_equal(obs, env.reset((seeds + 1) % 2**31).obs):
        return ["every episode starts in the same state: `reset` makes no use of its seeds"]
    if not np.array_equal(obs, env.reset(seeds[::-1].copy()).obs[::-1]):
        return ["how an episode starts depends on the environment's place in the pool, not on its seed alone"]
    return []


def _host_start(env: Any, seeds: np.ndarray) -> TimeStep:
    first = host_call("reset", lambda: env.reset(seeds))
    check_fields("reset", first, env.spec, env.num_envs)
    check_first(first)
    return first


def _run_host(env: Any, seeds: np.ndarray | None, steps: int, seed: int, start: Any = None) -> Trace:
    """Random legal actions for `steps` steps from a reset, or from `start`; the arrays are copied as they come."""
    rng = np.random.default_rng(seed)
    timestep = start if seeds is None else _host_start(env, seeds)
    names, before, after = set(timestep.info), [], []
    for _ in range(steps):
        action = _random_action(rng, env, timestep)
        before.append(np.array(timestep.obs))
        host_call("send", lambda action=action: env.send(action))
        timestep = host_call("recv", env.recv)
        check_fields("recv", timestep, env.spec, env.num_envs)
        if set(timestep.info) != names:
            raise EnvError(
                f"`info` has the names {sorted(names)} after `reset` but {sorted(timestep.info)} after `recv`."
            )
        after.append(jax.tree.map(np.array, timestep))
    return Trace(np.stack(before), jax.tree.map(lambda *x: np.stack(x), *after))


def _check_stacks(trace: Trace) -> None:
    """All frames but the newest [T, N, M, frame, ...] are the newest ones of the step before."""
    moved = np.asarray(trace.steps.obs)[:, :, :, :-1] == trace.before[:, :, :, 1:]
    broken = np.argwhere(~moved.all(axis=tuple(range(2, moved.ndim))) & ~np.asarray(trace.steps.over))
    if len(broken):
        step, env = broken[0]
        raise EnvError(
            f"`stacks` is set, but at step {step} of environment {env}, where no game ended, "
            "the older frames are not those of the step before."
        )


def _check_save(env: Any, seeds: np.ndarray, seed: int) -> None:
    """What follows a `restore` is what followed the `save`."""
    _run_host(env, seeds, 5, seed)
    saved = {name: np.array(value) for name, value in host_call("save", env.save).items()}
    start = host_call("restore", lambda: env.restore(saved))
    start = jax.tree.map(np.array, start)
    first = _run_host(env, None, 10, seed, start)
    shapes = {name: np.shape(value) for name, value in env.save().items()}
    if shapes != {name: value.shape for name, value in saved.items()}:
        raise EnvError("`save` gave arrays of other shapes ten steps later; they must never change.")
    env.restore(saved)
    if not same(first, _run_host(env, None, 10, seed, start), exact=True):
        raise EnvError("after `restore` the same actions gave another result: `save` does not hold the whole state.")


# ---- running it ----


def _check_reset(env: JaxEnv, reset: Callable, seed: int) -> list[str]:
    """The first time step, and whether the key makes a difference."""
    key, other = jax.random.split(jax.random.key(seed))
    state, timestep = guard("reset", "run", lambda: reset(key))
    check_first(timestep)
    if not same((state, timestep), reset(key), exact=True):
        raise EnvError("`reset` is not deterministic: the same key gave two different results.")
    again = reset(other)
    if isinstance(env, Autoreset):  # whose own key always differs; what counts is the environment inside
        if same((state.inner, timestep.obs), (again[0].inner, again[1].obs), exact=True):
            return ["every episode starts in the same state: `reset` makes no use of its key"]
    elif same((state, timestep), again, exact=True):
        note = "`reset` ignores its key: two keys gave the same state, so every seed will live through the same luck"
        warnings.warn(f"{env.spec.name}: {note}", stacklevel=3)
        return [note]
    return []


def _run(env: JaxEnv, reset: Callable, step: Callable, steps: int, seed: int) -> Trace:
    """Random legal actions for `steps` steps."""
    rng = np.random.default_rng(seed)
    state, timestep = guard("reset", "run", lambda: reset(jax.random.key(seed)))
    check_first(timestep)
    before, after = [], []
    for _ in range(steps):
        action = _random_action(rng, env, timestep)
        before.append(np.asarray(timestep.obs))
        state, timestep = guard("step", "run", lambda s=state, a=action: step(s, a))
        after.append(jax.device_get(timestep))
    return Trace(np.stack(before), jax.tree.map(lambda *x: np.stack(x), *after))


def _random_action(rng: np.random.Generator, env: JaxEnv | HostEnv, timestep: TimeStep) -> np.ndarray:
    scores = rng.random((env.num_envs, env.spec.num_agents, env.spec.num_actions))
    if timestep.avail is not None:
        avail = np.asarray(timestep.avail)
        if not avail.any((-1, -2)).all():  # single agents may sit out, dead or not at turn
            raise EnvError("`avail` leaves an environment without any legal action.")
        scores = np.where(avail, scores, -1.0)
    return scores.argmax(-1).astype(np.int32)


# ---- purity and batching ----


def _check_pure_and_batched(env: JaxEnv, reset: Callable, step: Callable, seed: int) -> None:
    """Compares a second, batched compilation over two seeds with the two seeds alone.

    A step that depends on anything but its arguments differs when traced again, and one that cannot carry a leading
    axis of seeds fails here.
    """
    keys = jax.random.split(jax.random.key(seed), 2)
    began = [reset(key) for key in keys]
    rng = np.random.default_rng(seed)
    actions = [_random_action(rng, env, timestep) for _, timestep in began]
    went_on = [step(state, action) for (state, _), action in zip(began, actions, strict=True)]
    if not all(same(out, step(began[i][0], actions[i]), exact=True) for i, out in enumerate(went_on)):
        raise EnvError("`step` is not deterministic: the same state and action gave two different results.")

    def both(key: Array, action: Array) -> tuple[Any, Any]:
        start = env.reset(key)
        return start, env.step(start[0], action)

    try:
        batched = to_numpy(_compiled(jax.vmap(both))(keys, np.stack(actions)))
    except Exception:  # find out whose fault it is; tracing is slow, so only now
        states, _ = guard("reset", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.reset), keys))
        guard("step", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.step), states, np.stack(actions)))
        raise
    for method, alone, pair in zip(("reset", "step"), (began, went_on), batched, strict=True):
        if all(same(one, jax.tree.map(lambda x, i=i: x[i], pair)) for i, one in enumerate(alone)):
            continue
        afresh = _compiled(both)(keys[0], actions[0])[method == "step"]
        if not same(alone[0], afresh):
            raise EnvError(f"`{method}` is not pure: traced again, the same arguments gave another result.")
        raise EnvError(f"`{method}` vmapped over seeds gives other results than each seed alone.")


def _compiled(function: Callable) -> Callable:
    """`jax.jit` in a hurry: a check runs a few steps, so on a CPU the compiler's time is most of it."""
    hurry = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return jax.jit(function, compiler_options=hurry)
