"""How fast 8 and 64 GPUs should be, by calculation.

    python -m bench.expected_scaling

Nothing here was measured on more than one GPU. One GPU's environment steps per second are those of README.md. Every GPU
keeps as many environments as the preset has, in one shard. An update then takes as long as on one GPU, and in addition
each gradient step joins the gradients: a ring among the 8 GPUs of a machine, and, for more machines, a ring among the
machines in which each GPU sends its eighth of the bytes. A batch norm adds two small joins, for its statistics and for
their gradient. `bench.collectives` counts the joins and their bytes in the compiled program.

Prints a row for each preset: bytes of a gradient, microseconds of a gradient step's joins, and the share of the time
that is not spent on them (1 means that D GPUs are D times as fast).
"""

from __future__ import annotations

import json
import math

import jax

from bench.collectives import ring_us
from bench.programs import program_of

STEPS_PER_SECOND = {
    "cartpole-paper": 510e3,
    "minatar-breakout-paper": 1.09e6,
    "minatar-asterix-paper": 330e3,
    "smax-2s3z": 79e3,
    "overcooked-cramped_room": 141e3,
    "craftax": 322e3,
    "craftax-rnn": 206e3,
}
"""Of one GPU, with one seed."""
NVLINK_GBPS, NVLINK_US = 450.0, 3.0  # of an H200, each direction; of one step of a ring
NETWORK_GBPS, NETWORK_US = 50.0, 10.0  # 400 Gbit/s for each GPU
PER_MACHINE = 8


def join_us(size: float, gpus: int) -> float:
    """Microseconds to join `size` bytes of each GPU."""
    here, machines = min(gpus, PER_MACHINE), max(1, gpus // PER_MACHINE)
    across = ring_us(round(size / here), machines, NETWORK_GBPS, NETWORK_US) if machines > 1 else 0.0
    return ring_us(round(size), here, NVLINK_GBPS, NVLINK_US) + across


def expect(name: str) -> dict[str, object]:
    program = program_of(name)
    learner, config = program.state_shape.learner, program.config
    size = 4 * sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(learner.params))
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(learner.stats)[0]]
    norms = len({jax.tree_util.keystr(path[:-1]) for path in paths})
    steps = config.learner.epochs * config.learner.minibatches
    seconds = config.steps_per_update / STEPS_PER_SECOND[name]
    row: dict[str, object] = {"preset": name, "gradient_steps": steps, "bytes": size, "batch_norms": norms}
    for gpus in (8, 64):
        step_us = join_us(size, gpus) + 2 * norms * join_us(4096, gpus)
        row |= {
            f"join_us_{gpus}": round(step_us),
            f"share_{gpus}": round(seconds / (seconds + steps * step_us / 1e6), 2),
        }
    return row


def main() -> None:
    for name in STEPS_PER_SECOND:
        print(json.dumps(expect(name)), flush=True)


if __name__ == "__main__":
    main()
