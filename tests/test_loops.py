"""How much of a loop is unrolled follows from how often it will run."""

import jax
import pytest

from pqn import device
from pqn.loops import MOST_COPIES, repeated, worthwhile
from pqn.presets import preset
from pqn.programs.compiled import CompiledProgram
from tests.conftest import build, tiny


def test_a_loop_that_runs_once_is_not_unrolled():
    assert worthwhile(1000) == 1


@pytest.mark.parametrize(
    ("times", "steps", "copies"),
    [
        # Two copies make half of the iterations and cost a second: worth it beyond 200 000 iterations of 10 µs.
        (2_000, 100, 1),
        (2_001, 100, 2),
        (8_000, 100, 2),
        (8_001, 100, 4),  # the next two copies save a quarter and cost two seconds
        (32_001, 100, 8),
        (10**9, 100, MOST_COPIES),
        (10**9, 5, 4),  # not more than the loop has
        (10**9, 1, 1),
    ],
)
def test_copies_are_worth_their_compilation(times, steps, copies):
    with repeated(times):
        assert worthwhile(steps) == copies
    with repeated(times, doubled=True):  # the compiler makes the last ones by itself
        assert worthwhile(steps) == max(1, copies // 2)


def test_loops_within_loops_run_as_often_as_both_say():
    with repeated(100, doubled=False), repeated(30):
        assert worthwhile(100) == 2
        with pytest.raises(ValueError), repeated(10**6, doubled=True):
            raise ValueError
        assert worthwhile(100) == 2
    assert worthwhile(100) == 1


def unrolled(program: CompiledProgram, monkeypatch) -> tuple[list[int], bool]:
    """How much of each loop is unrolled in what a GPU would be given, and whether the compiler is to double loops."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    state = program.state_shape
    jaxpr = jax.make_jaxpr(program._chunk)(state, program.hyper, 1)
    return sorted(_unrolls(jaxpr.jaxpr)), program.doubled


def _unrolls(jaxpr) -> list[int]:
    found = []
    for eqn in jaxpr.eqns:
        found += [eqn.params["unroll"]] if eqn.primitive.name == "scan" else []
        for value in jax.tree.leaves(eqn.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
            inner = getattr(value, "jaxpr", value)
            found += _unrolls(inner) if hasattr(inner, "eqns") else []
    return found


def test_a_long_run_is_unrolled_and_a_short_one_is_not(monkeypatch):
    short, long = tiny(), tiny(total_steps=10**9)
    some, doubled = unrolled(build(short), monkeypatch)
    *others, returns = some
    assert returns == short.learner.rollout_steps and set(others) == {1} and not doubled
    more, doubled = unrolled(build(long), monkeypatch)
    assert len(more) == len(some) and 4 in more and doubled  # of the eight gradient steps; the compiler doubles that


def test_the_same_run_trained_on_has_the_same_program(monkeypatch):
    planned = build(tiny(total_steps=10**9))
    planned.planned_updates = tiny().updates
    assert unrolled(planned, monkeypatch) == unrolled(build(tiny()), monkeypatch)


@pytest.mark.parametrize(
    ("name", "doubled"), [("cartpole-paper", False), ("smax-2s3z", False), ("hanabi", True), ("craftax-rnn", True)]
)
def test_which_presets_are_long_enough_to_double_their_loops(name, doubled, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    learner, updates = preset(name).learner, preset(name).updates
    assert device.worth_doubling(updates * (learner.rollout_steps + learner.epochs * learner.minibatches)) == doubled
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert not device.worth_doubling(10**12)
