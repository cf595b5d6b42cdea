"""The simulators of a run: S seeds × (N training + E greedy) environments, split into groups.

While some groups step on the CPU, the actions of the others are computed on the accelerator. Every environment has a
seed of its own, so which group it is in changes nothing about what it does.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pqn.envs.check.promises import check_fields
from pqn.envs.contract import HostEnv
from pqn.errors import EnvFailed, PqnError
from pqn.programs.simulators.cores import division, on_simulators_cores
from pqn.types import EnvSpec, TimeStep


class Share(NamedTuple):
    """The environments of one group, as ranges of the N training and E greedy environments of each seed."""

    train: slice
    beside: slice

    @property
    def num_train(self) -> int:
        return self.train.stop - self.train.start

    @property
    def size(self) -> int:
        """Environments per seed; the training ones come first."""
        return self.num_train + self.beside.stop - self.beside.start


def shares(num_train: int, num_beside: int, groups: int) -> list[Share]:
    """Splits the environments of a seed as evenly as they go: larger parts of one kind meet smaller ones of the other.

    >>> [share.size for share in shares(5, 3, 2)]
    [4, 4]
    """
    train = _split(num_train, groups)
    beside = _split(num_beside, groups)[::-1]
    ends = np.cumsum([0, *(part.stop - part.start for part in beside)])
    return [Share(a, slice(int(b), int(c))) for a, (b, c) in zip(train, itertools.pairwise(ends), strict=True)]


def _split(count: int, parts: int) -> list[slice]:
    ends = [-(-count * i // parts) for i in range(parts + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]


class Pool:
    """The groups and their simulators.

    Simulators with threads of their own share their cores evenly. With all groups `under_way` at once they would also
    be done at the same time, and then all wait for actions. So no more than two are: one fills the gaps of the other
    while the rest have their actions computed.

    Arrays go in and come out with the axes [S, n, ...], n being the group's environments of each seed. Whatever a
    simulator raises becomes an `EnvFailed`, and the pool is `broken` from then on.

    Args:
      make_env: makes a `HostEnv` of a given size; called once for each group.
      num_seeds, num_train, num_beside: S, N and E.
      groups: how many; fewer where there are fewer training environments.
      apart: whether simulators and the rest of the program may be given cores of their own.
      first_seed: what the first of the S seeds is called in errors.
    """

    def __init__(
        self,
        make_env: Callable[[int], HostEnv],
        num_seeds: int,
        num_train: int,
        num_beside: int,
        groups: int = 2,
        apart: bool = True,
        first_seed: int = 0,
    ):
        self.num_seeds, self.first_seed = num_seeds, first_seed
        self.shares = shares(num_train, num_beside, min(groups, num_train))
        self.broken = False
        self.under_way = threading.Semaphore(2)
        self.envs: list[HostEnv] = []
        for share in self.shares:
            self.envs.append(self._call("be made", lambda n=num_seeds * share.size: make_env(n)))
        self.concurrent = all(getattr(env, "concurrent", False) for env in self.envs)
        self.cores = division(self.concurrent) if apart else None
        self.stacks = all(getattr(env, "stacks", False) for env in self.envs)
        self.can_save = all(hasattr(env, "save") and hasattr(env, "restore") for env in self.envs)

    def reset(self, train_seeds: np.ndarray, beside_seeds: np.ndarray) -> list[TimeStep]:
        """Starts all episodes, from seeds [S, N] and [S, E]."""
        out = []
        for share, env in zip(self.shares, self.envs, strict=True):
            seeds = np.concatenate([train_seeds[:, share.train], beside_seeds[:, share.beside]], axis=1).ravel()
            timestep = self._call("reset", partial(on_simulators_cores, self.cores, partial(env.reset, seeds)))
            check_fields("reset", timestep, env.spec, env.num_envs)
            out.append(self._sound(env.spec, self._by_seed(timestep)))
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
            timestep = self._by_seed(env.recv())
        except Exception as error:
            raise self._failed("step", error) from error
        return self._sound(env.spec, timestep)

    def save(self) -> tuple[dict[str, np.ndarray], ...]:
        """Where every simulator stands."""
        return tuple(self._call("be saved", lambda env=env: dict(env.save())) for env in self.envs)  # type: ignore

    def restore(self, saved: Sequence[dict[str, Any]]) -> None:
        for env, one in zip(self.envs, saved, strict=True):
            arrays = {name: np.asarray(value) for name, value in one.items()}
            self._call("be restored", lambda env=env, arrays=arrays: env.restore(arrays))  # type: ignore

    def close(self) -> None:
        """Frees threads and processes; what a broken simulator has to say about that no longer matters."""
        broken, failures = self.broken, []
        for env in self.envs:
            try:
                env.close()
            except Exception as error:
                failures.append(self._failed("be closed", error))
        if failures and not broken:
            raise failures[0]

    def _sound(self, spec: EnvSpec, timestep: Any) -> TimeStep:
        """The time step, if its numbers are finite and its truncations announced: else learning would get it wrong."""
        if not np.isfinite(timestep.reward).all():
            raise self._unsound(spec, timestep.reward, "reward")
        if timestep.obs.dtype.kind == "f":
            if not np.isfinite(timestep.obs).all():
                raise self._unsound(spec, timestep.obs, "observation")
            if timestep.final_obs is not None and not np.isfinite(timestep.final_obs[timestep.truncated]).all():
                final = np.array(timestep.final_obs)
                final[~timestep.truncated] = 0.0  # whatever is there, nobody looks
                raise self._unsound(spec, final, "final observation")
        if not spec.truncates and timestep.truncated.any():
            self.broken = True
            raise EnvFailed(f"{spec.name} truncated an episode although spec.truncates is False")
        return timestep

    def _unsound(self, spec: EnvSpec, values: np.ndarray, what: str) -> EnvFailed:
        self.broken = True
        seed = self.first_seed + int(np.argwhere(~np.isfinite(values))[0][0])
        return EnvFailed(f"seed {seed}: {spec.name} gave a NaN or infinite {what}")

    def _by_seed(self, timestep: TimeStep) -> TimeStep:
        def split(x: Any) -> Any:
            return None if x is None else x.reshape(self.num_seeds, -1, *x.shape[1:])

        # By hand: mapping over a tree would take as long as all the rest of a step's bookkeeping.
        info = {name: split(value) for name, value in timestep.info.items()}
        return TimeStep._make(info if field is timestep.info else split(field) for field in timestep)

    def _call(self, what: str, function: Callable[[], Any]) -> Any:
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
        said = f": {lines[0]}" if lines else ""
        return EnvFailed(f"{name} could not {what}: it raised {type(error).__name__}{said}")
