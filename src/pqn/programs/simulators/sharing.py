"""Which process has which shards of a run with simulators, and how their arrays come together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from safetensors.numpy import load, save

from pqn.config import Config
from pqn.errors import ConfigError
from pqn.hosts import processes
from pqn.programs.evaluation import Evaluation
from pqn.programs.shard_mesh import OWN, ShardMesh
from pqn.types import Array, PyTree

if TYPE_CHECKING:
    from jaxlib._jax import Device


class Sharing(NamedTuple):
    """The shards of this process, and the devices that learn."""

    here: range
    devices: tuple[Device, ...]  # one of each process; () where there is only one process
    of_episodes: tuple[int, int]  # which share of an evaluation's episodes this process plays, of how many

    @staticmethod
    def of(config: Config, name: str) -> Sharing:
        """For environments called `name`.

        Raises:
          ConfigError: the run cannot be divided.
        """
        check(config, name, jax.process_count())
        count, index = jax.process_count(), jax.process_index()
        each = config.shards // count
        devices = tuple(_first_device(process) for process in range(count)) if count > 1 else ()
        divides = config.eval.num_envs % count == 0
        return Sharing(range(index * each, (index + 1) * each), devices, (index, count) if divides else (0, 1))

    def local(self, tree: PyTree) -> PyTree:
        """What this process has of arrays that all processes hold together: of what is shared, everything."""
        return jax.tree.map(lambda x: x.addressable_data(0), tree) if self.devices else tree

    def joined(self, own: Sequence[PyTree], mesh: ShardMesh) -> PyTree:
        """Trees [S, ...] of the shards here as a part of one [S, D, ...] that all processes hold together."""
        here = _stack(*own)
        if mesh.mesh is None:
            return here
        place = NamedSharding(mesh.mesh, OWN)

        def whole(x: Array) -> Array:
            shape = (x.shape[0], mesh.shards, *x.shape[2:])
            return jax.make_array_from_single_device_arrays(shape, place, [x])

        return jax.tree.map(whole, here)


@jax.jit
def _stack(*trees: PyTree) -> PyTree:
    return jax.tree.map(lambda *x: jnp.stack(x, axis=1), *trees)


def check(config: Config, name: str, count: int) -> None:
    """Raises `ConfigError` where `count` processes cannot train a run with shards on simulators called `name`."""
    shards, greedy = config.shards, config.simulators.greedy_envs if config.eval.count else 0
    if shards % count:
        raise ConfigError(
            f"shards is {shards} and there are {count} processes; {name} runs outside of JAX, and each process steps "
            f"as many shards of every seed: try shards {count * max(1, round(shards / count))}"
        )
    if config.simulators.overlap:
        raise ConfigError("simulators.overlap is for runs without shards; leave it false, or set shards to 1")
    if config.log.stability:
        raise ConfigError(
            f"log.stability is {config.log.stability}; it must be 0 for {name}, since stability is measured on "
            "environments written in JAX"
        )
    if greedy % shards:
        near = -(-greedy // shards) * shards
        raise ConfigError(f"shards {shards} does not divide simulators.greedy_envs {greedy}; try {near}, or 0")


def gathered(own: Sequence[Evaluation], same: bool = False) -> Evaluation:
    """The episodes of all shards and processes [S, E], from those of this process in order.

    Args:
      own: of this process.
      same: all processes have the same episodes; those of the first count.
    """
    here: Evaluation = jax.tree.map(lambda *x: np.concatenate([np.asarray(each) for each in x], axis=1), *own)
    if processes.count() == 1:
        return here
    leaves, structure = jax.tree.flatten(here)
    messages = processes.gather(save({str(i): np.ascontiguousarray(leaf) for i, leaf in enumerate(leaves)}))
    parts = [load(message) for message in (messages[:1] if same else messages)]
    return structure.unflatten([np.concatenate([part[str(i)] for part in parts], axis=1) for i in range(len(leaves))])


def _first_device(process: int) -> Device:
    return min((device for device in jax.devices() if device.process_index == process), key=lambda device: device.id)
