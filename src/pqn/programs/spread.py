"""Where the seeds and the shards of a run are computed: on one device, or spread over several.

Seeds have nothing to say to each other, so devices are given to seeds first. Shards of a seed are joined in every
gradient step (see `pqn.shards`). The shards of one device lie on an axis of `vmap`, the devices on a mesh; a program is
written for one seed and one shard, and `Spread` lifts it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Axes

from pqn import shards
from pqn.algorithms.base import PER_SHARD, LearnerState
from pqn.device import over_seeds
from pqn.errors import ConfigError
from pqn.programs.base import RunState
from pqn.types import Array, PyTree

R = TypeVar("R")
Tree = TypeVar("Tree")

SEEDS, SHARDS = "seeds", "shards"  # axes of the mesh
HERE = "shards of this device"  # the axis of `vmap`


@dataclasses.dataclass(frozen=True)
class Spread:
    """S seeds × D shards on a mesh of devices; without a mesh, all on one device."""

    seeds: int
    shards: int
    mesh: Mesh | None = None

    @property
    def seeds_here(self) -> int:
        """How many seeds one device has."""
        return self.seeds // (self.mesh.shape[SEEDS] if self.mesh else 1)

    @property
    def shards_here(self) -> int:
        """How many shards of each of its seeds one device has."""
        return self.shards // (self.mesh.shape[SHARDS] if self.mesh else 1)

    @property
    def is_across_processes(self) -> bool:
        return self.mesh is not None and len({device.process_index for device in self.mesh.devices.flat}) > 1

    # --- from one shard of one seed to all of them -------------------------------------------------------------------

    def over_seeds(self, function: Callable[..., R]) -> Callable[..., R]:
        """`function` of one seed, for all seeds of a device."""
        return over_seeds(function, self.seeds_here)

    def over_shards(self, function: Callable[..., R], given: PyTree, made: PyTree) -> Callable[..., R]:
        """`function` of one shard, for all shards of a device.

        Args:
          function: called while `pqn.shards` knows where the shards lie.
          given: for each argument, 0 where shards have their own (the first axis) and None where they share one. Of a
            tree, one entry may stand for a branch.
          made: the same for the result. JAX refuses a function whose result differs where it should be shared.
        """
        if self.shards == 1:
            return function
        apart = self.shards_here < self.shards
        together = self.shards_here > 1 or not apart
        names = (*([SHARDS] if apart else []), *([HERE] if together else []))

        def of_one(*args: PyTree) -> R:
            with shards.on(names):
                return function(*args)

        if together:
            return jax.vmap(of_one, given, made, axis_name=HERE, axis_size=self.shards_here)

        def alone(*args: PyTree) -> R:  # a batch of one is slower than no batch
            return _each(lambda x: x[None], made, of_one(*_each(lambda x: x[0], given, args)))

        return alone

    def over_devices(self, function: Callable[..., R], given: PyTree, made: PyTree) -> Callable[..., R]:
        """`function` of what one device has, for all devices; `given` and `made` say which axes are spread."""
        if self.mesh is None:
            return function
        # Not checked here that shards agree: JAX would ask the code of every environment to declare it. `over_shards`
        # checks the same function, in one piece, when its shapes are computed.
        return jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)

    # --- arrays ------------------------------------------------------------------------------------------------------

    def state_axes(self) -> RunState:
        """Which axes of a `RunState` are spread."""
        own = Axes(SEEDS, SHARDS) if self.shards > 1 else Axes(SEEDS)
        return RunState(_learner(Axes(SEEDS), own), own, Axes(SEEDS))

    def shaped(self, shapes: Tree, axes: PyTree) -> Tree:
        """Shapes with the places that their arrays are to have."""
        if self.mesh is None:
            return shapes
        return _placed(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes, self._at(axes))

    def put(self, tree: Tree, axes: PyTree) -> Tree:
        """Arrays in their places. Every process gives the whole of them, and keeps what its devices need."""
        return tree if self.mesh is None else _placed(_put, tree, self._at(axes))

    def jit_places(self, *made: PyTree) -> dict[str, PyTree]:
        """For `jax.jit`: where the results are to be; `made` says which of their axes are spread."""
        return {} if self.mesh is None else {"out_shardings": self._at(made if len(made) > 1 else made[0])}

    def _at(self, axes: PyTree) -> PyTree:
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), axes, is_leaf=_is_axes)


def shard_axes() -> RunState:
    """For `over_shards`: what of a `RunState` each shard has for itself."""
    return RunState(_learner(None, 0), 0, None)


def choose(seeds: int, count: int, devices: Sequence[jax.Device]) -> Spread:
    """Spreads `seeds` × `count` shards over as many of the devices as divide them evenly, seeds first.

    Each process gets the same number of devices to work on.

    Raises:
      ConfigError: a process would have nothing to do.
    """
    by_process: dict[int, list[jax.Device]] = {}
    for device in sorted(devices, key=lambda device: (device.process_index, device.id)):
        by_process.setdefault(device.process_index, []).append(device)
    processes = len(by_process)
    fits = [
        (of_seeds * of_shards, of_seeds)
        for of_seeds, of_shards in itertools.product(_divisors(seeds), _divisors(count))
        if of_seeds * of_shards <= len(devices) and of_seeds * of_shards % processes == 0
    ]
    fits = [fit for fit in fits if fit[0] // processes <= min(map(len, by_process.values()))]
    if not fits:
        raise ConfigError(
            f"seeds {seeds} × shards {count} cannot be divided among {processes} processes; set shards to "
            f"{math.lcm(count, processes)}, or seeds to {math.lcm(seeds, processes)}"
        )
    used, of_seeds = max(fits)
    if used == 1:
        return Spread(seeds, count)
    chosen = [device for own in by_process.values() for device in own[: used // processes]]
    return Spread(seeds, count, Mesh(np.array(chosen).reshape(of_seeds, -1), (SEEDS, SHARDS)))


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _learner(shared: PyTree, own: PyTree) -> LearnerState:
    """A learner's state with one entry for each field."""
    return LearnerState(*(own if name in PER_SHARD else shared for name in LearnerState._fields))


def _is_axes(x: object) -> bool:
    return isinstance(x, Axes)


def _each(change: Callable[[Array], Array], axes: PyTree, tree: PyTree) -> PyTree:
    """Changes the arrays of which `axes`, whose entries stand for branches, says 0."""

    def branch(axis: int | None, below: PyTree) -> PyTree:
        return below if axis is None else jax.tree.map(change, below)

    return jax.tree.map(branch, axes, tree, is_leaf=lambda axis: axis is None)


def _placed(change: Callable[[Array, NamedSharding], Array], tree: PyTree, places: PyTree) -> PyTree:
    def branch(place: NamedSharding, below: PyTree) -> PyTree:
        return jax.tree.map(lambda x: change(x, place), below)

    return jax.tree.map(branch, places, tree)


def _put(array: Array, place: NamedSharding) -> Array:
    if place.is_fully_addressable:
        return jax.device_put(array, place)
    if jax.numpy.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(array), place), impl=jax.random.key_impl(array))
    whole = np.asarray(array)
    return jax.make_array_from_callback(whole.shape, place, lambda part: whole[part])
