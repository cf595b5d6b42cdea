"""`check_env`: does an environment keep the promises that the learner relies on?

It runs the environment for a while with random legal actions and raises `EnvError` at the first broken promise, in
one sentence that names it. What it cannot prove (a truncation that never came up, say) it mentions in the report.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.base import Autoreset, HostEnv, JaxEnv, Outcome, SingleEnv
from pqn.envs.registry import as_env, as_jax_env
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree, TimeStep


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


class Trace(NamedTuple):
    """A run as numpy arrays, time first. `before[t]` is what the agents saw when they chose step t."""

    before: np.ndarray  # [T, N, M, ...]
    steps: TimeStep  # [T, N, ...]


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
    _check_ends(trace.steps, wrapped.spec)
    lengths = _check_lengths(trace.steps, wrapped.spec)
    _check_numbers(trace, wrapped.spec)
    if not isinstance(wrapped, Autoreset):  # which gets these right by construction
        _check_final_obs(trace)
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
    if not _same(again.steps, jax.tree.map(lambda x: x[: len(again.before)], trace.steps), exact=True):
        raise EnvError("the same seeds and actions gave two different results: an environment is more than its seed.")
    _check_ends(trace.steps, host.spec)
    lengths = _check_lengths(trace.steps, host.spec)
    _check_numbers(trace, host.spec)
    if trace.steps.valid is None:  # otherwise `obs` itself is the final observation
        _check_final_obs(trace)
    if hasattr(host, "save"):
        _check_save(host, seeds, seed)
    return _report(host, trace.steps, lengths, notes)


def _check_host_reset(env: Any, seeds: np.ndarray) -> list[str]:
    first = _host_call("reset", lambda: env.reset(seeds))
    if not isinstance(first, TimeStep):
        raise EnvError(f"`reset` must return a TimeStep, not a {type(first).__name__}.")
    check_fields("reset", first, env.spec, env.num_envs)
    _check_first(first)
    obs = np.array(first.obs)
    if np.array_equal(obs, env.reset((seeds + 1) % 2**31).obs):
        return ["every episode starts in the same state: `reset` makes no use of its seeds"]
    if not np.array_equal(obs, env.reset(seeds[::-1].copy()).obs[::-1]):
        return ["how an episode starts depends on the environment's place in the pool, not on its seed alone"]
    return []


def _check_first(timestep: TimeStep) -> None:
    if not np.all(timestep.first):
        raise EnvError("`first` is not set after `reset`.")
    if np.any(timestep.terminated) or np.any(timestep.truncated):
        raise EnvError("`terminated` or `truncated` is set after `reset`, where no step has been taken.")
    if np.any(timestep.reward):
        raise EnvError("`reward` is not 0 after `reset`, where no step has been taken.")


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
    if not _same(first, _run_host(env, None, 10, seed, start), exact=True):
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


def check_fields(method: str, timestep: TimeStep, spec: EnvSpec, num_envs: int) -> None:
    n, agents = (num_envs,), (num_envs, spec.num_agents)
    _check_presence(method, timestep, spec)
    expected = {
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
        "valid": (n, bool),
    }
    fields = {name: (getattr(timestep, name), *wanted) for name, wanted in expected.items()}
    fields |= {f"info[{name!r}]": (value, n, np.float32) for name, value in timestep.info.items()}
    for name, (value, shape, dtype) in fields.items():
        if value is None:
            continue
        if value.shape != shape:
            raise EnvError(f"`{name}` of `{method}` has shape {value.shape} but must have {shape}.")
        if value.dtype != np.dtype(dtype):
            by = "spec says" if "obs" in name else "it must be"
            raise EnvError(f"`{name}` of `{method}` has dtype {value.dtype} but {by} {np.dtype(dtype)}.")


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
    _check_first(timestep)
    if not _same((state, timestep), reset(key), exact=True):
        raise EnvError("`reset` is not deterministic: the same key gave two different results.")
    again = reset(other)
    if isinstance(env, Autoreset):  # whose own key always differs; what counts is the environment inside
        if _same((state.inner, timestep.obs), (again[0].inner, again[1].obs), exact=True):
            return ["every episode starts in the same state: `reset` makes no use of its key"]
    elif _same((state, timestep), again, exact=True):
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


# ---- what the run must have shown ----


def _check_ends(steps: TimeStep, spec: EnvSpec) -> None:
    terminated, truncated = steps.terminated, steps.truncated
    if (terminated & truncated).any():
        raise EnvError("`terminated` and `truncated` are both true at one step; terminated wins, so clear truncated.")
    if truncated.any() and not spec.truncates:
        raise EnvError("`truncated` is raised although spec.truncates is False.")
    done = (terminated | truncated)[..., None]
    if steps.valid is not None:
        _check_next_step_resets(steps, done)
        return
    if (done & ~steps.first).any():
        raise EnvError("`first` is not set after an episode ended: `obs` must already start the next one.")
    if (steps.first & ~done).any():
        raise EnvError("`first` is set in the middle of an episode.")


def _check_next_step_resets(steps: TimeStep, done: Any) -> None:
    """Where the step after an episode's end only resets, it must be marked, and be nothing else."""
    valid = np.asarray(steps.valid)
    if not np.array_equal(~valid[1:], done[:-1, :, 0]):
        raise EnvError("`valid` must be false at the step after each end of an episode, and at no other.")
    if (~valid & (done[..., 0] | (steps.reward != 0))).any():
        raise EnvError("a step that is not `valid` has a reward or ends an episode, which no reset does.")
    if (steps.first != ~valid[..., None]).any():
        raise EnvError("`first` must be set by the steps that are not `valid`, whose `obs` starts an episode, only.")


def _check_lengths(steps: TimeStep, spec: EnvSpec) -> list[int]:
    """Lengths of the finished episodes, after comparing all lengths with `spec.max_episode_steps`."""
    limit, lengths = spec.max_episode_steps, []
    length = np.zeros(steps.terminated.shape[1], int)
    valid = np.ones_like(steps.terminated) if steps.valid is None else steps.valid
    for terminated, truncated, counts in zip(steps.terminated, steps.truncated, valid, strict=True):
        length += counts
        if limit is not None and (length > limit).any():
            raise EnvError(f"an episode is longer than spec.max_episode_steps = {limit}.")
        if limit is not None and (truncated & (length < limit)).any():
            raise EnvError(
                f"an episode was truncated after {int(length[truncated].min())} steps although spec.max_episode_steps "
                f"= {limit}; where truncation may come earlier, max_episode_steps must be None."
            )
        done = terminated | truncated
        lengths += length[done].tolist()
        length[done] = 0
    return lengths


def _check_numbers(trace: Trace, spec: EnvSpec) -> None:
    """Finite numbers, and a legal action in every mask."""
    steps = trace.steps
    where_cut = steps.truncated
    numbers = {"obs": np.concatenate([trace.before[:1], steps.obs]), "reward": steps.reward}
    if steps.final_obs is not None:
        numbers["final_obs"] = steps.final_obs[where_cut]
    numbers |= {f"info[{name!r}]": value for name, value in steps.info.items()}
    for name, value in numbers.items():
        if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
            raise EnvError(f"`{name}` holds a NaN or an infinity.")
    if steps.avail is not None and not steps.avail.any((-1, -2)).all():
        raise EnvError("`avail` leaves an environment without any legal action.")
    if steps.final_avail is not None and not steps.final_avail[where_cut].any((-1, -2)).all():
        raise EnvError("`final_avail` leaves an environment without any legal action at a truncation.")


def _check_final_obs(trace: Trace) -> None:
    """The three usual ways to get `final_obs` wrong. All show at *every* truncation; once may be a coincidence."""
    steps = trace.steps
    cut = steps.truncated
    if steps.final_obs is None or not cut.any():
        return
    going_on = ~(cut | steps.terminated)
    before, after, final = trace.before[cut], steps.obs[cut], steps.final_obs[cut]
    if (final == after).all() and (before != after).any():
        raise EnvError(
            "`final_obs` equals the reset observation at a truncation: it must be the last one of the old episode."
        )
    moves = _any(trace.before[going_on] != steps.obs[going_on])
    if (final == before).all() and moves.size and moves.all():
        raise EnvError("`final_obs` equals the observation before the step at a truncation: it must be its successor.")
    if not final.any() and _any(np.concatenate([trace.before[going_on], before])).all():
        raise EnvError("`final_obs` is all zeros at a truncation: it is never filled in.")


def _any(x: np.ndarray) -> np.ndarray:
    """[K, ...] -> [K], whether anything in each item is non-zero."""
    return np.asarray(x.reshape(len(x), -1).any(-1))


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
    if not all(_same(out, step(began[i][0], actions[i]), exact=True) for i, out in enumerate(went_on)):
        raise EnvError("`step` is not deterministic: the same state and action gave two different results.")

    def both(key: Array, action: Array) -> tuple[Any, Any]:
        start = env.reset(key)
        return start, env.step(start[0], action)

    try:
        batched = _to_numpy(_compiled(jax.vmap(both))(keys, np.stack(actions)))
    except Exception:  # find out whose fault it is; tracing is slow, so only now
        states, _ = _guard("reset", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.reset), keys))
        _guard("step", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.step), states, np.stack(actions)))
        raise
    for method, alone, pair in zip(("reset", "step"), (began, went_on), batched, strict=True):
        if all(_same(one, jax.tree.map(lambda x, i=i: x[i], pair)) for i, one in enumerate(alone)):
            continue
        afresh = _compiled(both)(keys[0], actions[0])[method == "step"]
        if not _same(alone[0], afresh):
            raise EnvError(f"`{method}` is not pure: traced again, the same arguments gave another result.")
        raise EnvError(f"`{method}` vmapped over seeds gives other results than each seed alone.")


def _compiled(function: Callable) -> Callable:
    """`jax.jit` in a hurry: a check runs a few steps, so on a CPU the compiler's time is most of it."""
    hurry = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return jax.jit(function, compiler_options=hurry)


def _to_numpy(tree: PyTree) -> PyTree:
    """All leaves on the host, random keys as their bits."""

    def bits(x: Array) -> Array:
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return jax.device_get(jax.tree.map(bits, tree))


def _same(a: PyTree, b: PyTree, exact: bool = False) -> bool:
    """Equality of two trees of arrays; floats to rounding unless `exact`."""

    def equal(x: np.ndarray, y: np.ndarray) -> bool:
        if exact or not np.issubdtype(x.dtype, np.floating):
            return bool(np.array_equal(x, y, equal_nan=np.issubdtype(x.dtype, np.floating)))
        return bool(np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True))

    leaves = (jax.tree.leaves(_to_numpy(tree)) for tree in (a, b))
    return all(equal(x, y) for x, y in zip(*leaves, strict=True))
