"""Where the shards of a program are computed: all on one device, or on a mesh of several.

The shards of one device lie on an axis of `vmap`, the devices on an axis of a mesh. A program is written for one shard
(see `pqn.shards`); `ShardMesh` lifts it to all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as Axes

from pqn import shards
from pqn.algorithms.base import PER_SHARD, LearnerState
from pqn.programs.base import RunState
from pqn.types import Array, PyTree

if TYPE_CHECKING:
    from jaxlib._jax import Device

R = TypeVar("R")
Tree = TypeVar("Tree")

DEVICES = "devices"  # the axis of the mesh
HERE = "shards of this device"  # the axis of `vmap`
SAME = Axes()  # for every device the same
OWN = Axes(None, DEVICES)  # [S, D, ...] spread over the devices


@dataclasses.dataclass(frozen=True)
class ShardMesh:
    """D shards on some devices; without devices, on the one that JAX uses by default."""

    shards: int
    devices: tuple[Device, ...] = ()

    @property
    def mesh(self) -> Mesh | None:
        """The devices as a mesh; one alone is none."""
        return Mesh(np.array(self.devices), (DEVICES,)) if len(self.devices) > 1 else None

    @property
    def shards_here(self) -> int:
        """How many shards one device has."""
        return self.shards // max(1, len(self.devices))

    # --- from one shard to all of them -------------------------------------------------------------------------------

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
        together = self.shards_here > 1
        names = (*([DEVICES] if apart else []), *([HERE] if together else []))

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
        # Not checked here that devices agree: JAX would ask the code of every environment to declare it. `over_shards`
        # checks the same function, with all shards on one device, when the shapes of a program are computed.
        return jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)

    # --- arrays ------------------------------------------------------------------------------------------------------

    def shaped(self, shapes: Tree, axes: PyTree) -> Tree:
        """Shapes with the places that their arrays are to have; `axes` are `SAME` or `OWN`, for branches."""

        def shape(x: Array, place: Sharding) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)

        return _placed(shape, shapes, self._places(axes)) if self.devices else shapes

    def put(self, tree: Tree, axes: PyTree) -> Tree:
        """Arrays in their places. Every process gives the whole of them, and keeps what its devices need."""
        return _placed(_put, tree, self._places(axes)) if self.devices else tree

    def result_places(self, made: PyTree) -> dict[str, PyTree]:
        """For `jax.jit`: where its result is to be; `made` says which axes of it are spread."""
        return {"out_shardings": self._places(made)} if self.mesh else {}

    def _places(self, axes: PyTree) -> PyTree:
        mesh, devices = self.mesh, self.devices

        def place(spec: Axes) -> Sharding:
            return SingleDeviceSharding(devices[0]) if mesh is None else NamedSharding(mesh, spec)

        return jax.tree.map(place, axes, is_leaf=_is_axes)


def shard_axes() -> RunState:
    """For `over_shards`: what of a `RunState` each shard has for itself."""
    return _state(None, 0)


def device_axes(count: int) -> RunState:
    """For `over_devices`: what of a `RunState` of `count` shards is spread."""
    return _state(SAME, OWN if count > 1 else SAME)


def _state(shared: PyTree, own: PyTree) -> RunState:
    """A state with one entry for each of its branches."""
    learner = LearnerState(*(own if name in PER_SHARD else shared for name in LearnerState._fields))
    return RunState(learner, own, shared)


def _is_axes(x: object) -> bool:
    return isinstance(x, Axes)


def _each(change: Callable[[Array], Array], axes: PyTree, tree: PyTree) -> PyTree:
    """Changes the arrays of which `axes`, whose entries stand for branches, says 0."""

    def branch(axis: int | None, below: PyTree) -> PyTree:
        return below if axis is None else jax.tree.map(change, below)

    return jax.tree.map(branch, axes, tree, is_leaf=lambda axis: axis is None)


def _placed(change: Callable[..., R], tree: PyTree, places: PyTree) -> PyTree:
    def branch(place: Sharding, below: PyTree) -> PyTree:
        return jax.tree.map(lambda x: change(x, place), below)

    return jax.tree.map(branch, places, tree)


def is_key(x: PyTree) -> bool:
    """Whether it is an array of random keys."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _put(array: Array, place: Sharding) -> Array:
    if place.is_fully_addressable:
        return jax.device_put(array, place)
    if is_key(array):
        return jax.random.wrap_key_data(_put(jax.random.key_data(array), place), impl=jax.random.key_impl(array))
    whole = np.asarray(array)
    return jax.make_array_from_callback(whole.shape, place, lambda part: whole[part])
