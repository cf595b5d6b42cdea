"""What several benchmarks start with: the program of a preset, and some of its updates, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pqn.cli.options import pair
from pqn.device import compiler_options
from pqn.envs import registry
from pqn.presets import preset
from pqn.programs.compiled import CompiledProgram


def program_of(name: str, seeds: int = 1) -> CompiledProgram:
    """A preset's program, without evaluations; its options may follow: `overcooked-cramped_room,network.conv=fused`."""
    name, *settings = name.split(",")
    config = preset(name, {"eval.count": 0} | dict(map(pair, settings)), seeds=seeds)
    return CompiledProgram(config, lambda n: registry.make(config.env.name, n, **config.env.kwargs))


def compiled_updates(program: CompiledProgram, updates: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`updates` whole updates as one call, and its arguments."""
    state = jax.jit(jax.vmap(program.init_one))(program.seeds)
    given = (state, program.hyper, jnp.int32(updates))
    return jax.jit(program._chunk).lower(*given).compile(compiler_options(program.env, program.doubled)), given
