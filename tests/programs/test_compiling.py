"""Programs are compiled side by side, each with its own options."""

import threading

import jax
import numpy as np
import pytest

from pqn.programs.compiling import Job, compile_all
from pqn.programs.shard_mesh import is_key
from tests.conftest import build, tiny


class Lowered:
    """Stands for a program that is being compiled."""

    def __init__(self, compile_):
        self.compile = compile_


def test_programs_compile_while_others_are_traced_and_compiled():
    both = threading.Barrier(2, timeout=20)  # breaks where one waits for the end of the other
    compiled = compile_all({name: Job(lambda: Lowered(lambda _: both.wait() >= 0), None) for name in "ab"})
    assert compiled.programs == {"a": True, "b": True} and compiled.trace_seconds >= 0.0


def test_an_option_that_this_compiler_does_not_know_is_left_out():
    lowered = jax.jit(lambda x: x + 1).lower(1)
    options = {"xla_no_such_thing": True, "xla_backend_optimization_level": "1", "xla_nor_this": "2"}
    given = []

    def compile_(known):
        given.append(dict(known))
        return lowered.compile(known)

    compiled = compile_all({"add": Job(lambda: Lowered(compile_), options)})
    assert compiled.programs["add"](1) == 2
    assert given[0] == options and given[-1] == {"xla_backend_optimization_level": "1"}


def test_any_other_failure_is_raised():
    options: dict[str, bool | str] = {"xla_backend_optimization_level": "no number"}
    with pytest.raises(jax.errors.JaxRuntimeError):
        compile_all({"add": Job(lambda: jax.jit(lambda x: x + 1).lower(1), options)})


def test_haste_changes_no_bit_of_a_fresh_state_nor_of_its_evaluation():
    program = build(tiny(seeds=2))
    program.compile()
    state = program.init()
    packed, _ = program._lower_evaluate().compile()(state.learner, program.seeds)
    patient = program._lower_init().compile()(program.seeds)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(patient), strict=True):
        assert _bytes(one) == _bytes(other)
    assert np.asarray(program.played(state).ret).tobytes() == np.asarray(packed)[0].tobytes()


def _bytes(array: jax.Array) -> bytes:
    return np.asarray(jax.random.key_data(array) if is_key(array) else array).tobytes()
