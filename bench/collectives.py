"""What several GPUs say to each other in an update, counted without any.

    pip install 'jax-cuda13-plugin[with-cuda]'       # the version of the installed jax; no driver is needed
    python -m bench.collectives cartpole-paper overcooked-cramped_room [--gpus 8]

Compiles the updates of each preset, with one shard on each of `--gpus` H200s, which XLA can do on any machine, and
prints a JSON row: collective operations per gradient step and per update, and the bytes that each gradient step joins.
`expected_us` is what one join takes by calculation: a ring over `--gbps` gigabytes per second in each direction, and
`--latency` microseconds for each of its 2·(n − 1) steps. It is no measurement.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from typing import Any
from unittest import mock

import jax
import numpy as np
from jax.experimental import topologies

from bench.kernels import TARGET, computations, counted_loops, loops
from pqn.cli.options import pair
from pqn.envs import registry
from pqn.presets import preset
from pqn.programs.compiled import CompiledProgram

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
SIZES = {"f64": 8, "s64": 8, "u64": 8, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "pred": 1, "s8": 1, "u8": 1}


def gpus(count: int) -> list[Any]:
    """H200s to compile for, which need not be there."""
    shape = f"{count}x1x1" if count <= 8 else f"8x{count // 8}x1"
    target = TARGET.read_text()
    return list(topologies.get_topology_desc("h200", "cuda", target_config=target, topology=shape).devices)


def joined(instructions: list[str]) -> list[int]:
    """The bytes of each collective operation among some instructions."""
    found = []
    for line in instructions:
        operation = re.search(r"= (.*?) ([\w\-]+)\(", line)
        if operation and operation[2].removesuffix("-start") in COLLECTIVES:
            shapes = re.findall(r"(\w+)\[([\d,]*)\]", operation[1])
            sizes = [SIZES[kind] * int(np.prod([int(n) for n in dims.split(",") if n])) for kind, dims in shapes]
            # The result of an asynchronous start is a pair of its operands and its results.
            found.append(sum(sizes) // (2 if operation[2].endswith("-start") and _is_pair(operation[1]) else 1))
    return found


def _is_pair(result: str) -> bool:
    shapes = re.findall(r"\w+\[[\d,]*\]", result)
    half = len(shapes) // 2
    return len(shapes) % 2 == 0 and shapes[:half] == shapes[half:]


def per_run(found: dict[str, list[str]], name: str) -> list[int]:
    """The bytes of every collective operation of a computation, those in loops as often as they run."""
    inner = [bytes_ for body, times in counted_loops(found[name]) for bytes_ in per_run(found, body) * times]
    return joined(found[name]) + inner


def ring_us(size: int, count: int, gbps: float, latency: float) -> float:
    """Microseconds of a ring all-reduce of `size` bytes among `count` devices."""
    steps = 2 * (count - 1)
    return steps * latency + steps / count * size / (gbps * 1e3)


def program_for(name: str, count: int) -> CompiledProgram:
    """A preset's program with `count` shards, each on a GPU that need not be there."""
    name, *settings = name.split(",")
    config = preset(name, {"eval.count": 0, "shards": count} | dict(map(pair, settings))).validate()
    return CompiledProgram(config, lambda n: registry.make(config.env.name, n, **config.env.kwargs), tuple(gpus(count)))


def measure(name: str, count: int, gbps: float, latency: float) -> dict[str, Any]:
    program = program_for(name, count)
    compiled = program.lower_chunk().compile(program.options)
    found, entry = computations(compiled.as_text())
    ((body, _),) = loops(found[entry])  # as many updates as asked for, at run time
    every = per_run(found, body)
    steps = program.config.learner.epochs * program.config.learner.minibatches
    largest = max(every, default=0)
    return {
        "preset": name,
        "gpus": count,
        "gradient_steps": steps,
        "collectives_per_update": len(every),
        "collectives_per_gradient_step": round(sum(size > 64 for size in every) / steps, 2),
        "bytes_per_gradient_step": round(sum(size for size in every if size > 64) / steps),
        "largest_bytes": largest,
        "times_per_update_by_bytes": {str(size): times for size, times in sorted(Counter(every).items())},
        "expected_us_per_gradient_step": round(
            sum(ring_us(size, count, gbps, latency) for size in every if size > 64) / steps, 1
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--gpus", type=int, nargs="+", default=[8])
    parser.add_argument("--gbps", type=float, default=450.0, help="of NVLink on an H200, each direction")
    parser.add_argument("--latency", type=float, default=3.0, help="microseconds of a step of the ring")
    given = parser.parse_args()
    # What is laid out differently for accelerators asks for this; the arrays themselves stay abstract.
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        for name in given.presets:
            for count in given.gpus:
                print(json.dumps(measure(name, count, given.gbps, given.latency)), flush=True)


if __name__ == "__main__":
    main()
