"""What options of XLA do to the speed of whole updates: the same program compiled with each set of flags.

    python -m bench.flags overcooked-cramped_room "" xla_gpu_command_buffer_unroll_loops=true "xla_gpu_a=1 xla_gpu_b=2"

Every set gets a process of its own, since XLA reads its flags once. They compile side by side and take turns at being
timed. Prints a JSON row for each: seconds to compile, steps per second, the most memory it held on a GPU (compiling
included, when XLA tries kernels out), and the ratio to the first; or, where XLA did not take the flags or the program
failed, the last line that it wrote.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def measure(name: str, updates: int, seeds: int, turn: str) -> dict[str, Any]:
    """Compiles the preset's updates and, when it is this process's turn, times them."""
    import jax

    from bench.programs import compiled_updates, program_of
    from bench.timing import seconds
    from pqn.runs.provenance import peak_memory

    program = program_of(name, seeds)
    began = time.perf_counter()
    chunk, given = compiled_updates(program, updates)
    compile_s = time.perf_counter() - began
    with open(turn, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        took = seconds(chunk, *given)
    steps = updates * program.config.learner.rollout_steps * program.config.env.num_envs * seeds
    row = {"device": jax.devices()[0].device_kind, "compile_s": round(compile_s, 1), "steps_per_second": steps / took}
    peak = peak_memory()
    return row | ({"peak_gb": round(peak / 1e9, 2)} if peak else {})


def run(flags: str, arguments: list[str], timeout: float) -> dict[str, Any]:
    """`measure` in a process with these flags added to those of the environment."""
    dashed = [f"--{flag}" for flag in flags.split()]
    environment = os.environ | {"XLA_FLAGS": " ".join([os.environ.get("XLA_FLAGS", ""), *dashed]).strip()}
    command = [sys.executable, "-m", "bench.flags", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {timeout:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:300]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("flags", nargs="*", default=[""])
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4, help="compilations side by side")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each set, its turn included")
    parser.add_argument("--turn", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.turn:
        print(json.dumps(measure(given.preset, given.updates, given.seeds, given.turn)))
        return
    with tempfile.NamedTemporaryFile() as turn, ThreadPoolExecutor(given.jobs) as pool:
        common = ["--updates", str(given.updates), "--seeds", str(given.seeds), "--turn", turn.name]
        rows = pool.map(lambda flags: run(flags, [given.preset, *common], given.timeout), given.flags)
        first = None
        for flags, row in zip(given.flags, rows, strict=True):
            speed = row.get("steps_per_second")
            first = first or speed
            ratio = {"ratio": round(speed / first, 3)} if speed and first else {}
            print(json.dumps({"preset": given.preset, "seeds": given.seeds, "flags": flags} | row | ratio), flush=True)


if __name__ == "__main__":
    main()
