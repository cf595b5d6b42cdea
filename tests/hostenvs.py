"""Environments behind the `HostEnv` interface whose every step is known."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import SingleEnv
from pqn.types import TimeStep


def independent(env: SingleEnv) -> tuple[Any, Any]:
    """reset(seeds [N]) and step(state, action) of environments of which each has a key of its own."""
    one = Autoreset(env, 1)

    def reset(seeds):
        state, step = jax.vmap(lambda seed: one.reset(jax.random.key(seed)))(seeds)
        return state, jax.tree.map(lambda x: x[:, 0], step)

    def step(state, action):
        state, step = jax.vmap(one.step)(state, action[:, None])
        return state, jax.tree.map(lambda x: x[:, 0], step)

    return reset, step


class JaxTwin:
    """N such environments as a `JaxEnv`, seeded from the same key as a `SimulatorProgram` seeds its simulators."""

    def __init__(self, env: SingleEnv, num_envs: int):
        self.spec, self.num_envs = env.spec, num_envs
        self._reset, self.step = independent(env)

    def reset(self, key):
        return self._reset(jax.random.bits(key, (self.num_envs,), "uint32") >> 1)


class HostFromJax:
    """The same environments as a `HostEnv`.

    Its arrays are reused from step to step, as the contract allows, so that whoever keeps one without a copy is caught.
    """

    def __init__(self, env: SingleEnv, num_envs: int, concurrent: bool = False):
        self.spec, self.num_envs, self.concurrent = env.spec, num_envs, concurrent
        reset, step = independent(env)
        self._reset, self._step = jax.jit(reset), jax.jit(step)
        self._state: Any = None
        self._action: np.ndarray | None = None
        self._out: Any = None
        self.closed = False

    def reset(self, seeds: np.ndarray) -> TimeStep:
        assert seeds.shape == (self.num_envs,)
        self._state, step = self._reset(jnp.asarray(seeds, jnp.uint32))
        return self._give(step)

    def send(self, action: np.ndarray) -> None:
        assert self._action is None, "one recv follows each send"
        assert action.shape == (self.num_envs, self.spec.num_agents) and action.dtype == np.int32
        self._action = np.array(action)

    def recv(self) -> TimeStep:
        assert self._action is not None
        self._state, step = self._step(self._state, self._action)
        self._action = None
        return self._give(step)

    def close(self) -> None:
        self.closed = True

    def _give(self, step: TimeStep) -> TimeStep:
        step = jax.device_get(step)
        if self._out is None:
            self._out = jax.tree.map(np.array, step)
        jax.tree.map(np.copyto, self._out, step)
        return self._out


class Savable(HostFromJax):
    """One that can be put back where it was."""

    def save(self) -> dict[str, np.ndarray]:
        raw = jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, self._state)
        return {str(i): np.array(x) for i, x in enumerate(jax.tree.leaves(raw))}

    def restore(self, saved: dict[str, np.ndarray]) -> TimeStep:
        leaves, structure = jax.tree.flatten(self._state)
        new = [jnp.array(saved[str(i)]) for i in range(len(leaves))]
        new = [jax.random.wrap_key_data(x) if _is_key(old) else x for x, old in zip(new, leaves, strict=True)]
        self._state = jax.tree.unflatten(structure, new)
        return self._out


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
