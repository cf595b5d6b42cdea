"""What the JaxMARL adapters share: a quiet import, and agents as an axis.

jaxmarl keeps a dictionary per agent; the contract wants arrays [M, ...]. The adapters (`smax`, `overcooked`, `hanabi`,
`mpe`) put the values in the order of `env.agents`. They call jaxmarl's `step_env`, because its `step` resets by itself
and loses the last observation.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import NamedTuple, TypeVar

import jax.numpy as jnp

from pqn.errors import EnvError
from pqn.types import Array, PyTree

T = TypeVar("T")


def agent_axis(agents: list[str], values: Mapping[str, Array]) -> Array:
    """name -> [...] to [M, ...], in the order of `agents`; other names, such as "world_state", are left out."""
    return jnp.stack([values[agent] for agent in agents])


def by_agent(agents: list[str], values: Array) -> dict[str, Array]:
    """[M, ...] to name -> [...]."""
    return {agent: values[i] for i, agent in enumerate(agents)}


class Played(NamedTuple):
    """What one step of jaxmarl led to."""

    state: PyTree
    obs: Array  # [M, ...]
    reward: dict[str, Array]  # of each agent, as jaxmarl gives it
    info: dict[str, PyTree]


class TeamGame:
    """An environment of jaxmarl, with arrays [M, ...] instead of a dictionary per agent."""

    env: PyTree

    def reset(self, key: Array) -> tuple[PyTree, Array]:
        """A fresh state and the observations [M, ...]."""
        obs, state = self.env.reset(key)
        return state, self.observed(obs)

    def play(self, key: Array, state: PyTree, action: Array) -> Played:
        """The actions [M] of all agents, without jaxmarl's own reset."""
        obs, state, reward, _, info = self.env.step_env(key, state, by_agent(self.env.agents, action))
        return Played(state, self.observed(obs), reward, info)

    def observed(self, obs: Mapping[str, Array]) -> Array:
        return agent_axis(self.env.agents, obs)


def build(name: str, factory: Callable[..., T], **arguments: object) -> T:
    """Calls jaxmarl's constructor.

    Raises:
      EnvError: jaxmarl rejects the arguments.
    """
    try:
        with warnings.catch_warnings():
            # Overcooked warns about its successor each time one is made; the paper's tasks are of the first version.
            warnings.simplefilter("ignore", DeprecationWarning)
            return factory(**arguments)
    except (AssertionError, ValueError, TypeError) as error:
        raise EnvError(f"{name} cannot be built: {str(error) or 'jaxmarl refuses these options'}.") from error


def load(module: str) -> ModuleType:
    """Imports a module of jaxmarl without the lines that the package prints on its first import.

    Raises:
      ModuleNotFoundError: jaxmarl, or a package that it needs, is missing.
    """
    if sys.modules.get(module) is not None:
        return sys.modules[module]
    with _silence():
        return importlib.import_module(module)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Within the block nothing reaches stdout. Afterwards stdout and stderr are restored.

    While it loads, jaxmarl sets `sys.stdout` and `sys.stderr` to the original streams, which would undo a
    `redirect_stdout` and the capturing of a test runner. So the original stdout is replaced as well.
    """
    before = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = before  # type: ignore[misc]


def ensure_installed() -> None:
    """Raises ModuleNotFoundError when jaxmarl, or a package that it needs, is missing."""
    load("jaxmarl")
