"""Do two versions of this repository train the same parameters, bit for bit?

    python -m bench.identical REVISION [--presets NAME …] [--updates 3]
    python -m bench.identical REVISION --programs [--gpu | --h200] [--seeds 2]

Trains each preset for a few updates with this working tree and with a checkout of REVISION, both by the command line,
and compares the bytes of every parameter in the final checkpoints. Exit 1 where a preset differs. A refactoring must
print "identical" everywhere; a fix that is meant to change numbers shows here which presets it changes.

`--programs` compares what is given to the compiler instead of what comes out: the StableHLO text of a chunk of updates,
but for the names of functions and values and the order of arguments. It is quicker and stricter. Equal programs give
equal numbers on every device; different ones may still give equal numbers. Simulators have no such program and are left
out. `--gpu` compares the programs for a GPU, which need not be there, with the options that the compiler gets: where
both are equal, so is the speed. `--h200` compares what the compiler makes of them for an H200, kernel by kernel, which
takes minutes for each preset and what bench/kernels.py needs. Equal kernels in an equal order take equally long.

Only `pqn train`, the tensors `learner/params/…` of a checkpoint and `bench.programs.program_of` are used of a revision.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors import safe_open

ROOT = Path(__file__).resolve().parent.parent
SMALL = {
    "cartpole": {},
    "cartpole-paper": {},
    "acrobot-paper": {},
    "minatar-breakout-paper": {"env.num_envs": 16, "learner.minibatches": 8},
    "minatar-asterix-paper": {"env.num_envs": 16, "learner.minibatches": 8},
    "cartpole-rnn": {"env.num_envs": 8, "learner.minibatches": 2},
    "smax-2s3z": {"env.num_envs": 4, "learner.minibatches": 2, "network.hidden": "32", "network.memory_size": 32},
    "overcooked-cramped_room": {"env.num_envs": 4, "learner.minibatches": 2, "network.conv": "matmul"},
    "atari-pong": {"env.num_envs": 4, "learner.minibatches": 2, "learner.rollout_steps": 8},
}
"""Presets, and the options that make an update of each a matter of seconds on a CPU."""


def command(preset: str, updates: int, out: Path, steps_per_update: int) -> list[str]:
    options = SMALL.get(preset, {}) | {"total_steps": updates * steps_per_update, "eval.count": 0, "seeds": 2}
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "pqn", "train", preset, *words, "--out", str(out)]


def train(tree: Path, preset: str, updates: int, out: Path, steps_per_update: int) -> dict[str, str]:
    """The hash of each parameter after some updates with the code in `tree`."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "JAX_PLATFORMS": "cpu"}
    words = command(preset, updates, out, steps_per_update)
    done = subprocess.run(words, check=False, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{preset} with {tree}: {done.stderr.strip().splitlines()[-1]}")
    newest = max((out / "checkpoints").glob("step-*"))
    with safe_open(newest / "state.safetensors", "numpy") as file:
        names = file.keys()
        parameters = [name for name in names if name.startswith("learner/params/")]
        return {name: hashlib.sha256(file.get_tensor(name).tobytes()).hexdigest() for name in parameters}


LOWER = """
import os, sys, jax, jax.numpy as jnp
from bench.programs import program_of
from pqn import device

backend = os.environ["PQN_LOWER_FOR"]
jax.devices()
jax.default_backend = lambda: backend
program = program_of(sys.argv[1], int(sys.argv[2]))
state = jax.eval_shape(jax.vmap(program.init_one), program.seeds)
traced = jax.jit(program._chunk).trace(state, program.hyper, jnp.int32(2))
sys.stdout.write(traced.lower(lowering_platforms=("cuda" if backend == "gpu" else "cpu",)).as_text())
given = (program.doubled,) if hasattr(program, "doubled") else ()  # older revisions double always
sys.stdout.write(f"compiler options: {device.compiler_options(program.env, *given)}")
"""


COMPILE = """
import sys, jax, jax.numpy as jnp
from unittest import mock
from bench.kernels import compile_for_gpu
from bench.programs import program_of
from pqn.device import compiler_options

with mock.patch.object(jax, "default_backend", lambda: "gpu"):
    program = program_of(sys.argv[1], int(sys.argv[2]))
    state = jax.eval_shape(jax.vmap(program.init_one), program.seeds)
    given = jax.eval_shape(lambda *args: args, state, program.hyper, jnp.int32(2))
    compiled, _ = compile_for_gpu(program._chunk, given, compiler_options(program.env) or {}, donate_argnums=0)
sys.stdout.write(compiled.as_text())
"""


def compiled_text(tree: Path, preset: str, seeds: int) -> list[str]:
    """The lines of the program that the compiler makes for an H200, numbers instead of names."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}:{tree}"}
    words = [sys.executable, "-c", COMPILE, preset, str(seeds)]
    done = subprocess.run(words, check=False, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{preset} with {tree}: {done.stderr.strip().splitlines()[-1]}")
    # Where something stands in the source is no part of the program; neither are the names of arguments.
    text = re.sub(r", metadata=\{[^{}]*\}", "", done.stdout.partition("\n")[2])
    text = re.sub(r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*", "", text, flags=re.MULTILINE)
    text = re.sub(r"^((?:ENTRY )?%[\w.\-]+) \(.*\{$", r"\1 {", text, flags=re.MULTILINE)
    text = re.sub(r'\bir = "(?:[^"\\]|\\.)*"', "", text)  # hand-written kernels say where they stand in the source
    return _numbered(text).splitlines()


def program_text(tree: Path, preset: str, backend: str, seeds: int) -> list[str]:
    """The lines of the program that the code in `tree` gives to the compiler, numbers instead of names."""
    small = SMALL.get(preset, {}).items() if backend == "cpu" else ()  # what is compared is what would be timed
    words = [preset, *(f"{name}={value}" for name, value in small if name != "network.hidden")]
    paths = {"PYTHONPATH": f"{tree / 'src'}:{tree}", "JAX_PLATFORMS": "cpu", "PQN_LOWER_FOR": backend}
    environment = os.environ | paths
    words = [sys.executable, "-c", LOWER, ",".join(words), str(seeds)]
    done = subprocess.run(words, check=False, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{preset} with {tree}: {done.stderr.strip().splitlines()[-1]}")
    # Where an argument stands among the others does not matter, nor do the names of values and functions.
    text = re.sub(r"(func\.func public @main)\(.*?\) ->", r"\1 ->", done.stdout, flags=re.DOTALL)
    functions: dict[str, str] = {}
    text = re.sub(r"@\w+", lambda name: functions.setdefault(name[0], f"@{len(functions)}"), text)
    return "".join(map(_numbered, text.split("func.func"))).splitlines()


def _numbered(function: str) -> str:
    """The text of a function with its values numbered in the order of their first use."""
    values: dict[str, str] = {}
    return re.sub(r"%[\w.\-]+", lambda name: values.setdefault(name[0], f"%{len(values)}"), function)


def _operation(line: str) -> str:
    """What a line computes, of which shapes, without the names of values."""
    return re.sub(r"[@%][\w.\-]+(#\d+)?", "", line)


def compare_programs(other: Path, preset: str, backend: str, seeds: int) -> str | None:
    """How the programs of a preset differ; None where they do not."""
    if backend == "h200":
        ours, theirs = (compiled_text(tree, preset, seeds) for tree in (ROOT, other))
    else:
        ours, theirs = (program_text(tree, preset, backend, seeds) for tree in (ROOT, other))
    if ours == theirs:
        return None
    if sorted(map(_operation, ours)) == sorted(map(_operation, theirs)):
        return "the same operations in another order"
    pairs = list(itertools.zip_longest(ours, theirs, fillvalue=""))
    first = next(line for line, (a, b) in enumerate(pairs, 1) if a != b)
    return f"{len(ours)} and {len(theirs)} lines, the first difference in line {first}: {pairs[first - 1]}"


def compare_parameters(other: Path, preset: str, updates: int, scratch: Path) -> str | None:
    """Which parameters differ after training a preset; None where none does."""
    size = steps_per_update(preset)
    ours = train(ROOT, preset, updates, scratch / f"{preset}-ours", size)
    theirs = train(other, preset, updates, scratch / f"{preset}-theirs", size)
    changed = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    return ", ".join(changed[:3]) if changed else None


def steps_per_update(preset: str) -> int:
    from pqn.presets import preset as load

    options: dict[str, Any] = {k: v for k, v in SMALL.get(preset, {}).items() if k != "network.hidden"}
    return load(preset).replace(options).steps_per_update


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--presets", nargs="+", default=list(SMALL))
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--programs", action="store_true", help="compare the StableHLO text instead of parameters")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--gpu", action="store_const", dest="backend", const="gpu", help="with --programs: for a GPU")
    kind.add_argument("--h200", action="store_const", dest="backend", const="h200", help="… as compiled for an H200")
    parser.add_argument("--seeds", type=int, default=2, help="with --programs")
    given = parser.parse_args()
    different = []
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "other"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(other), given.revision], cwd=ROOT, check=True
        )
        try:
            for preset in [name for name in given.presets if not (given.programs and name.startswith("atari"))]:
                if given.programs:
                    found = compare_programs(other, preset, given.backend or "cpu", given.seeds)
                else:
                    found = compare_parameters(other, preset, given.updates, Path(scratch))
                print(f"{preset:<28}{'identical' if found is None else f'different: {found}'}", flush=True)
                different += [preset] if found else []
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=ROOT, check=True)
    print(json.dumps({"revision": given.revision, "updates": given.updates, "different": different}))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
