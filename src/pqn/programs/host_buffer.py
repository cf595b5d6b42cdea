"""A buffer in the host's memory, for one that the accelerator cannot hold.

Rollouts travel to the host. `Algorithm.remember` runs there, on the CPU as JAX's second device. What it drew travels
back. The numbers are those of a buffer on the device.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from pqn.algorithms.base import Algorithm
from pqn.device import over_seeds
from pqn.errors import DeviceError
from pqn.types import Array, PyTree, Rollout


class HostBuffer:
    """Keeps the buffers of S seeds of an algorithm whose `buffer_on_host` is true.

    Args:
      algorithm: it.
      seeds: S.
      in_place: `remember` may overwrite the buffer that it is given.
    """

    def __init__(self, algorithm: Algorithm, seeds: int, in_place: bool = True):
        try:
            cpu = jax.local_devices(backend="cpu")[0]
        except RuntimeError as error:
            raise DeviceError(
                "a buffer in the host's memory (replay.place) needs the CPU as a second device of JAX, which "
                "JAX_PLATFORMS excludes; add ,cpu to it"
            ) from error
        self._there, self._here = SingleDeviceSharding(cpu), SingleDeviceSharding(jax.local_devices()[0])
        self._algorithm, self._seeds = algorithm, seeds
        self._remember = jax.jit(over_seeds(algorithm.remember, seeds), donate_argnums=0 if in_place else ())

    def empty(self) -> PyTree:
        """The buffers [S, ...] at the start of a run."""
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype, device=self._there), self.shape())

    def shape(self) -> PyTree:
        """The shapes of the buffers, with their place."""
        shape = jax.eval_shape(jax.vmap(lambda _: self._algorithm.empty_buffer()), jnp.arange(self._seeds))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._there), shape)

    def data_shape(self, rollout: Rollout, keys: Array) -> PyTree:
        """The shapes of what `remember` draws, from those of its arguments."""
        return jax.eval_shape(self._remember, self.shape(), rollout, keys)[1]

    def remember(self, buffer: PyTree, rollout: Rollout, keys: Array) -> tuple[PyTree, PyTree]:
        """`Algorithm.remember` of all seeds."""
        rollout, keys = jax.device_put((rollout, keys), self._there)
        buffer, data = self._remember(buffer, rollout, keys)
        return buffer, jax.device_put(data, self._here)
