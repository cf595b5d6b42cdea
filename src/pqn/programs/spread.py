"""A run on several devices: each group of seeds is a program of its own, on devices of its own.

Seeds have nothing to say to each other, so devices are given to seeds first, and then to the shards of a seed. A group
computes what a run with its seeds alone would compute, to the bit.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load, save

from pqn.algorithms.base import PER_SHARD
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.hosts import processes
from pqn.programs.base import Block, Blocks, JaxFactory, RunState, Totals, saved_learner
from pqn.programs.compiled import CompiledProgram
from pqn.programs.evaluation import Evaluation
from pqn.programs.memory import MemoryPlan
from pqn.programs.shard_mesh import is_key
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.sharded import ShardedSimulatorProgram
from pqn.types import PyTree

if TYPE_CHECKING:
    from jaxlib._jax import Device

R = TypeVar("R")


class Group(NamedTuple):
    """Some seeds of a run, and the devices that compute them."""

    first: int  # its first seed, counted from 0
    seeds: int
    devices: tuple[Device, ...]

    def of(self, tree: PyTree) -> PyTree:
        """What is its own of arrays [S, ...] of all seeds."""
        return jax.tree.map(lambda x: x[self.first : self.first + self.seeds], tree)


def groups_of(seeds: int, shards: int, devices: Sequence[Device]) -> list[Group]:
    """Spreads seeds × shards over as many of the devices as divide them evenly, seeds first.

    Each process gets the same number of devices to work on, and the devices of a group are next to each other.

    Raises:
      ConfigError: a process would have nothing to do.
    """
    by_process: dict[int, list[Device]] = {}
    for device in sorted(devices, key=lambda device: (device.process_index, device.id)):
        by_process.setdefault(device.process_index, []).append(device)
    processes, most = len(by_process), min(map(len, by_process.values()))

    def fits(of_seeds: int, of_shards: int) -> bool:
        each, rest = divmod(of_seeds * of_shards, processes)
        whole = each and (each % of_shards == 0 or of_shards % each == 0)  # no group lies across two halves
        return bool(whole) and rest == 0 and each <= most

    pairs = [pair for pair in itertools.product(_divisors(seeds), _divisors(shards)) if fits(*pair)]
    if not pairs:
        raise ConfigError(
            f"seeds {seeds} × shards {shards} cannot be divided among {processes} processes; try shards "
            f"{math.lcm(shards, processes)}, or seeds {math.lcm(seeds, processes)}"
        )
    of_seeds, of_shards = max(pairs, key=lambda pair: (pair[0] * pair[1], pair[0]))
    each = of_seeds * of_shards // processes
    chosen = [device for own in by_process.values() for device in own[:each]]
    size = seeds // of_seeds
    return [
        Group(number * size, size, tuple(chosen[number * of_shards : (number + 1) * of_shards]))
        for number in range(of_seeds)
    ]


class SpreadProgram:
    """The seeds of a run in groups, each a `CompiledProgram`; it fulfils `Program`. A state is a tuple of theirs.

    With several processes, each has the groups in which its own devices take part.
    """

    def __init__(self, config: Config, make_env: JaxFactory, groups: Sequence[Group]):
        if config.log.stability and processes.count() > 1:
            raise ConfigError(f"log.stability is {config.log.stability}; it must be 0 with several processes")
        here = jax.process_index()
        self.config = config
        self.groups = tuple(group for group in groups if any(x.process_index == here for x in group.devices))
        self.parts = [
            CompiledProgram(config.replace(seed=config.seed + group.first, seeds=group.seeds), make_env, group.devices)
            for group in self.groups
        ]
        self.algorithm = self.parts[0].algorithm
        if self.algorithm.buffer_on_host:
            raise ConfigError(
                "a buffer in the host's memory (replay.place) is for one device; lower replay.size so that it fits the "
                "device, or let JAX see one device only"
            )
        self.planned_updates = config.updates
        self.compile_seconds = self.trace_seconds = 0.0
        self.memory: MemoryPlan | None = None

    def compile(self) -> None:
        began = time.perf_counter()
        for part in self.parts:
            part.planned_updates = self.planned_updates
        # The first alone: where compiled programs are cached, the others are read from there.
        self.parts[0].compile()
        self._each(lambda part: part.compile(), self.parts[1:])
        self.memory = MemoryPlan.total([part.memory for part in self.parts if part.memory is not None])
        self.trace_seconds = self.parts[0].trace_seconds  # the others trace while programs of others compile
        self.compile_seconds = time.perf_counter() - began

    def init(self) -> tuple[RunState, ...]:
        return tuple(self._each(lambda part: part.init()))

    def chunk(self, state: PyTree, count: int, before: Totals | None = None) -> tuple[tuple[RunState, ...], Totals]:
        def run(part: CompiledProgram, state: RunState, group: Group) -> tuple[RunState, Totals]:
            return part.chunk(state, count, group.of(before) if before else None)

        done = self._each(run, self.parts, state, self.groups)
        return tuple(state for state, _ in done), self._whole([totals for _, totals in done])

    def evaluate(self, state: PyTree) -> Evaluation:
        result = self._whole(self._each(lambda part, state: part.played(state), self.parts, state))
        return result.check(self.algorithm.spec.name, self.config.seed)

    def start_evaluation(self, state: PyTree) -> None:
        """Between chunks only: the groups of all processes must do the same, in the same order."""

    def saved_shape(self) -> RunState:
        """That of the whole run: how it was spread is not part of a checkpoint."""

        def whole(shape: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.config.seeds, *shape.shape[1:]), shape.dtype)

        return jax.tree.map(whole, self.parts[0].saved_shape())

    def snapshot(self, state: PyTree) -> RunState | Blocks:
        if processes.count() > 1:
            blocks = itertools.chain.from_iterable(map(_blocks, state, self.groups))
            return Blocks(tuple(blocks), self.saved_shape())
        saved = self._each(lambda part, state: jax.device_get(part.snapshot(state)), self.parts, state)
        return _joined(saved)

    def restore(self, saved: RunState, note: Callable[[str], None]) -> tuple[RunState, ...]:
        return tuple(part.restore(group.of(saved), note) for part, group in zip(self.parts, self.groups, strict=True))

    def part_of(self, state: PyTree, index: int) -> tuple[CompiledProgram, RunState, int]:
        """The program that has a seed, counted from 0, its state, and the number of the seed in it."""
        number = next(i for i, group in enumerate(self.groups) if index < group.first + group.seeds)
        return self.parts[number], state[number], index - self.groups[number].first

    def close(self) -> None:
        """Environments in JAX hold nothing."""

    def _whole(self, own: Sequence[PyTree]) -> PyTree:
        """Trees of arrays [S, ...] of the groups here, joined with those of all other processes."""
        if processes.count() == 1:
            return _joined(own)
        structure = jax.tree.structure(own[0])
        arrays = {
            f"{group.first:06d}/{number}": np.ascontiguousarray(leaf)
            for group, tree in zip(self.groups, own, strict=True)
            for number, leaf in enumerate(jax.tree.leaves(tree))
        }
        found: dict[str, np.ndarray] = {}
        for message in processes.gather(save(arrays)):
            found |= load(message)
        firsts = sorted({name.partition("/")[0] for name in found})
        numbers = range(structure.num_leaves)
        return structure.unflatten([np.concatenate([found[f"{at}/{number}"] for at in firsts]) for number in numbers])

    def _each(self, function: Callable[..., R], *given: Sequence[PyTree]) -> list[R]:
        """Calls `function` for all groups at the same time; a device must not wait for another's turn."""
        with ThreadPoolExecutor(len(self.parts)) as threads:
            return list(threads.map(function, *(given or (self.parts,))))


def _blocks(state: RunState, group: Group) -> list[Block]:
    """What each device of this process holds of a group's state."""
    blocks = []
    for place, device in enumerate(group.devices):
        if device.process_index != jax.process_index():
            continue
        own = jax.tree.map(lambda x, device=device: _on(x, device), state)
        shards = jax.tree.leaves(own.stream)[0].shape[1] if len(group.devices) > 1 else 0
        own = own._replace(learner=saved_learner(own.learner))
        if place:  # what all shards share is the first one's to give
            shared = {name: None for name in own.learner._fields if name not in PER_SHARD}
            own = own._replace(learner=own.learner._replace(**shared), key=None)
        blocks.append(Block(group.first, place * shards, own))
    return blocks


def _on(array: jax.Array, device: Device) -> PyTree:
    """What a device holds of an array, on the host; random keys stay keys."""
    if is_key(array):
        return jax.random.wrap_key_data(_on(jax.random.key_data(array), device), impl=jax.random.key_impl(array))
    return next(np.asarray(shard.data) for shard in array.addressable_shards if shard.device == device)


def placement(program: object, devices: int) -> str | None:
    """Which devices a run uses, in a sentence; None where there is only one."""
    if devices == 1:
        return None
    if isinstance(program, SimulatorProgram | ShardedSimulatorProgram):
        used = processes.count()
        return f"this run uses {used} of {devices} devices, one in each process: its environments are outside of JAX"
    if not isinstance(program, SpreadProgram):
        return f"this run uses 1 of {devices} devices; more seeds, or shards, would use more"
    of_shards, config = len(program.groups[0].devices), program.config
    groups = config.seeds // program.groups[0].seeds
    return (
        f"seeds {config.seeds} × shards {config.shards} on {groups * of_shards} of {devices} devices: the seeds in "
        f"{groups} group{'s' * (groups > 1)}, each on {of_shards}"
    )


def _joined(parts: Sequence[PyTree]) -> PyTree:
    """Trees of arrays [S, ...] of some seeds, as one of all seeds."""

    def join(*arrays: PyTree) -> PyTree:
        return (jnp if is_key(arrays[0]) else np).concatenate(arrays)

    return jax.tree.map(join, *parts)


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
