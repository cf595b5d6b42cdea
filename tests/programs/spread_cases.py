"""Trains some tiny runs on the first n of this process's devices, and says how they differ. See `test_spread.py`.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/programs/spread_cases.py CASE …
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from typing import cast

import jax
import numpy as np
from conftest import tiny

from bench.collectives import computations, joined
from pqn.config import Config
from pqn.device import enable_compilation_cache
from pqn.envs import registry
from pqn.programs.base import Program, RunState
from pqn.programs.spread import SpreadProgram, groups_of
from pqn.runs import checkpoint
from pqn.runs.state_tree import flatten
from pqn.training.initial import start_from

UPDATES = 3
MEMORY = {
    "learner.minibatches": 2,
    "network.memory": "gru",
    "network.memory_size": 8,
    "learner.segment_length": 4,
    "learner.burn_in": 2,
}
SMAX = {"env.name": "smax:3m", "env.kwargs": {}, "learner.rollout_steps": 4, "learner.minibatches": 2}
CASES = {
    "seeds": ({"seeds": 2}, (1, 2)),
    "shards": ({"shards": 4, "network.hidden": (400, 400)}, (1, 2, 4)),  # one of the arrays is not part of the vector
    "recurrent, batch statistics": (MEMORY | {"network.norm_input": "batch_renorm", "shards": 2}, (1, 2)),
    "four seeds": ({"seeds": 4}, (1, 2, 4)),
    "two shards on a device": ({"shards": 4}, (1, 2)),
    "seeds and shards": ({"seeds": 4, "shards": 2}, (1, 8)),
    "recurrent": (MEMORY | {"shards": 2}, (1, 2)),
    "batch norm": ({"network.norm": "batch_renorm", "network.norm_input": "batch", "shards": 2}, (1, 2)),
    "recurrent, batch norm": (
        MEMORY | {"network.norm": "batch", "network.norm_input": "batch", "network.hidden": (16, 16), "shards": 2},
        (1, 2),
    ),
    "ppo": ({"algorithm": "ppo", "shards": 2}, (1, 2)),
    "dqn": ({"algorithm": "dqn", "replay.size": 1024, "replay.start": 64, "replay.batch": 32, "shards": 2}, (1, 2)),
    "vdn": (SMAX | {"shards": 2}, (1, 2)),
    "qmix": (SMAX | {"shards": 2, "learner.mixer": "qmix", "learner.mixer_size": 4}, (1, 2)),
}
"""Options, and the numbers of devices to compare."""


def config_of(case: str) -> Config:
    return tiny(CASES[case][0] | {"eval.count": int("seeds" in case)})


@functools.cache
def program_of(case: str, devices: int) -> SpreadProgram:
    config = config_of(case)

    def make(num_envs: int):
        return registry.make(config.env.name, num_envs, **config.env.kwargs)

    program = SpreadProgram(config, make, groups_of(config.seeds, config.shards, jax.devices()[:devices]))
    program.compile()
    return program


def train(case: str, devices: int) -> dict[str, np.ndarray]:
    """The state after some updates, the totals and the evaluation, by name."""
    program = program_of(case, devices)
    state, totals = program.chunk(program.init(), 1)
    state, totals = program.chunk(state, UPDATES - 1, totals)
    played = {"played": np.asarray(program.evaluate(state).ret)} if program.config.eval.count else {}
    return flatten(program.snapshot(state))[1] | {f"totals/{name}": value for name, value in totals.items()} | played


def collectives(case: str) -> list[int]:
    """The bytes of each collective operation in the program of a case, on as many devices as it has."""
    program = program_of(case, CASES[case][1][-1]).parts[0]
    found, _ = computations(program.lower_chunk().compile().as_text())
    return sorted(size for instructions in found.values() for size in joined(instructions))


def resumed(case: str) -> dict[int, dict[str, np.ndarray]]:
    """By number of devices: the state one update after a checkpoint that the largest number of devices wrote."""
    counts = CASES[case][1]
    program, after = program_of(case, counts[-1]), {}
    with tempfile.TemporaryDirectory() as folder:
        path = checkpoint.save(folder, program.snapshot(program.chunk(program.init(), UPDATES)[0]), UPDATES)
        for devices in counts:
            program = program_of(case, devices)
            state = program.restore(checkpoint.place(checkpoint.read(path), program.saved_shape()), print)
            after[devices] = flatten(program.snapshot(program.chunk(state, 1)[0]))[1]
    return after


def started_from(case: str) -> list[dict[str, np.ndarray]]:
    """The state one update after the start from weights that one device has trained, for each number of devices."""
    first, *_ = counts = CASES[case][1]
    program = program_of(case, first)
    (trained,), _ = program.chunk(program.init(), UPDATES)  # one device, and therefore one group
    policy = jax.device_get(program.algorithm.policy(trained.learner))
    programs = [program_of(case, devices) for devices in counts]
    starts = [start_from(cast(Program, one), cast(RunState, one.init()), policy) for one in programs]
    return [flatten(one.snapshot(one.chunk(start, 1)[0]))[1] for one, start in zip(programs, starts, strict=True)]


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """The largest difference, relative to the largest number of an array; infinity where integers differ.

    0: equal to the bit. Everything is compared, in the unit in which it is used. RAdam divides by the root of the mean
    of squares. A batch norm divides by the running standard deviation, and a running mean has no other unit: where the
    input was normalised before, it is 0. PPO's policy loss is a mean of advantages of size 1 that add up to about 0.
    """
    worst = 0.0
    for name, a in one.items():
        b = other[name]
        if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        if a.dtype.kind != "f":
            return float("inf")
        if name.startswith("learner/opt/nu"):
            a, b = np.sqrt(a), np.sqrt(b)
        is_mean = name.startswith("learner/stats") and name.endswith("mean")
        unit = np.sqrt(one[name.removesuffix("mean") + "var"]) if is_mean else a
        unit = np.ones(1) if name == "totals/policy_loss" else unit
        worst = max(worst, float(np.max(np.abs(a - b)) / max(np.max(np.abs(unit)), 1e-6)))
    return worst


def main() -> None:
    enable_compilation_cache()
    for case in sys.argv[1:]:
        counts = CASES[case][1]
        first, *others = (train(case, devices) for devices in counts)
        found = {str(n): difference(first, other) for n, other in zip(counts[1:], others, strict=True)}
        row = {"case": case, "differences": found}
        if case in ("seeds", "shards"):
            *others, last = resumed(case).values()
            row["resumed"] = [difference(last, other) for other in others]
        if case == "seeds":
            row["init_from"] = difference(*started_from(case))
        if case == "shards":
            row["collectives"] = collectives(case)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
