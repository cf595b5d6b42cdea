"""The simulators of a run: S seeds × (N training + E greedy) environments, in groups.

While some groups step on the CPU, the actions of the others are computed on the accelerator. Every environment has a
seed of its own, so its episodes do not depend on its group.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeGuard, TypeVar

import numpy as np
from jax.typing import ArrayLike

from pqn.envs.check.promises import check_fields
from pqn.envs.contract import HostEnv
from pqn.errors import EnvFailed, PqnError
from pqn.programs.simulators.cores import division, on_simulators_cores
from pqn.programs.simulators.groups import Group
from pqn.types import Array, EnvSpec, TimeStep

T = TypeVar("T")


class SavableEnv(HostEnv, Protocol):
    """A `HostEnv` with its two optional methods."""

    def save(self) -> Mapping[str, np.ndarray]: ...

    def restore(self, saved: dict[str, np.ndarray]) -> TimeStep: ...


def is_savable(env: HostEnv) -> TypeGuard[SavableEnv]:
    return hasattr(env, "save") and hasattr(env, "restore")


def _has_form(timestep: TimeStep, env: HostEnv) -> bool:
    """Whether what is most easily wrong has its shape: the rest was checked before the run, and would take too long."""
    spec, obs = env.spec, timestep.obs
    wanted = (env.num_envs, spec.num_agents, *spec.obs_shape)
    return obs.shape == wanted and obs.dtype == spec.obs_dtype and timestep.reward.shape == wanted[:1]


class Simulators:
    """One `HostEnv` for each group.

    Simulators with threads of their own share the cores evenly. If all groups stepped at once, they would finish at the
    same time, and would then all wait for actions. So at most two groups hold `stepping`: one uses the cores that the
    other leaves free, while the actions of the rest are computed.

    Arrays go in and come out with the axes [S, n, ...], n being the group's environments of each seed. Whatever a
    simulator raises becomes an `EnvFailed`, and the simulators are `broken` from then on.

    Args:
      make_env: makes a `HostEnv` of a given size; called once for each group.
      num_seeds: S.
      groups: which environments belong together.
      reserve_cores: whether simulators may be given cores of their own.
      first_seed: the number of the first of the S seeds, for errors.
    """

    def __init__(
        self,
        make_env: Callable[[int], HostEnv],
        num_seeds: int,
        groups: Sequence[Group],
        reserve_cores: bool = True,
        first_seed: int = 0,
    ):
        self.num_seeds, self.first_seed, self.groups = num_seeds, first_seed, groups
        self.broken = False
        self.stepping = threading.Semaphore(2)
        self.envs: list[HostEnv] = []
        with contextlib.ExitStack() as unless_made:
            unless_made.callback(self.close)
            for group in groups:
                self.envs.append(self._call("be made", partial(make_env, num_seeds * group.size)))
            unless_made.pop_all()
        self.concurrent = all(getattr(env, "concurrent", False) for env in self.envs)
        self.cores = division(self.concurrent) if reserve_cores else None
        self.stacks = all(getattr(env, "stacks", False) for env in self.envs)
        self.can_save = all(is_savable(env) for env in self.envs)

    def reset(self, train_seeds: np.ndarray, greedy_seeds: np.ndarray) -> list[TimeStep]:
        """Starts all episodes, from seeds [S, N] and [S, E]."""
        out = []
        for group, env in zip(self.groups, self.envs, strict=True):
            seeds = np.concatenate([train_seeds[:, group.train], greedy_seeds[:, group.greedy]], axis=1).ravel()
            timestep = self._call("reset", partial(on_simulators_cores, self.cores, partial(env.reset, seeds)))
            check_fields("reset", timestep, env.spec, env.num_envs)
            out.append(self._checked(env.spec, self._by_seed(timestep)))
        return out

    def send(self, group: int, action: np.ndarray) -> None:
        """Starts a step of a group with actions [S, n, M]."""
        env = self.envs[group]
        flat = action.reshape(-1, *action.shape[2:])
        try:
            env.send(flat)
        except Exception as error:
            raise self._failed("step", error) from error

    def recv(self, group: int) -> TimeStep:
        """The outcome of that step; the arrays are the simulator's own and may change with its next step."""
        env = self.envs[group]
        try:
            received = env.recv()
            if not _has_form(received, env):
                check_fields("recv", received, env.spec, env.num_envs)
            timestep = self._by_seed(received)
        except Exception as error:
            raise self._failed("step", error) from error
        return self._checked(env.spec, timestep)

    def save(self) -> tuple[dict[str, np.ndarray], ...]:
        """The state of every simulator, where all of them `can_save`."""

        def saved(env: SavableEnv) -> dict[str, np.ndarray]:
            return dict(env.save())

        return tuple(self._call("be saved", partial(saved, env)) for env in self.envs if is_savable(env))

    def restore(self, saved: Sequence[Mapping[str, ArrayLike]]) -> None:
        """The inverse of `save`."""
        for env, state in zip(filter(is_savable, self.envs), saved, strict=True):
            arrays = {name: np.asarray(value) for name, value in state.items()}
            self._call("be restored", partial(env.restore, arrays))

    def close(self) -> None:
        """Frees threads and processes. Errors are raised only if the simulators were not `broken` before."""
        broken, failures = self.broken, []
        for env in self.envs:
            try:
                env.close()
            except Exception as error:
                failures.append(self._failed("be closed", error))
        if failures and not broken:
            raise failures[0]

    def _checked(self, spec: EnvSpec, timestep: TimeStep) -> TimeStep:
        """The time step, if its numbers are finite and its truncations announced: learning relies on both."""
        if not np.isfinite(timestep.reward).all():
            raise self._not_finite(spec, timestep.reward, "reward")
        if timestep.obs.dtype.kind == "f":
            if not np.isfinite(timestep.obs).all():
                raise self._not_finite(spec, timestep.obs, "observation")
            if timestep.final_obs is not None and not np.isfinite(timestep.final_obs[timestep.truncated]).all():
                final = np.array(timestep.final_obs)
                final[~np.asarray(timestep.truncated)] = 0.0  # where nothing was truncated, anything is allowed
                raise self._not_finite(spec, final, "final observation")
        if not spec.truncates and timestep.truncated.any():
            self.broken = True
            raise EnvFailed(f"{spec.name} truncated an episode although spec.truncates is False")
        return timestep

    def _not_finite(self, spec: EnvSpec, values: ArrayLike, what: str) -> EnvFailed:
        self.broken = True
        seed = self.first_seed + int(np.argwhere(~np.isfinite(np.asarray(values)))[0][0])
        return EnvFailed(f"seed {seed}: {spec.name} gave a NaN or infinite {what}")

    def _by_seed(self, timestep: TimeStep) -> TimeStep:
        def split(x: Array) -> Array:
            return x.reshape(self.num_seeds, -1, *x.shape[1:])

        # Without jax.tree.map, which would take as long as everything else that is done with a step.
        fields = timestep._asdict()
        info = {name: split(value) for name, value in fields.pop("info").items()}
        given = {name: split(value) for name, value in fields.items() if value is not None}
        return timestep._replace(**given, info=info)

    def _call(self, what: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except PqnError:
            raise
        except Exception as error:
            raise self._failed(what, error) from error

    def _failed(self, what: str, error: Exception) -> EnvFailed:
        self.broken = True
        lines = str(error).strip().splitlines()
        name = self.envs[0].spec.name if self.envs else "the environment"
        if isinstance(error, EOFError | ConnectionError | BrokenPipeError):
            return EnvFailed(f"a worker process of {name} died ({type(error).__name__})")
        said = f": {lines[0].rstrip('.')}" if lines else ""
        return EnvFailed(f"{name} could not {what}: it raised {type(error).__name__}{said}")
