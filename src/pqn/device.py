"""What differs between a CPU and an accelerator, in one place: how loops, seeds and compilations are best laid out."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

import jax
import numpy as np

from pqn.errors import DeviceError, no_device, out_of_memory
from pqn.loops import SECONDS_PER_ITERATION, worthwhile
from pqn.traces import rewritten, small_updates_select, unrolled
from pqn.types import PyTree

CompilerOptions = dict[str, bool | str] | None
P = ParamSpec("P")
R = TypeVar("R")

# Unrolling loops once spares a copy of their state per iteration: a fifth of a small environment's step.
_GPU: dict[str, bool | str] = {"xla_gpu_enable_while_loop_double_buffering": True}
# Kernels that do not wait for each other run side by side: a tenth to a fifth of a small network's step.
_SIDE_BY_SIDE: dict[str, bool | str] = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
# All gradients are one collective operation; by default XLA makes several where they are more than 30 MB.
_SEVERAL: dict[str, bool | str] = {"xla_gpu_all_reduce_combine_threshold_bytes": str(2**31 - 1)}
SECONDS_TO_DOUBLE = 2.0  # of a processor, for the first: two for MinAtar and Overcooked, but ten for SMAX
# Programs that run once, or seldom and not for long, compile in 0.3 to 0.7 of the time. They might round otherwise;
# fresh states and evaluations of the presets that were compared are the same in every bit.
_CPU_IN_HASTE: dict[str, bool | str] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": "1",
}
LOOPS_UP_TO = 5000  # unroll a loop only if the result has at most this many operations; environments may say less
# Arrays of at most this many numbers are updated by a choice for each. It makes a fifth to three fifths fewer kernels
# of a step of MinAtar, Overcooked and Hanabi, counted for an H200: `bench.env_kernels`. Two of Craftax's floors have
# 4608: a step of it has 482 kernels with 1024 here, and 366 with 5000.
UPDATES_UP_TO = 5000


def compiler_options(env: object = None, double: bool = True, devices: int = 1) -> CompilerOptions:
    """How to compile a program of `devices` that steps `env`, if any, and runs long enough to `double` its loops."""
    if jax.default_backend() != "gpu":
        return None
    # A step with loops in it is not one graph of kernels but many small ones: slower side by side.
    small = getattr(env, "loops_up_to", LOOPS_UP_TO) >= LOOPS_UP_TO
    return (_GPU if double else {}) | (_SIDE_BY_SIDE if small else {}) | (_SEVERAL if devices > 1 else {})


def hasty_options(env: object = None) -> CompilerOptions:
    """How to compile a program that runs once, or seldom and not for long."""
    return _CPU_IN_HASTE if jax.default_backend() == "cpu" else compiler_options(env, double=False)


def worth_doubling(iterations: int) -> bool:
    """Whether loops that make so many iterations in a run are to be doubled by the compiler."""
    return jax.default_backend() == "gpu" and iterations * SECONDS_PER_ITERATION / 2 > SECONDS_TO_DOUBLE


def unroll(steps: int) -> int:
    """How many iterations of a loop of `steps` to compile into one: a launch costs an accelerator more than a CPU."""
    return 1 if jax.default_backend() == "cpu" else worthwhile(steps)


def scans_in_parallel() -> bool:
    """Whether to compute a linear recurrence over T steps in log₂ T rounds, instead of step by step.

    On a CPU both are about equally fast, and the loop compiles in a fraction of the time: `bench.memories --gradient`.
    """
    return jax.default_backend() != "cpu"


def in_few_kernels(function: Callable[P, R], loops_up_to: int) -> Callable[P, R]:
    """`function` with its short loops unrolled and its small updates as choices, on an accelerator.

    Environments loop over a few monsters or a few cards, do little for each, and write it into small arrays. An
    accelerator then spends its time on counters, on copies of what the loop carries, and on kernels too small to fuse.
    Nothing else changes: the results are the same in every bit.

    Args:
      function: of arrays or trees of them.
      loops_up_to: a loop is unrolled only if the result has at most this many operations.
    """
    if jax.default_backend() == "cpu":
        return function
    return rewritten(function, unrolled(loops_up_to), small_updates_select(UPDATES_UP_TO))


def over_seeds(function: Callable[P, R], seeds: int) -> Callable[P, R]:
    """`function` of one seed, for arguments with a leading axis of S seeds.

    An accelerator takes all seeds as one batch, nearly for free. A CPU takes them one by one: that is as fast as a
    batch and gives, bit for bit, what each seed alone would. A batch of one seed is slower than no batch.
    """

    of_one: Callable[..., R] = function

    def one_by_one(*args: P.args, **_: P.kwargs) -> R:
        return jax.lax.map(lambda one: of_one(*one), args)

    return one_by_one if seeds == 1 or jax.default_backend() == "cpu" else jax.vmap(function)


def over_seeds_but_last(function: Callable[..., R], seeds: int) -> Callable[..., R]:
    """`over_seeds` of a function whose last argument has no axis of seeds."""
    if seeds == 1:  # without the loop of `over_seeds`, which takes a good part of the time of a short program

        def alone(*args: PyTree) -> R:
            one = jax.tree.map(lambda x: x[0], args[:-1])
            return jax.tree.map(lambda x: x[None], function(*one, args[-1]))

        return alone

    def together(*args: PyTree) -> R:
        return over_seeds(lambda *one: function(*one, args[-1]), seeds)(*args[:-1])

    return together


def columns_are_slow() -> bool:
    """Whether a product that reads a tall matrix by columns is slow; see `networks.products`, `algorithms.packing`."""
    return jax.default_backend() == "cpu"


def short_means_are_slow() -> bool:
    """Whether a matrix product is a faster mean over the channels of an image; see `networks.norms`."""
    return jax.default_backend() == "cpu"


def simulator_groups(concurrent: bool) -> int:
    """Into how many groups to split simulators, which step on threads or in processes of their own if `concurrent`.

    With an accelerator two groups of such may step while a third has its actions computed. Where the network runs on
    the same cores as they do, two in all are better, and simulators that step within a call have no use for more.
    """
    return 3 if concurrent and jax.default_backend() != "cpu" else 2


def enable_compilation_cache() -> None:
    """Keeps compiled programs on disk between processes, unless the user has already said where (or that not).

    Raises:
      DeviceError: JAX has no device to compile for.
    """
    require_device()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "pqn" / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def require_device() -> None:
    """Starts JAX. What JAX raises without a device names neither cause nor remedy; `DeviceError` does.

    Nor does what it raises where its numbers have 64 bits: those of pqn have 32, in checkpoints as well.
    """
    if getattr(jax.config, "jax_enable_x64", False):
        raise DeviceError(
            "JAX is set to numbers of 64 bits, and pqn computes with 32; unset JAX_ENABLE_X64 (in Python: "
            "jax.config.update('jax_enable_x64', False))"
        )
    try:
        jax.devices()
    except Exception as error:
        why = " ".join(str(error).split())[:200] or "it has no device of that kind"
        raise DeviceError(no_device(why)) from error


def require_compiler() -> None:
    """Raises `DeviceError` where JAX is told not to compile: a run is compiled before it starts."""
    if getattr(jax.config, "jax_disable_jit", False):
        raise DeviceError(
            "JAX is set not to compile (jax_disable_jit), and training is one compiled program; to look into an "
            "environment, call its functions under jax.disable_jit yourself, or use pqn.check_env"
        )


def require_memory(needed: int) -> None:
    """Raises `DeviceError` for more bytes than this machine has.

    An accelerator refuses by itself. On a CPU the operating system promises memory that it does not have, and kills the
    process that uses it without a message.
    """
    has = machine_memory()
    if jax.default_backend() == "cpu" and needed > has:
        raise DeviceError(out_of_memory(f": it needs {needed / 2**30:.1f} GB, and this machine has {has / 2**30:.1f}"))


def device_memory() -> float:
    """Bytes of memory of the first device; infinity where nobody says."""
    if jax.default_backend() == "cpu":
        return machine_memory()
    return (jax.devices()[0].memory_stats() or {}).get("bytes_limit", math.inf)


def size(tree: PyTree) -> int:
    """Bytes of a tree of arrays, or of their shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def planned(programs: Iterable[jax.stages.Compiled]) -> int:
    """Bytes that the largest of some compiled programs holds at once."""
    return max((_bytes(program.memory_analysis()) for program in programs), default=0)


def _bytes(plan: PyTree) -> int:
    """What a program holds at once; 0 where XLA does not say."""
    if plan is None:
        return 0
    kept = plan.argument_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes
    return kept + plan.temp_size_in_bytes


def machine_memory() -> float:
    """Bytes of memory and swap, or what a container may use of them; infinity where the system does not say."""
    limits = [math.inf]
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(sum(int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "SwapTotal") if name in lines))
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" means no limit
            limits.append(int(Path(file).read_text()))
    return min(limits)


def copied(tree: PyTree) -> PyTree:
    """Copies of the arrays of a tree, through the host's memory."""
    return jax.tree.map(lambda x: jax.device_put(np.array(x, copy=True), x.sharding), tree)


def start_fetching(array: jax.Array) -> None:
    """Lets an array travel to the host as soon as it is computed; on a CPU it is there already."""
    if jax.default_backend() != "cpu":
        array.copy_to_host_async()
