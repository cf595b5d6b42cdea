"""gymnax environments (classic control, MinAtar, bsuite, misc) under the project's contract.

gymnax's own `step` resets by itself and computes two observations at every step. Here `step_env` and `reset_env`, one
layer below, are used, and `Autoreset` does the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.options import as_number
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree

if TYPE_CHECKING:
    from gymnax.environments.environment import Environment

# Observations of these are 0 or 1 by construction (a test steps every one of them). Stored as bool they take a quarter
# of the memory of gymnax's float32.
_BINARY = {
    "Asterix-MinAtar",
    "Breakout-MinAtar",
    "Freeway-MinAtar",
    "Seaquest-MinAtar",
    "SpaceInvaders-MinAtar",
    "Catch-bsuite",
    "DeepSea-bsuite",
    "Pong-misc",
}

# Tasks whose clock is in the observation: the limit is part of the task, and nothing is ever seen after it. Their time
# limit terminates. Everywhere else the agent cannot see the limit, so it truncates (Pardo et al. 2018, "Time limits in
# reinforcement learning").
_LIMIT_IS_THE_TASK = {"DiscountingChain-bsuite", "BernoulliBandit-misc", "GaussianBandit-misc", "MetaMaze-misc"}

# Tasks that always terminate after a known number of steps: their (longer) time limit never acts.
_NATURAL_LENGTH: dict[str, Callable[..., int]] = {
    "Catch-bsuite": lambda env, params: env.rows - 1,
    "DeepSea-bsuite": lambda env, params: env.size,
    "MemoryChain-bsuite": lambda env, params: params.memory_length + 1,
    "SimpleBandit-bsuite": lambda env, params: 1,
    "UmbrellaChain-bsuite": lambda env, params: params.chain_length,
}


class GymnaxEnv:
    """One gymnax environment as a `SingleEnv`.

    Args:
      name: a gymnax id such as "CartPole-v1".
      observe: which numbers of a flat observation the agent sees, by index; `[0, 2]` hides CartPole's velocities.
      kwargs: constructor arguments and `EnvParams` fields of that environment, distinguished by their names.

    Raises:
      EnvError: no discrete actions, an option that does not exist, or a value that gymnax refuses.
    """

    def __init__(self, name: str, observe: Sequence[int] | None = None, **kwargs: object):
        gymnax = import_gymnax()
        self.observe = None  # until the shape of the whole observation is known
        factory = gymnax.registration._registry[name]
        self.env, self.params = _build(name, factory, kwargs)
        space = self.env.action_space(self.params)
        if not hasattr(space, "n"):
            raise EnvError(f"{name} has continuous actions, and Q-learning takes a maximum over finitely many.")
        self.limit = math.ceil(self.params.max_steps_in_episode)
        self.limit_terminates = name in _LIMIT_IS_THE_TASK
        longest = _NATURAL_LENGTH.get(name, lambda *_: math.inf)(self.env, self.params)
        obs_space = self.env.observation_space(self.params)
        self.one_hot = int(obs_space.n) if hasattr(obs_space, "n") else None
        raw, self._state_like = self._shapes()
        if not hasattr(raw, "shape"):
            raise EnvError(f"{name} has an observation of several parts; give it one array.")
        binary = self.one_hot is not None or name in _BINARY
        shape = raw.shape if self.one_hot is None else (self.one_hot,)
        self.observe = _indices(name, observe, shape)
        self.spec = EnvSpec(
            name=name,
            obs_shape=shape if self.observe is None else (len(self.observe),),
            obs_dtype=np.dtype(bool if binary else np.float32),
            num_actions=int(space.n),
            max_episode_steps=int(min(longest, self.limit)),
            truncates=longest > self.limit and not self.limit_terminates,
        )

    def reset(self, key: Array) -> tuple[PyTree, Array]:
        obs, state = self.env.reset_env(key, self.params)
        return self._settle(state), self._encode(obs)

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        obs, state, reward, terminated, _ = self.env.step_env(key, state, action, self.params)
        over = self.env.is_truncated(state, self.params)
        if self.limit_terminates:
            terminated = terminated | over
        truncated = over if self.spec.truncates else False
        return Outcome(self._settle(state), self._encode(obs), jnp.asarray(reward), jnp.asarray(terminated), truncated)

    def _encode(self, obs: Array) -> Array:
        if self.one_hot is not None:
            obs = jax.nn.one_hot(obs, self.one_hot, dtype=bool)
        obs = jnp.asarray(obs).astype(self.spec.obs_dtype)
        return obs if self.observe is None else obs[jnp.asarray(self.observe)]

    def _settle(self, state: PyTree) -> PyTree:
        """Gives every leaf one dtype: gymnax resets some counters as Python numbers and steps them as arrays."""
        return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), state, self._state_like)

    def _shapes(self) -> tuple[PyTree, PyTree]:
        """Abstract observation and state, the state with the dtypes that both reset and step can hold."""
        key = jax.random.key(0)
        obs, first = jax.eval_shape(lambda k: self.env.reset_env(k, self.params), key)
        after = jax.eval_shape(lambda k, s: self.env.step_env(k, s, jnp.int32(0), self.params)[1], key, first)
        like = jax.tree.map(
            lambda a, b: jax.ShapeDtypeStruct(b.shape, jnp.promote_types(a.dtype, b.dtype)), first, after
        )
        return obs, like


def make(name: str, num_envs: int, observe: Sequence[int] | None = None, **kwargs: object) -> Autoreset:
    """N copies of the gymnax environment `name` with same-step autoreset."""
    return Autoreset(GymnaxEnv(name, observe, **kwargs), num_envs)


def ensure_installed() -> None:
    """Raises ModuleNotFoundError when gymnax, or a package that gymnax needs, is missing."""
    import_gymnax()


def is_registered(name: str) -> bool:
    """Whether gymnax knows `name` in this process, which includes what the user has registered there."""
    return name in import_gymnax().registered_envs


def _build(name: str, factory: Callable[..., Environment], kwargs: Mapping[str, object]) -> tuple[Environment, PyTree]:
    """Splits kwargs between constructor and EnvParams, and builds both."""
    arguments = [p for p in inspect.signature(factory).parameters if p not in ("self", "args", "kwargs")]
    for_constructor = {key: value for key, value in kwargs.items() if key in arguments}
    mapping = for_constructor.get("action_mapping_key")
    if isinstance(mapping, int):  # a command line can only give DeepSea a number
        for_constructor["action_mapping_key"] = jax.random.key(mapping)
    try:
        env = factory(**for_constructor)
    except (ValueError, TypeError, AssertionError, KeyError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in for_constructor.items())
        raise EnvError(
            f"{name} cannot be built with {given}: {str(error) or 'gymnax refuses these values'}."
        ) from error
    params: Any = env.default_params
    fields = vars(params)
    unknown = [key for key in kwargs if key not in arguments and key not in fields]
    if unknown:
        valid = ", ".join(sorted({*arguments, *fields}))
        raise EnvError(f"{name} has no option {unknown[0]!r}; its options are {valid}.")
    changes = {key: _like(name, key, value, fields[key]) for key, value in kwargs.items() if key in fields}
    changed = params.replace(**changes)
    if changed.max_steps_in_episode < 1:
        raise EnvError(f"{name}: max_steps_in_episode must be at least 1, not {changed.max_steps_in_episode}.")
    return env, changed


def _indices(name: str, observe: object, shape: tuple[int, ...]) -> list[int] | None:
    """Checks the option `observe` against the shape of an observation."""
    if observe is None:
        return None
    if len(shape) != 1:
        raise EnvError(f"{name}: observe picks numbers of a flat observation; this one has shape {shape}.")
    chosen = list(observe) if isinstance(observe, Sequence) and not isinstance(observe, str) else []
    if not chosen or any(not isinstance(i, int) or not 0 <= i < shape[0] for i in chosen):
        raise EnvError(f"{name}: observe must list indices from 0 to {shape[0] - 1}, not {observe!r}.")
    return chosen


def _like(name: str, key: str, value: object, default: ArrayLike) -> ArrayLike:
    """Checks `value` against the kind of `default`, so that a wrong one fails here and not while jax is tracing."""
    if isinstance(default, bool):
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise EnvError(f"{name}: {key} must be true or false, not {value!r}.")
    if isinstance(default, int | float):
        number = as_number(value)
        if number is not None and math.isfinite(number) and (isinstance(default, float) or float(number).is_integer()):
            return type(default)(number)
        kind = "an integer" if isinstance(default, int) else "a number"
        raise EnvError(f"{name}: {key} must be {kind}, not {value!r}.")
    array, default = jnp.asarray(value), jnp.asarray(default)
    if array.shape != default.shape:
        raise EnvError(f"{name}: {key} must have the shape {default.shape}, not {array.shape}.")
    return array.astype(default.dtype)


def import_gymnax() -> types.ModuleType:
    """Imports gymnax without the plotting libraries that it loads up front and only needs for drawing.

    matplotlib and seaborn take two thirds of gymnax's import time. While gymnax loads, they are replaced by modules
    that load the real ones when first used. Afterwards none of these replacements is left in `sys.modules`.
    """
    if "gymnax" not in sys.modules:
        with _deferred("matplotlib", "seaborn"):
            importlib.import_module("gymnax")
    return sys.modules["gymnax"]


@contextlib.contextmanager
def _deferred(*packages: str) -> Iterator[None]:
    """Within the block, importing one of `packages` (unless already loaded) yields a `_DeferredModule`."""
    finder = _DeferringFinder({package for package in packages if package not in sys.modules})
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in list(sys.modules.items()):
            if isinstance(module, _DeferredModule):
                del sys.modules[name]


class _DeferredModule(types.ModuleType):
    """Replaces a module and imports the real one at the first use of an attribute."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self or name.startswith("__"):
            # Still loading: `from matplotlib import colors` looks for the attribute before it tries the submodule.
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


class _DeferringFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: set[str]):
        self.packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _DeferredModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass
