"""Optimistic resets: new episodes from a pool of fresh states, for environments whose resets cost more than steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pqn.arrays import expand, strong
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import SingleEnv
from pqn.envs.options import Option, choose
from pqn.types import Array, PyTree

# Options of an environment with a pool. By bench/craftax.py: no episode had to share a world with another.
RESETS = {"reset_ratio": Option(64, least=1), "reset_every": Option(16, least=1)}


class Pool(NamedTuple):
    """Fresh states, waiting for episodes to end."""

    states: PyTree  # [P, ...]
    obs: Array  # [P, M, ...]
    used: Array  # int32, episodes started since the pool was filled
    age: Array  # int32, steps since then; a pool of age 0 is filled first


class PooledReset(Autoreset):
    """N copies of a `SingleEnv` whose episodes start from a pool of P = ⌈N · every / ratio⌉ fresh states.

    Autoreset calls `env.reset` N times per step, because a compiled program cannot know how many episodes will end.
    Where a reset costs more than a step (Craftax generates a world), it pays to be optimistic: episodes are long, so
    few end at once. Every `every` steps a new pool is filled, and the j-th episode that ends from then on is followed
    by one that starts from state j mod P. As long as no more end than the pool holds, each gets a state of its own,
    fresh and independent: exactly what Autoreset does. Beyond that several start from the *same* state, and live
    different lives only by their actions and the randomness of their steps. The usual occasion is a time limit that
    all environments reach at once because they were started together.

    Where resets are many small operations it is the number of times that counts on a GPU, on a CPU the number of
    states. And the longer a pool lasts, the closer the number of episodes that end comes to its mean, so that a smaller
    share of it suffices.

    `reset`, which starts all N, always draws N states.

    Args:
      env: the environment to copy.
      num_envs: N.
      ratio: steps of single environments per state generated; with 1 none is ever shared.
      every: vector steps that a pool lasts.

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
        # Never used, since a pool of age 0 is filled first: any states will do for their shapes.
        some = lambda x: x[jnp.arange(self.pool_size) % self.num_envs]  # noqa: E731
        return Pool(jax.tree.map(some, inner), some(obs), jnp.int32(0), jnp.int32(0))

    def _fill(self, key: Array) -> tuple[PyTree, Array]:
        states, obs = self._reset_all(jax.random.split(key, self.pool_size))
        return strong(states), self._per_agent(obs)

    def _restart(self, key: Array, done: Array, inner: PyTree, obs: Array, spare: Pool) -> tuple[PyTree, Array, Pool]:
        """Replaces the states and observations [N, ...] of the environments that are done by those of the pool."""
        states, pool_obs = self._refill(spare.age == 0, key, (spare.states, spare.obs))
        used = jnp.where(spare.age == 0, 0, spare.used)
        # Where an episode goes on nothing is taken, but a GPU loads it all the same: cheaply if always the same.
        place = jnp.where(done, (used + jnp.cumsum(done) - 1) % self.pool_size, 0)
        take = lambda new, old: jnp.where(expand(done, old), new[place], old)  # noqa: E731
        pool = Pool(states, pool_obs, used + jnp.sum(done), (spare.age + 1) % self.every)
        return jax.tree.map(take, states, inner), take(pool_obs, obs), pool


def _lockstep(fill: Callable[[Array], PyTree]) -> Callable[[Array, Array, PyTree], PyTree]:
    """`fill(key)` if `due`, else what there is already, as a function of (due, key, present).

    Under `vmap` a condition usually turns into computing both sides, at every step. Seeds that are trained together
    come due together, so that here it stays a condition; one that comes due alone is right too, only slower.
    """

    @jax.custom_batching.custom_vmap
    def refill(due: Array, key: Array, present: PyTree) -> PyTree:
        return jax.lax.cond(due, lambda: fill(key), lambda: present)

    @refill.def_vmap
    def refill_all(size: int, batched: Any, *args: Any) -> tuple[PyTree, PyTree]:
        def widen(x: Array, is_batched: bool) -> Array:
            return x if is_batched else jnp.broadcast_to(x, (size, *x.shape))

        due, key, present = jax.tree.map(widen, args, tuple(batched))

        def fresh() -> PyTree:
            return jax.tree.map(lambda new, old: jnp.where(expand(due, old), new, old), jax.vmap(fill)(key), present)

        out = jax.lax.cond(jnp.any(due), fresh, lambda: present)
        return out, jax.tree.map(lambda _: True, out)

    return refill
