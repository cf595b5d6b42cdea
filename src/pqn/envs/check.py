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
import jax.numpy as jnp
import numpy as np

from pqn.envs.base import Autoreset, HostEnv, JaxEnv, Outcome, SingleEnv
from pqn.envs.promises import (
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
from pqn.envs.registry import as_env, as_jax_env
from pqn.errors import EnvError
from pqn.types import Array, PyTree, TimeStep


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
    _check_spec(wrapped)
    if isinstance(wrapped, Autoreset):
        _check_single(wrapped.env)
    reset, step = _compiled(wrapped.reset), _compiled(wrapped.step)
    _check_shapes(wrapped, reset, step)
    notes = _check_reset(wrapped, reset, seed)
    trace = _run(wrapped, reset, step, steps, seed)
    check_ends(trace.steps, wrapped.spec)
    lengths = check_lengths(trace.steps, wrapped.spec)
    check_numbers(trace, wrapped.spec)
    if not isinstance(wrapped, Autoreset):  # which gets these right by construction
        check_final_obs(trace)
    _check_pure_and_batched(wrapped, reset, step, seed)
    return _report(wrapped, trace.steps, lengths, notes)


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
    _check_spec(host)
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
    first = _host_call("reset", lambda: env.reset(seeds))
    if not isinstance(first, TimeStep):
        raise EnvError(f"`reset` must return a TimeStep, not a {type(first).__name__}.")
    check_fields("reset", first, env.spec, env.num_envs)
    check_first(first)
    obs = np.array(first.obs)
    if np.array_equal(obs, env.reset((seeds + 1) % 2**31).obs):
        return ["every episode starts in the same state: `reset` makes no use of its seeds"]
    if not np.array_equal(obs, env.reset(seeds[::-1].copy()).obs[::-1]):
        return ["how an episode starts depends on the environment's place in the pool, not on its seed alone"]
    return []


def _run_host(env: Any, seeds: np.ndarray | None, steps: int, seed: int, start: Any = None) -> Trace:
    """Random legal actions for `steps` steps from a reset, or from `start`; the arrays are copied as they come."""
    rng = np.random.default_rng(seed)
    timestep = env.reset(seeds) if start is None else start
    names, before, after = set(timestep.info), [], []
    for _ in range(steps):
        action = _random_action(rng, env, timestep)
        before.append(np.array(timestep.obs))
        _host_call("send", lambda action=action: env.send(action))
        timestep = _host_call("recv", env.recv)
        if not isinstance(timestep, TimeStep):
            raise EnvError(f"`recv` must return a TimeStep, not a {type(timestep).__name__}.")
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
    saved = {name: np.array(value) for name, value in _host_call("save", env.save).items()}
    start = _host_call("restore", lambda: env.restore(saved))
    start = jax.tree.map(np.array, start)
    first = _run_host(env, None, 10, seed, start)
    shapes = {name: np.shape(value) for name, value in env.save().items()}
    if shapes != {name: value.shape for name, value in saved.items()}:
        raise EnvError("`save` gave arrays of other shapes ten steps later; they must never change.")
    env.restore(saved)
    if not same(first, _run_host(env, None, 10, seed, start), exact=True):
        raise EnvError("after `restore` the same actions gave another result: `save` does not hold the whole state.")


def _host_call(method: str, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        raise EnvError(f"`{method}` raised {type(error).__name__}: {_first_line(error)}") from error


# ---- before anything runs: the spec, and the shapes and dtypes that jax can tell without computing ----


def _check_spec(env: JaxEnv | HostEnv) -> None:
    spec = env.spec
    if not isinstance(spec.obs_shape, tuple) or not all(isinstance(n, int) and n > 0 for n in spec.obs_shape):
        raise EnvError(f"`spec.obs_shape` must be a tuple of positive integers, not {spec.obs_shape!r}.")
    try:
        np.dtype(spec.obs_dtype)
    except TypeError as error:
        raise EnvError(f"`spec.obs_dtype` must be a numpy dtype, not {spec.obs_dtype!r}.") from error
    for name, value in (("num_actions", spec.num_actions), ("num_agents", spec.num_agents), ("num_envs", env.num_envs)):
        if not isinstance(value, int) or value < 1:
            raise EnvError(f"`{name}` must be an integer of at least 1, not {value!r}.")
    if spec.max_episode_steps is not None and spec.max_episode_steps < 1:
        raise EnvError(f"`spec.max_episode_steps` must be None or at least 1, not {spec.max_episode_steps!r}.")


def _check_single(env: SingleEnv) -> None:
    """A `SingleEnv` before `Autoreset` casts and batches it, where its mistakes still have their own names."""
    spec, key = env.spec, jax.random.key(0)
    agents = (spec.num_agents,) if spec.num_agents > 1 else ()
    state, obs = _pair("reset", _abstract("reset", env.reset, key), "(state, observation)")
    out = _abstract("step", env.step, key, state, jax.ShapeDtypeStruct(agents, jnp.int32))
    if not isinstance(out, Outcome):
        raise EnvError(f"`step` must return an Outcome, not a {type(out).__name__}.")
    _check_same_state(state, out.state)
    for method, seen in (("reset", obs), ("step", out.obs)):
        if seen.shape != agents + spec.obs_shape:
            raise EnvError(
                f"the observation of `{method}` has shape {seen.shape} but spec says {agents + spec.obs_shape}."
            )
        if not np.can_cast(seen.dtype, spec.obs_dtype, "same_kind"):
            raise EnvError(f"the observation of `{method}` has dtype {seen.dtype} but spec says {spec.obs_dtype}.")
    scalars = {"reward": out.reward, "terminated": out.terminated, "truncated": out.truncated}
    for name, value in {**scalars, **{f"info[{key!r}]": value for key, value in out.info.items()}}.items():
        if value.shape != ():
            raise EnvError(f"`{name}` of `step` must be one number, not an array of shape {value.shape}.")


def _check_shapes(env: JaxEnv, reset: Callable, step: Callable) -> None:
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


def _abstract(method: str, function: Callable, *args: Any) -> Any:
    return _guard(method, "compiled", lambda: jax.eval_shape(function, *args))


def _guard(method: str, treatment: str, run: Callable[[], Any]) -> Any:
    """Turns what jax raises while it traces user code into one sentence."""
    try:
        return run()
    except EnvError:
        raise
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError, jax.errors.UnexpectedTracerError) as error:
        raise EnvError(f"`{method}` cannot be {treatment}: {_first_line(error)}") from error
    except Exception as error:
        how = "" if treatment == "compiled" else f" when {treatment}"
        raise EnvError(f"`{method}` raised {type(error).__name__}{how}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"


def _pair(method: str, result: Any, wanted: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvError(f"`{method}` must return {wanted}, not {_kind(result)}.")
    return result


def _kind(result: Any) -> str:
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"


# ---- running it ----


def _check_reset(env: JaxEnv, reset: Callable, seed: int) -> list[str]:
    """The first time step, and whether the key makes a difference."""
    key, other = jax.random.split(jax.random.key(seed))
    state, timestep = _guard("reset", "run", lambda: reset(key))
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
    state, timestep = reset(jax.random.key(seed))
    before, after = [], []
    for _ in range(steps):
        action = _random_action(rng, env, timestep)
        before.append(np.asarray(timestep.obs))
        state, timestep = _guard("step", "run", lambda s=state, a=action: step(s, a))
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
        states, _ = _guard("reset", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.reset), keys))
        _guard("step", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.step), states, np.stack(actions)))
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
