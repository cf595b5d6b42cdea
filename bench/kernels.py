"""How many kernels a gradient step is on a GPU, counted without one.

    pip install 'jax-cuda13-plugin[with-cuda]'       # the version of the installed jax; no driver is needed
    python -m bench.kernels overcooked-cramped_room cartpole-paper [--option xla_gpu_experimental_gemm_fusion_v2=true]

Compiles the learner of each preset for an H200, which XLA can do on any machine, and prints a JSON row: kernels per
gradient step, and how many of them have to wait for one another (the longest chain). Small networks take about as long
as these numbers say, whatever the kernels do. Two things differ on the real machine: there XLA tries out how to compute
each matrix product, and here it takes a default; and kernels that do not depend on each other may share the GPU.

With `--update` it compiles whole updates, environments included, and counts the kernels of one. What is behind a
condition, such as new worlds in Craftax, is left out. The row then also says how much memory the program plans to hold
at most: parameters, environments and rollouts of all seeds, and everything in between.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from bench.programs import program_of
from pqn.device import compiler_options
from pqn.loops import repeated
from pqn.programs import rollout

TARGET = Path(__file__).with_name("h200.txtpb")
# Instructions that start nothing on the device.
FREE = {
    "parameter",
    "tuple",
    "get-tuple-element",
    "constant",
    "bitcast",
    "after-all",
    "fusion-done",
    "copy-done",
    "while",
}


def gpu() -> Any:
    """An H200 to compile for, which need not be there."""
    return topologies.get_topology_desc("h200", "cuda", target_config=TARGET.read_text(), topology="1x1x1").devices[0]


def computations(text: str) -> tuple[dict[str, list[str]], str]:
    """The instructions of each computation of a compiled module, and the name of the one it starts with."""
    found: dict[str, list[str]] = {}
    current = entry = ""
    for line in text.splitlines():
        head = re.match(r"^(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head:
            current = head.group(2)
            found[current] = []
            entry = current if head.group(1) else entry
        elif current and line.startswith("  "):
            found[current].append(line)
    return found, entry


def kernels(instructions: list[str]) -> tuple[int, int]:
    """How many of the instructions are kernels, and how many of those the longest chain of dependencies holds."""
    count, longest = 0, 0
    chain: dict[str, int] = {}
    for line in instructions:
        parts = re.search(r"(%[\w.\-]+) = .*? ([\w\-]+)\((.*)", line)
        if not parts:
            continue
        name, operation, rest = parts.groups()
        own = operation not in FREE
        count += own
        # Names of computations and of what must come first stand behind the operands; they do no harm here.
        before = re.findall(r"%[\w.\-]+", rest)
        chain[name] = own + max((chain.get(other, 0) for other in before), default=0)
        longest = max(longest, chain[name])
    return count, longest


def loops(instructions: list[str]) -> list[tuple[str, int | None]]:
    """The bodies of the loops among them, and how often each runs; None if that is not known beforehand."""
    bodies = [re.search(r" while\(.*body=%?([\w.\-]+)", line) for line in instructions]
    trips = [re.search(r'"known_trip_count":\{"n":"(\d+)"\}', line) for line in instructions]
    return [(body.group(1), int(n.group(1)) if n else None) for body, n in zip(bodies, trips, strict=True) if body]


def counted_loops(instructions: list[str]) -> list[tuple[str, int]]:
    """The loops that run a known number of times. The others are conditions, such as new worlds in Craftax."""
    return [(body, times) for body, times in loops(instructions) if times is not None]


def launches(found: dict[str, list[str]], name: str) -> int:
    """Kernels of a computation and of its loops, each as often as it runs."""
    count, _ = kernels(found[name])
    return count + sum(times * launches(found, body) for body, times in counted_loops(found[name]))


def largest_loop(text: str) -> tuple[list[str], int]:
    """The instructions of the loop body with the most of them, and how often it runs; of everything if none loops."""
    found, entry = computations(text)
    bodies = [(entry, 1), *(loop for instructions in found.values() for loop in counted_loops(instructions))]
    name, times = max(bodies, key=lambda loop: (loop[0] != entry, len(found[loop[0]])))
    return found[name], times


def compile_for_gpu(function: Any, given: tuple, options: dict[str, Any], **how: Any) -> tuple[Any, float]:
    """The compiled function, and the seconds it took; `how` is for `jax.jit`."""
    device = gpu()
    place = SingleDeviceSharding(device)
    # Hand-written kernels ask for the kind of device rather than for where their arrays are.
    kind = jax.sharding.AbstractDevice(device_kind=device.device_kind, num_cores=None, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=kind)):
        lowered = jax.jit(function, in_shardings=place, out_shardings=place, **how).lower(*given)
    began = time.perf_counter()
    compiled = lowered.compile(options)
    return compiled, round(time.perf_counter() - began, 1)


def planned_bytes(compiled: Any) -> int:
    """Memory that a compiled function needs while it runs, arguments and results included."""
    plan = compiled.memory_analysis()
    kept = plan.argument_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes
    return kept + plan.temp_size_in_bytes


def measure(name: str, options: dict[str, Any], update: bool, seeds: int = 1) -> dict[str, Any]:
    """Compiles and counts the gradient steps of one update, or the whole of it, with all its seeds."""
    program = program_of(name, seeds)
    learner, hyper = program.algorithm, program.hyper
    row: dict[str, Any] = {"preset": name, "options": options}
    options = (compiler_options(program.env, program.doubled) or {}) | options
    if update:
        state = jax.eval_shape(jax.vmap(program.init_one), program.seeds)
        given = jax.eval_shape(lambda *args: args, state, hyper, jnp.int32(1))
        compiled, seconds = compile_for_gpu(program._chunk, given, options, donate_argnums=0)
        found, entry = computations(compiled.as_text())
        ((body, _),) = loops(found[entry])  # as many updates as asked for, at run time
        counts = {"seeds": seeds, "kernels_per_update": launches(found, body), "compile_s": seconds}
        return row | counts | {"planned_gb": round(planned_bytes(compiled) / 1e9, 3)}
    state = jax.eval_shape(program.init_one, program.seeds[0])
    data = jax.eval_shape(lambda s: rollout.collect(program.env, learner, s.learner, s.stream, s.key, hyper)[1], state)
    progress, work = jax.eval_shape(lambda s, data: learner.prepare(s.learner, data, s.key, hyper), state, data)
    given = jax.eval_shape(lambda *args: args, progress, work, hyper)
    with repeated(program.planned_updates, program.doubled):
        compiled, seconds = compile_for_gpu(learner.descend, given, options)
    body, trips = largest_loop(compiled.as_text())
    steps = len(work.orders) / trips
    count, longest = kernels(body)
    return row | {
        "gradient_steps": len(work.orders),
        "kernels_per_gradient_step": round(count / steps, 2),
        "longest_chain": round(longest / steps, 2),
        "compile_s": seconds,
    }


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--option", dest="options", action="append", type=_option, default=[])
    parser.add_argument("--update", action="store_true", help="count whole updates")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="with --update: trained together; a row each")
    given = parser.parse_args()
    # What is laid out differently for accelerators asks for this; the arrays themselves stay abstract.
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        for name in given.presets:
            for seeds in given.seeds if given.update else [1]:
                print(json.dumps(measure(name, dict(given.options), given.update, seeds)), flush=True)


if __name__ == "__main__":
    main()
