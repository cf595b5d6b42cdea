"""`check_env`: does an environment keep the promises of the contract?

It runs the environment for some steps with random legal actions and raises `EnvError` at the first broken promise, in
one sentence. What it could not check (a truncation that never happened, for example) it mentions in the report.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import cast

import numpy as np

from pqn.envs.autoreset import Autoreset
from pqn.envs.check import host_envs, jax_envs
from pqn.envs.check.declared import check_shapes, check_single, check_spec
from pqn.envs.check.promises import Trace, check_ends, check_final_obs, check_lengths, check_numbers
from pqn.envs.contract import HostEnv, JaxEnv
from pqn.envs.objects import as_env, as_jax_env, is_gymnasium
from pqn.envs.source import given
from pqn.fields import checked
from pqn.options import Copies, Seed, Steps
from pqn.types import EnvSpec, TimeStep

QUICK_STEPS = 3


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """What `check_env` observed; `notes` are remarks that break no promise."""

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


def check_env(env: object, steps: int = 200, seed: int = 0, num_envs: int = 4) -> CheckReport:
    """Checks an environment against the contract of `JaxEnv` or `HostEnv` by running it.

    Args:
      env: a `JaxEnv`; a `SingleEnv`, which is wrapped in `Autoreset` first; a `HostEnv`, which is not closed; an
        environment of Gymnasium, of which copies are run; or what makes one of these: a name, a class or a function, as
        for `pqn.train`.
      steps: how long to run; best are more steps than the longest episode has.
      seed: of the resets and of the random actions.
      num_envs: how many are made or copied; a `JaxEnv` and a `HostEnv` have their own number.

    Raises:
      EnvError: the first broken promise, as one sentence.
      ConfigError: `steps`, `seed` or `num_envs` is out of bounds.
    """
    steps, seed = checked("steps", Steps, steps), checked("seed", Seed, seed)
    num_envs = checked("num_envs", Copies, num_envs)
    if isinstance(env, str | type) or (callable(env) and not hasattr(env, "reset")):
        made = given(env, {})(num_envs)
        if not isinstance(made, HostEnv):
            return _check_jax(made, steps, seed)
        with contextlib.closing(made):
            return _check_host(made, steps, seed)
    source = f"the {type(env).__name__}"
    if is_gymnasium(env):
        with contextlib.closing(cast(HostEnv, as_env(env, num_envs, source))) as copies:
            return _check_host(copies, steps, seed)
    if hasattr(env, "send"):
        return _check_host(cast(HostEnv, as_env(env, getattr(env, "num_envs", 1), source)), steps, seed)
    return _check_jax(as_jax_env(env, getattr(env, "num_envs", num_envs), source), steps, seed)


def check_quickly(env: JaxEnv | HostEnv, seed: int = 0) -> None:
    """The checks of `check_env` that take almost no time: the spec, the shapes, and the first few steps.

    Training does this with every environment that does not come with pqn, before it writes anything.

    Args:
      env: as `as_env` gives it; a `HostEnv` is reset and stepped, and not closed.

    Raises:
      EnvError: the first broken promise, as one sentence.
    """
    check_spec(env)
    if hasattr(env, "send"):
        host = cast(HostEnv, env)
        trace = host_envs.run(host, host_envs.random_seeds(host, seed), QUICK_STEPS, seed)
    else:
        few = env = cast(JaxEnv, env)
        if isinstance(env, Autoreset):
            check_single(env.env)
        check_shapes(env, env.reset, env.step)
        if type(env) is Autoreset:
            few = Autoreset(env.env, 2)  # more copies would show no more
        trace = jax_envs.run(few, jax_envs.compiled(few.reset), jax_envs.compiled(few.step), QUICK_STEPS, seed)
    _check_trace(trace, env.spec, early=hasattr(env, "send"))


def is_ours(env: object) -> bool:
    """Whether an environment, or the one inside `Autoreset`, comes with this package, whose tests check it."""
    inner = env.env if isinstance(env, Autoreset) else env
    kinds = (type(env), type(inner), getattr(env, "made_of", type(env)))
    return all(kind.__module__.partition(".")[0] == "pqn" for kind in kinds)


def _check_jax(env: JaxEnv, steps: int, seed: int) -> CheckReport:
    check_spec(env)
    if isinstance(env, Autoreset):
        check_single(env.env)
    reset, step = jax_envs.compiled(env.reset), jax_envs.compiled(env.step)
    check_shapes(env, reset, step)
    notes = jax_envs.check_reset(env, reset, seed)
    trace = jax_envs.run(env, reset, step, steps, seed)
    lengths = _check_trace(trace, env.spec, early=False)
    if not isinstance(env, Autoreset):  # its final observations are right by construction
        check_final_obs(trace)
    jax_envs.check_pure_and_batched(env, reset, step, seed)
    return _report(env, trace.steps, lengths, notes)


def _check_host(env: HostEnv, steps: int, seed: int) -> CheckReport:
    check_spec(env)
    seeds = host_envs.random_seeds(env, seed)
    notes = host_envs.check_reset(env, seeds)
    trace = host_envs.run(env, seeds, steps, seed)
    host_envs.check_repeatable(env, seeds, trace, seed)
    lengths = _check_trace(trace, env.spec, early=True)
    if trace.steps.valid is None:  # otherwise `obs` itself is the final observation
        check_final_obs(trace)
    if getattr(env, "stacks", False):
        host_envs.check_stacks(trace)
    if hasattr(env, "save"):
        host_envs.check_save(env, seeds, seed)
    return _report(env, trace.steps, lengths, notes)


def _check_trace(trace: Trace, spec: EnvSpec, early: bool) -> list[int]:
    """The promises about time steps, whatever made them; returns the lengths of the finished games."""
    check_ends(trace.steps, spec)
    lengths = check_lengths(trace.steps, spec, early)
    check_numbers(trace)
    return lengths


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
