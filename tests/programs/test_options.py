"""Options of the compiler that a program chooses by where it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import jax
import pytest

from pqn.programs.compiled import CompiledProgram
from pqn.programs.shard_mesh import ShardMesh


@pytest.mark.parametrize(("devices", "joined"), [((), False), ((0,), False), ((0, 1), True)])
def test_gradients_of_several_gpus_are_joined_at_once_whatever_their_size(monkeypatch, devices, joined):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    program: Any = SimpleNamespace(env=None, doubled=False, mesh=ShardMesh(2, cast(Any, devices)))
    options = cast(Any, CompiledProgram.options).fget(program)
    assert ("xla_gpu_all_reduce_combine_threshold_bytes" in options) == joined
