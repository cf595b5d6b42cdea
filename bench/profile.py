"""Which kernels an update spends its time in; on a CPU, which operations.

    python -m bench.profile cartpole-paper --seeds 1
    taskset -c 0 python -m bench.profile minatar-breakout-paper        # on one core of a CPU: the others add noise
    python -m bench.profile overcooked-cramped_room --timeline 300     # what waits for what

Runs some updates under JAX's profiler and prints kernels launched per update, the share of time the device was busy,
and the kernels that took the most of it; or some kernels from the middle, one after the other, with the microsecond
at which each started and how many it took.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import jax

from bench.programs import compiled_updates, program_of

CONTAINERS = ("while", "call", "conditional")


def kernels(folder: str) -> list[tuple[str, float, float]]:
    """(name, start, duration) in nanoseconds of all kernels of a GPU in a trace, or else of all operations of a CPU."""
    found: dict[str, list[tuple[str, float, float]]] = {"gpu": [], "cpu": []}
    for file in Path(folder).rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            for line in plane.lines:
                events = [(event.name, event.start_ns, event.duration_ns) for event in line.events]
                if plane.name.startswith("/device:GPU") and line.name.startswith("Stream"):
                    found["gpu"] += events
                elif line.name.startswith("tf_XLAEigen"):
                    # What contains others would count twice.
                    found["cpu"] += [one for one in events if not one[0].startswith(CONTAINERS) and "::" not in one[0]]
    return found["gpu"] or found["cpu"]


def traced(name: str, seeds: int, updates: int) -> list[tuple[str, float, float]]:
    """The kernels of some updates."""
    chunk, given = compiled_updates(program_of(name, seeds), updates)
    jax.block_until_ready(chunk(*given))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(chunk(*given))
        events = kernels(folder)
    if not events:
        raise SystemExit("the trace holds no kernels")
    return events


def timeline(name: str, seeds: int, count: int) -> str:
    """Some kernels in the order in which they started."""
    events = sorted(traced(name, seeds, updates=2), key=lambda event: event[1])
    some = events[max(0, len(events) // 2 - count // 2) :][:count]
    return "\n".join(f"{(at - some[0][1]) / 1e3:10.2f} {took / 1e3:8.2f}  {kernel}" for kernel, at, took in some)


def profile(name: str, seeds: int, updates: int = 5, top: int = 12) -> dict:
    events = traced(name, seeds, updates)
    busy = sum(duration for _, _, duration in events)
    span = max(start + duration for _, start, duration in events) - min(start for _, start, _ in events)
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for kernel, _, duration in events:
        totals[kernel][0] += 1
        totals[kernel][1] += duration
    ranked = sorted(totals.items(), key=lambda item: -item[1][1])[:top]
    return {
        "preset": name,
        "seeds": seeds,
        "kernels_per_update": len(events) / updates,
        "update_ms": span / updates / 1e6,
        "busy": busy / span,
        "mean_kernel_us": busy / len(events) / 1e3,
        "top": [
            {"kernel": kernel, "per_update": count / updates, "us": time / count / 1e3, "share": time / busy}
            for kernel, (count, time) in ranked
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--timeline", type=int, default=0, metavar="N", help="print N kernels one after the other")
    given = parser.parse_args()
    for name in given.presets:
        for seeds in given.seeds:
            if given.timeline:
                print(timeline(name, seeds, given.timeline), flush=True)
                continue
            print(json.dumps(profile(name, seeds), indent=1), flush=True)


if __name__ == "__main__":
    main()
