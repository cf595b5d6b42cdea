"""Running a `JaxEnv` for `check_env`, and the promises that only such an environment makes: pure and batchable."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import jax
import numpy as np

from pqn.envs.autoreset import Autoreset
from pqn.envs.check.declared import guard
from pqn.envs.check.promises import Trace, check_first, random_action, same, to_numpy
from pqn.envs.contract import JaxEnv
from pqn.errors import EnvError
from pqn.types import Array, PyTree, TimeStep

Reset = Callable[[Array], tuple[PyTree, TimeStep]]
Step = Callable[[PyTree, Array | np.ndarray], tuple[PyTree, TimeStep]]


def compiled(function: Callable) -> Callable:
    """`jax.jit` with little optimisation: a check runs few steps, so on a CPU most of its time is compilation."""
    quick = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return jax.jit(function, compiler_options=quick)


def check_reset(env: JaxEnv, reset: Reset, seed: int) -> list[str]:
    """The first time step, and whether the key makes a difference; returns notes."""
    key, other = jax.random.split(jax.random.key(seed))
    state, timestep = guard("reset", "run", lambda: reset(key))
    check_first(timestep)
    if not same((state, timestep), reset(key), exact=True):
        raise EnvError("`reset` is not deterministic: the same key gave two different results.")
    again = reset(other)
    if isinstance(env, Autoreset):  # its own key always differs; only the environment inside is compared
        if same((state.inner, timestep.obs), (again[0].inner, again[1].obs), exact=True):
            return ["every episode starts in the same state: `reset` makes no use of its key"]
    elif same((state, timestep), again, exact=True):
        note = "`reset` ignores its key: two keys gave the same state, so all seeds will see identical randomness"
        warnings.warn(f"{env.spec.name}: {note}", stacklevel=4)
        return [note]
    return []


def run(env: JaxEnv, reset: Reset, step: Step, steps: int, seed: int) -> Trace:
    """Random legal actions for `steps` steps."""
    rng = np.random.default_rng(seed)
    state, timestep = guard("reset", "run", lambda: reset(jax.random.key(seed)))
    check_first(timestep)
    before, after = [], []
    for _ in range(steps):
        action = random_action(rng, env, timestep)
        before.append(np.asarray(timestep.obs))
        state, timestep = guard("step", "run", lambda s=state, a=action: step(s, a))
        after.append(jax.device_get(timestep))
    return Trace(np.stack(before), jax.tree.map(lambda *x: np.stack(x), *after))


def check_pure_and_batched(env: JaxEnv, reset: Reset, step: Step, seed: int) -> None:
    """Compares a second, batched compilation over two seeds with the two seeds alone.

    A step that depends on anything but its arguments differs when it is traced again. One that cannot carry a leading
    axis of seeds fails here.
    """
    keys = jax.random.split(jax.random.key(seed), 2)
    began = [reset(key) for key in keys]
    rng = np.random.default_rng(seed)
    actions = [random_action(rng, env, timestep) for _, timestep in began]
    went_on = [step(state, action) for (state, _), action in zip(began, actions, strict=True)]
    if not all(same(out, step(began[i][0], actions[i]), exact=True) for i, out in enumerate(went_on)):
        raise EnvError("`step` is not deterministic: the same state and action gave two different results.")

    def both(key: Array, action: Array) -> tuple[PyTree, PyTree]:
        start = env.reset(key)
        return start, env.step(start[0], action)

    try:
        batched = to_numpy(compiled(jax.vmap(both))(keys, np.stack(actions)))
    except Exception:  # find out which of the two failed; tracing is slow, so only now
        states, _ = guard("reset", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.reset), keys))
        guard("step", "vmapped over seeds", lambda: jax.eval_shape(jax.vmap(env.step), states, np.stack(actions)))
        raise
    for method, alone, pair in zip(("reset", "step"), (began, went_on), batched, strict=True):
        if all(same(one, jax.tree.map(lambda x, i=i: x[i], pair)) for i, one in enumerate(alone)):
            continue
        afresh = compiled(both)(keys[0], actions[0])[method == "step"]
        if not same(alone[0], afresh):
            raise EnvError(f"`{method}` is not pure: traced again, the same arguments gave another result.")
        raise EnvError(f"`{method}` vmapped over seeds gives other results than each seed alone.")
