"""Optimistic resets: new episodes from a pool of fresh states, for environments whose resets cost more than steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.arrays import expand, strong, where
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import SingleEnv
from pqn.envs.options import Option, choose
from pqn.types import Array, PyTree

# Options of an environment with a pool. With these defaults, no two episodes in bench/craftax.py shared a world.
RESETS = {"reset_ratio": Option(64, least=1), "reset_every": Option(16, least=1)}


class Pool(NamedTuple):
    """Fresh states for new episodes."""

    states: PyTree  # [P, ...]
    obs: Array  # [P, M, ...]
    used: Array  # int32, episodes started since the pool was filled
    age: Array  # int32, steps since then; a pool of age 0 is filled first


class PooledReset(Autoreset):
    """N copies of a `SingleEnv` whose episodes start from a pool of P = ⌈N · every / ratio⌉ fresh states.

    Autoreset calls `env.reset` N times per step, because a compiled program cannot know how many episodes will end.
    That is slow where a reset costs more than a step (Craftax generates a world). Episodes are long, so few end at
    once. Here a new pool is filled every `every` steps. The j-th new episode from then on starts from state j mod P. As
    long as no more episodes end than the pool has states, each new episode gets a fresh and independent state, as with
    Autoreset. Beyond that several episodes start from the *same* state; they differ only by their actions and the
    randomness of their steps. This happens mostly at a time limit that all environments reach at once because they were
    started together.

    On a GPU the cost of filling depends on how often a pool is filled, if a reset is many small operations. On a CPU it
    depends on the number of states. The longer a pool lasts, the closer the number of episodes that end comes to its
    mean, so that a pool for fewer episodes per step is enough.

    `reset`, which starts all N, always draws N states.

    Args:
      env: the environment to copy.
      num_envs: N.
      ratio: steps of single environments per state generated; with 1 none is ever shared.
      every: vector steps after which a new pool is filled.

    Raises:
      EnvError: what Autoreset raises, or a ratio or number of steps that is not a positive integer.
    """

    def __init__(self, env: SingleEnv, num_envs: int, ratio: int, every: int = 1):
        super().__init__(env, num_envs)
        chosen = choose(env.spec.name, RESETS, {"reset_ratio": ratio, "reset_every": every})
        self.ratio, self.every = chosen["reset_ratio"], chosen["reset_every"]
        self.pool_size = math.ceil(num_envs * self.every / self.ratio)
        self._refill = _lockstep(self._fill)

    def _spare(self, inner: PyTree, obs: Array) -> Pool:
        # These states only give the pool its shapes: a pool of age 0 is filled before it is used.
        place = jnp.arange(self.pool_size) % self.num_envs
        states, pool_obs = jax.tree.map(lambda x: x[place], (inner, obs))
        return Pool(states, pool_obs, jnp.int32(0), jnp.int32(0))

    def _fill(self, key: Array) -> tuple[PyTree, Array]:
        states, obs = self._reset_all(jax.random.split(key, self.pool_size))
        return strong(states), self._per_agent(obs)

    def _restart(self, key: Array, done: Array, inner: PyTree, obs: Array, spare: Pool) -> tuple[PyTree, Array, Pool]:
        """Replaces the states and observations [N, ...] of the environments that are done by those of the pool."""
        states, pool_obs = self._refill(spare.age == 0, key, (spare.states, spare.obs))
        used = jnp.where(spare.age == 0, 0, spare.used)
        # A GPU also loads a state where an episode goes on and nothing is taken. Always loading the same one is cheap.
        place = jnp.where(done, (used + jnp.cumsum(done) - 1) % self.pool_size, 0)

        def take(new: Array, old: Array) -> Array:
            return jnp.where(expand(done, old), new[place], old)

        pool = Pool(states, pool_obs, used + jnp.sum(done), (spare.age + 1) % self.every)
        return jax.tree.map(take, states, inner), take(pool_obs, obs), pool


def _lockstep(fill: Callable[[Array], PyTree]) -> Callable[[Array, Array, PyTree], PyTree]:
    """A function of (due, key, present) that returns `fill(key)` if `due`, else `present`.

    Under `vmap` a condition usually becomes the computation of both branches, at every step. Seeds that are trained
    together are due at the same step, so here it stays a condition on whether any seed is due. A seed that is due alone
    also gets the right result, only slower.
    """

    @jax.custom_batching.custom_vmap
    def refill(due: Array, key: Array, present: PyTree) -> PyTree:
        return _replaced_if(due, lambda _: fill(key), present)

    @refill.def_vmap
    def refill_all(size: int, batched: list[PyTree], *args: PyTree) -> tuple[PyTree, PyTree]:
        def widen(x: Array, is_batched: bool) -> Array:
            return x if is_batched else jnp.broadcast_to(x, (size, *x.shape))

        due, key, present = jax.tree.map(widen, args, tuple(batched))

        out = _replaced_if(jnp.any(due), lambda old: where(due, jax.vmap(fill)(key), old), present)
        return out, jax.tree.map(lambda _: True, out)

    return refill


def _replaced_if(due: Array, new: Callable[[PyTree], PyTree], present: PyTree) -> PyTree:
    """`new(present)` if `due`, else `present`.

    A loop of at most one round. What a loop carries stays where it is in memory. A condition would return a copy of
    every array, at every step.
    """

    def once(c: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
        return jnp.zeros_like(due), new(c[1])

    return jax.lax.while_loop(lambda c: c[0], once, (due, present))[1]
