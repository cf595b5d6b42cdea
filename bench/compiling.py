"""How large the three programs of a run are for a GPU, and how long they compile, without a GPU.

    pip install 'jax-cuda13-plugin[with-cuda]'       # as for bench.kernels
    python -m bench.compiling cartpole-paper,seeds=10 smax-2s3z

Prints a JSON row for each program of each preset, at the preset's own length: processor seconds of XLA's compilation
for an H200 (of all its threads and of the processes that it starts), lines and fusions of the result, and for `chunk`
the kernels of one update. The real machine also tries out matrix products, which is not counted here. To compare with
an older revision, copy this file into its `bench` and run it there.
"""

from __future__ import annotations

import argparse
import json
import resource
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

from bench.kernels import compile_for_gpu, computations, launches, loops
from pqn import device
from pqn.cli.options import pair
from pqn.envs import registry
from pqn.presets import preset
from pqn.programs.compiled import CompiledProgram


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def options_of(program: Any, name: str) -> dict[str, Any]:
    """What the compiler is told; older revisions told it the same about all programs."""
    if not hasattr(program, "doubled"):
        return device.compiler_options(program.env) or {}
    hasty = name != "chunk"
    return (device.hasty_options(program.env) if hasty else device.compiler_options(program.env, program.doubled)) or {}


def measure(words: str) -> list[dict[str, Any]]:
    name, *settings = words.split(",")
    config = preset(name, dict(map(pair, settings)))
    program: Any = CompiledProgram(config, lambda n: registry.make(config.env.name, n, **config.env.kwargs))
    seeds = jax.ShapeDtypeStruct(program.seeds.shape, program.seeds.dtype)
    given = {
        "chunk": (program._chunk, jax.eval_shape(lambda *x: x, program.state_shape, program.hyper, jnp.int32(1))),
        "evaluate": (program._evaluate, (program.state_shape.learner, seeds)),
        "init": (program._init, (seeds,)),
    }
    rows = []
    for which, (function, arguments) in given.items():
        how = {"donate_argnums": 0} if which == "chunk" else {}
        began = processor_seconds()
        compiled, _ = compile_for_gpu(function, arguments, options_of(program, which), **how)
        used, text = processor_seconds() - began, compiled.as_text()
        row = {"preset": words, "program": which, "processor_s": round(used, 1)}
        row |= {"lines": text.count("\n"), "fusions": text.count(" fusion(")}
        if which == "chunk":
            found, entry = computations(text)
            ((body, _),) = loops(found[entry])
            row["kernels_per_update"] = launches(found, body)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+", help="NAME, or NAME,OPTION=VALUE")
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        for words in parser.parse_args().presets:
            for row in measure(words):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
