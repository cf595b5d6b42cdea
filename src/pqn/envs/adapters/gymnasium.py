"""Any Gymnasium environment with discrete actions: `gymnasium:LunarLander-v3`.

Options of `env.kwargs`: `vectorization_mode` (`sync`: in this process; `async`: a process for each environment;
`vector_entry_point`: the environment's own vectorised form), `autoreset_mode` (`same_step`, `next_step`, `disabled`),
`context` (how processes are started); all others go to `gymnasium.make`.

Every autoreset mode is mapped to the contract. `same_step` is the contract. With `disabled`, this adapter resets within
the step. A vectorised form of an environment's own often has `next_step` only: there the step after an episode's end
ignores the action and only resets. Such a step is marked as no transition (`TimeStep.valid`).
"""

from __future__ import annotations

import difflib
import inspect
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import DTypeLike

from pqn.errors import EnvError
from pqn.types import EnvSpec, TimeStep

T = TypeVar("T")

MODES = {mode.name.lower(): mode for mode in AutoresetMode}
VECTORISATIONS = ("sync", "async", "vector_entry_point")
MOST_STATES = 10_000  # of a discrete observation, which becomes one-hot


def make(
    name: str,
    num_envs: int,
    vectorization_mode: str = "sync",
    autoreset_mode: str = "same_step",
    context: str = "forkserver",
    **kwargs: object,
) -> GymnasiumEnv:
    """N copies of the environment that Gymnasium knows as `name`.

    Raises:
      EnvError: no such environment, options it does not take, or spaces that Q-learning cannot use.
    """
    full = f"gymnasium:{name}"
    for option, value, known in (
        ("vectorization_mode", vectorization_mode, VECTORISATIONS),
        ("autoreset_mode", autoreset_mode, tuple(MODES)),
    ):
        if value not in known:
            raise EnvError(f"{full}: {option} is {value!r}; it must be one of {', '.join(known)}.")
    drawing = {**kwargs, "render_mode": "rgb_array"}
    if vectorization_mode == "vector_entry_point":
        vectorised = partial(gymnasium.make_vec, name, num_envs, vectorization_mode)
        envs = _explained(full, partial(vectorised, **kwargs))
        return GymnasiumEnv(spec_of(full, envs), num_envs, lambda: envs, start_drawing=partial(vectorised, **drawing))
    one = _explained(full, _Builder(name, kwargs))
    spec = spec_of(full, one)
    one.close()
    mode = MODES[autoreset_mode]
    concurrent = vectorization_mode == "async"
    join = partial(AsyncVectorEnv, context=start_method(context)) if concurrent else SyncVectorEnv
    start, start_drawing = (
        partial(join, [_Builder(name, options)] * num_envs, copy=False, autoreset_mode=mode)
        for options in (kwargs, drawing)
    )
    return GymnasiumEnv(spec, num_envs, start, concurrent, start_drawing, _Builder(name, kwargs))


def is_harmless(name: str, options: Mapping[str, object]) -> bool:
    """Whether making this environment runs code of Gymnasium only.

    It does not if the id names a module to import ("module:Name-v0"), if a plugin has registered the id, or if an
    option could be a path or another id.
    """
    words = all(
        isinstance(value, bool | int | float) or (isinstance(value, str) and re.fullmatch(r"[\w+-]{0,64}", value))
        for value in options.values()
    )
    return words and "render_mode" not in options and ":" not in name and _is_own(name)


def is_known(name: str) -> bool:
    """Whether Gymnasium has an environment of this id."""
    return name in gymnasium.registry


def _is_own(name: str) -> bool:
    """Whether Gymnasium itself brings the environment of this id."""
    spec = gymnasium.registry.get(name)
    entry = None if spec is None else spec.entry_point
    module = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return module.startswith("gymnasium.")


class GymnasiumEnv:
    """A Gymnasium vector environment under the `HostEnv` contract. It is started by the first `reset`.

    Args:
      spec: of one environment.
      num_envs: N.
      start: makes the vector environment.
      concurrent: whether it has processes of its own.
      start_drawing: makes one that can draw pictures of itself.
      make_one: makes one of its environments, to find out why they fail.
    """

    def __init__(
        self,
        spec: EnvSpec,
        num_envs: int,
        start: Callable[[], VectorEnv],
        concurrent: bool = False,
        start_drawing: Callable[[], VectorEnv] | None = None,
        make_one: Callable[[], gymnasium.Env] | None = None,
    ):
        self.spec, self.num_envs, self.concurrent = spec, num_envs, concurrent
        self._make_one = make_one
        self._start, self._start_drawing = start, start_drawing
        self._envs: Any = None
        self._action: np.ndarray | None = None  # sent, and its outcome not yet received

    def reset(self, seeds: np.ndarray) -> TimeStep:
        if self._envs is None:
            self._envs = self._start()
            self._mode = autoreset_mode_of(self._envs)
            self._convert = _converter(self._envs.single_observation_space, self.spec)
            self._first_action = int(self._envs.single_action_space.start)
        own = isinstance(self._envs, SyncVectorEnv | AsyncVectorEnv)
        # A vectorised form of the environment's own has one generator for all, which takes one number.
        seed: Any = [int(seed) for seed in seeds] if own else int(np.bitwise_xor.reduce(seeds))
        obs, _ = self._envs.reset(seed=seed)
        self._over = np.zeros(self.num_envs, bool)
        no, obs = np.zeros(self.num_envs, bool), self._convert(obs)
        return _time_step(
            obs=obs,
            first=np.ones((self.num_envs, 1), bool),
            reward=np.zeros(self.num_envs, np.float32),
            terminated=no,
            truncated=no,
            final_obs=np.zeros_like(obs),
            valid=~no if self._mode is AutoresetMode.NEXT_STEP else None,
        )

    def send(self, action: np.ndarray) -> None:
        self._action = action[:, 0].astype(np.int64) + self._first_action
        if self.concurrent:
            self._envs.step_async(self._action)

    def recv(self) -> TimeStep:
        obs, reward, terminated, truncated, info = (
            self._envs.step_wait() if self.concurrent else self._envs.step(self._action)
        )
        self._action = None
        terminated = np.asarray(terminated, bool)
        truncated = np.asarray(truncated, bool) & ~terminated  # where both are claimed, the task has ended
        done = terminated | truncated
        obs, first, valid = self._convert(obs), done, None
        final_obs = obs
        if self._mode is AutoresetMode.SAME_STEP:
            if truncated.any():
                final_obs = obs.copy()
                final_obs[truncated] = self._convert(np.stack(info["final_obs"][truncated]))
        elif self._mode is AutoresetMode.DISABLED:
            if done.any():
                final_obs = obs.copy()
                obs = self._convert(self._envs.reset(options={"reset_mask": done})[0])
        else:  # the episodes that were over have only been reset by this step
            first, valid = self._over, ~self._over
            self._over = done
        return _time_step(
            obs=obs,
            first=first[:, None],
            reward=np.asarray(reward, np.float32),
            terminated=terminated,
            truncated=truncated,
            final_obs=final_obs,
            valid=valid,
        )

    def diagnose(self) -> str | None:
        """Why these environments could not be reset or stepped: the rule of Gymnasium that one of them breaks."""
        if self._make_one is None:
            return None
        env = self._make_one()
        try:
            return _broken_rule(self.spec.name, env.unwrapped)  # a wrapper would raise first
        finally:
            env.close()

    def prepare_render(self) -> None:
        """Starts environments that draw: Gymnasium decides it when one is made."""
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame draws most of them, and would look for a sound card
        self._start = self._start_drawing or self._start

    def render(self) -> np.ndarray:
        """Pictures [N, height, width, 3].

        Raises:
          EnvError: the environment has no pictures, or a package that draws them is missing.
        """
        try:
            pictures = _explained(self.spec.name, self._envs.render)
        except NotImplementedError:  # of gymnasium.Env, whose method an environment may leave as it is
            pictures = None
        if pictures is None or any(picture is None for picture in pictures):
            raise EnvError(f"{self.spec.name} has no pictures: it has no render mode rgb_array.")
        return np.stack(pictures)

    def close(self) -> None:
        envs, self._envs = self._envs, None
        if envs is None:
            return
        if self.concurrent and self._action is not None:  # a process without an answer may be dead: do not ask it
            for process in envs.processes:
                process.terminate()
            envs.closed = True
        else:
            envs.close()


def _time_step(**fields: np.ndarray | None) -> TimeStep:
    """A time step of numpy arrays, as the contract of `HostEnv` has it; the type of its fields is that of jax."""
    return TimeStep(**cast(dict[str, Any], fields))


class _Builder:
    """Makes one environment, here or in a process of its own."""

    def __init__(self, name: str, kwargs: dict[str, object]):
        self.name, self.kwargs = name, kwargs

    def __call__(self) -> gymnasium.Env:
        if multiprocessing.parent_process() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its processes itself
        return gymnasium.make(self.name, disable_env_checker=True, **cast(dict[str, Any], self.kwargs))


def start_method(context: str = "forkserver") -> str:
    """How processes are started: not by a fork, which JAX does not survive."""
    known = multiprocessing.get_all_start_methods()
    return context if context in known else "spawn"


def autoreset_mode_of(envs: VectorEnv) -> AutoresetMode:
    """How a vector environment resets. Where its metadata do not say so, it is the older default of Gymnasium."""
    mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    return mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)


def spec_of(name: str, env: gymnasium.Env | VectorEnv) -> EnvSpec:
    """From the spaces of an environment, or of a vector environment, to a spec."""
    if isinstance(env, VectorEnv):
        action, obs = env.single_action_space, env.single_observation_space
    else:
        action, obs = env.action_space, env.observation_space
    if isinstance(action, spaces.Box):
        raise EnvError(f"{name} has continuous actions, and Q-learning takes a maximum over finitely many.")
    if not isinstance(action, spaces.Discrete):
        raise EnvError(f"{name} has actions of kind {type(action).__name__}; only Discrete ones are supported.")
    shape, dtype = _obs_form(name, obs)
    limit = env.spec.max_episode_steps if env.spec is not None and _is_limited(env) else None
    return EnvSpec(name, shape, np.dtype(dtype), int(action.n), max_episode_steps=limit, truncates=True)


def _is_limited(env: gymnasium.Env | VectorEnv) -> bool:
    """Whether the limit that its spec names is applied: one that was taken out of its wrappers still names it."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return True
        env = env.env
    return isinstance(env, VectorEnv)


def _obs_form(name: str, space: spaces.Space) -> tuple[tuple[int, ...], DTypeLike]:
    if isinstance(space, spaces.Discrete):
        if space.n > MOST_STATES:
            raise EnvError(f"{name} has {space.n} discrete observations; more than {MOST_STATES} are not made one-hot.")
        return (int(space.n),), bool
    if isinstance(space, spaces.MultiBinary):
        return tuple(space.shape), bool
    if isinstance(space, spaces.Box):
        return tuple(space.shape) or (1,), space.dtype if space.dtype in (np.uint8, bool) else np.float32
    raise EnvError(
        f"{name} has observations of kind {type(space).__name__}; only Box, Discrete and MultiBinary are supported: "
        "flatten them with gymnasium.wrappers.FlattenObservation; what it makes can be given as env in Python, or "
        "registered."
    )


def _converter(space: spaces.Space, spec: EnvSpec) -> Callable[[np.ndarray], np.ndarray]:
    """From Gymnasium's observations [N, ...] to ours [N, 1, *obs_shape]; no copy where none is needed."""
    if isinstance(space, spaces.Discrete):
        states = int(space.start) + np.arange(int(space.n))

        def one_hot(obs: np.ndarray) -> np.ndarray:
            hot = np.asarray(obs)[:, None] == states
            if not hot.any(axis=-1).all():
                raise ValueError(f"the observation {np.asarray(obs)[~hot.any(axis=-1)][0]} is not in {space}")
            return hot[:, None]

        return one_hot
    return lambda obs: np.asarray(obs).astype(spec.obs_dtype, copy=False).reshape(len(obs), 1, *spec.obs_shape)


def _broken_rule(name: str, env: gymnasium.Env) -> str | None:
    """What an environment returns that Gymnasium does not allow; None where it returns what it should, or raises."""
    parameters = inspect.signature(env.reset).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not takes_any and not {"seed", "options"} <= parameters.keys():
        return f"`reset` of {name} must take seed and options, as reset(self, *, seed=None, options=None)."
    first: Any = env.reset(seed=0)
    if not isinstance(first, tuple) or len(first) != 2:
        return f"`reset` of {name} must return two things, the observation and a dict; so it is since Gym 0.26."
    then: Any = env.step(env.action_space.sample())
    if not isinstance(then, tuple) or len(then) != 5:
        return (
            f"`step` of {name} must return five things: the observation, the reward, terminated, truncated and a dict; "
            "so it is since Gym 0.26."
        )
    wanted = env.observation_space.shape
    for method, obs in (("reset", first[0]), ("step", then[0])):
        if wanted is not None and np.shape(obs) != wanted:
            return f"an observation of `{method}` of {name} has shape {np.shape(obs)}, but its space says {wanted}."
    if np.shape(then[1]):
        return f"the reward of {name} has shape {np.shape(then[1])}; it must be one number."
    return None


def _explained(name: str, build: Callable[[], T]) -> T:
    """Calls `build`; what Gymnasium raises about a name or an option becomes an `EnvError` of one sentence."""
    try:
        return build()
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvError(f"{name} cannot be made: {_first_line(error)}") from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.Error, ModuleNotFoundError) as error:
        short = name.partition(":")[2]
        if short in gymnasium.registry:
            raise EnvError(f"{name} cannot be made: {_first_line(error)}") from error
        raise EnvError(f"Gymnasium knows no environment {short!r}{_near(short)}") from error
    except TypeError as error:
        raise EnvError(f"{name} cannot be made with these options: {_first_line(error)}") from error


def _near(name: str) -> str:
    known = {key.lower(): key for key in gymnasium.registry}
    stem = name.lower().partition("-")[0]
    close = [full for key, full in known.items() if key.rpartition("/")[2].partition("-")[0] == stem]
    close = close or [known[key] for key in difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)]
    return f", did you mean {' or '.join(close[:3])}?" if close else "; `gymnasium.pprint_registry()` lists them all."


def _first_line(error: Exception) -> str:
    lines = inspect.cleandoc(str(error)).splitlines()
    return lines[0].rstrip(".") + "." if lines else f"{type(error).__name__}."
