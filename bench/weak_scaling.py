"""Does a run with twice the environments take as long on twice the devices?

    python -m bench.weak_scaling [cartpole] [--devices 1 2] [--spread seeds|shards]

Each number of devices is a process of its own with that many CPU devices and so many shards (or seeds) of the preset's
number of environments: the work of a device stays the same. The process may use as many cores as it has devices and no
others: otherwise one device spreads its work over all cores, even with one thread for its matrix products, and two
devices could not be faster. Prints a JSON row for each: environment steps per second of all devices together, and how
many times those of the first row that is. The median of some repetitions counts. There should be as many idle cores as
devices.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial

FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count={}"


def measure(name: str, devices: int, spread: str, seconds: float, repetitions: int) -> dict[str, object]:
    """In a process that has that many devices."""
    import jax

    from pqn.envs import registry
    from pqn.presets import preset
    from pqn.programs.spread import SpreadProgram, groups_of

    config = preset(name, {"eval.count": 0})
    options = {"shards": devices, "env.num_envs": config.env.num_envs * devices} if spread == "shards" else {}
    config = config.replace(options, seeds=devices if spread == "seeds" else 1)
    config = config.replace(total_steps=10**12).validate()
    assert len(jax.devices()) == devices
    program = SpreadProgram(
        config,
        lambda n: registry.make(config.env.name, n, **config.env.kwargs),
        groups_of(config.seeds, config.shards, jax.devices()),
    )
    program.compile()
    state, totals = program.chunk(program.init(), 1)
    count, speeds = 1, []
    while count < 10**6:  # as many updates as take long enough to measure
        began = time.perf_counter()
        state, totals = program.chunk(state, count, totals)
        if time.perf_counter() - began > seconds / 2:
            break
        count *= 2
    for _ in range(repetitions):
        began = time.perf_counter()
        state, totals = program.chunk(state, count, totals)
        speeds.append(count * config.steps_per_update * config.seeds / (time.perf_counter() - began))
    row = {"preset": name, "devices": devices, spread: devices, "envs_per_device": config.env.num_envs // config.shards}
    cores = len(os.sched_getaffinity(0))
    return row | {"cores": cores, "updates": count, "steps_per_second": round(statistics.median(speeds))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="cartpole")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--spread", choices=["seeds", "shards"], default="shards")
    parser.add_argument("--seconds", type=float, default=4.0, help="of one repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--here", action="store_true", help="measure in this process")
    given = parser.parse_args()
    if given.here:
        row = measure(given.preset, given.devices[0], given.spread, given.seconds, given.repetitions)
        print(json.dumps(row))
        return
    first = None
    cores = sorted(os.sched_getaffinity(0))
    if max(given.devices) > len(cores):
        parser.error(f"--devices {max(given.devices)}: there are {len(cores)} cores, and each device needs one")
    for devices in given.devices:
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": FLAGS.format(devices)}
        words = [given.preset, "--devices", devices, "--spread", given.spread, "--here"]
        words += ["--seconds", given.seconds, "--repetitions", given.repetitions]
        command = [sys.executable, "-m", "bench.weak_scaling", *map(str, words)]
        pinned = partial(os.sched_setaffinity, 0, cores[:devices])
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=pinned
        )
        row = json.loads(done.stdout.splitlines()[-1])
        first = first or row["steps_per_second"]
        print(json.dumps(row | {"times_the_first": round(row["steps_per_second"] / first, 2)}), flush=True)


if __name__ == "__main__":
    main()
