"""Simulators and the rest of the program on cores of their own."""

from __future__ import annotations

import contextlib
import os
import threading

import jax
import numpy as np
import pytest
from hostenvs import HostFromJax
from test_collect import host_program

from pqn.envs.probe import Counter
from pqn.programs.simulators import simulators
from pqn.programs.simulators.cores import Division, division, on_simulators_cores, reserved_cores

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two cores"
)


@pytest.fixture
def halves():
    """One core for the program, all others for simulators."""
    first, *others = sorted(os.sched_getaffinity(0))
    return Division(frozenset({first}), frozenset(others))


@contextlib.contextmanager
def waiting(count: int):
    """Threads that do nothing, and their numbers."""
    done, ready = threading.Event(), threading.Barrier(count + 1)
    numbers: list[int] = []

    def idle():
        numbers.append(threading.get_native_id())
        ready.wait()
        done.wait()

    threads = [threading.Thread(target=idle) for _ in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        yield sorted(numbers)
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    ("backend", "usable", "concurrent", "program", "simulators"),
    [
        ("gpu", 16, True, {0, 1}, set(range(2, 16))),
        ("gpu", 8, True, {0, 1}, set(range(2, 8))),
        ("gpu", 7, True, None, None),
        ("cpu", 16, True, None, None),
        ("gpu", 16, False, None, None),
    ],
)
def test_who_gets_which_cores(backend, usable, concurrent, program, simulators, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)))
    assert division(concurrent) == (None if program is None else (program, simulators))


def test_threads_of_simulators_get_one_core_each_and_the_caller_keeps_all(halves):
    everywhere = os.sched_getaffinity(0)
    all_cores = Division(frozenset(), frozenset(everywhere))
    with contextlib.ExitStack() as stack:
        started = on_simulators_cores(all_cores, lambda: stack.enter_context(waiting(2 * len(everywhere))))
        found = [os.sched_getaffinity(thread) for thread in started]
    assert all(len(one) == 1 for one in found)
    assert sorted(core for one in found for core in one) == sorted([*everywhere] * 2)
    assert os.sched_getaffinity(0) == everywhere


def test_the_rest_of_the_program_leaves_the_reserved_cores_for_a_while(halves):
    everywhere = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        (simulator,) = on_simulators_cores(halves, lambda: stack.enter_context(waiting(1)))
        (other,) = stack.enter_context(waiting(1))
        with reserved_cores(halves):
            (late,) = stack.enter_context(waiting(1))
            inside = [os.sched_getaffinity(thread) for thread in (0, other, late, simulator)]
        after = [os.sched_getaffinity(thread) for thread in (0, other, late, simulator)]
    assert inside[:3] == [halves.program] * 3 and after[:3] == [everywhere] * 3
    assert inside[3] == after[3] <= halves.simulators


def test_an_error_ends_it(halves):
    everywhere = os.sched_getaffinity(0)
    with pytest.raises(RuntimeError), reserved_cores(halves):
        raise RuntimeError
    assert os.sched_getaffinity(0) == everywhere


def test_a_run_learns_the_same_on_divided_cores(halves, monkeypatch):
    seen = []

    class Watched(HostFromJax):
        def reset(self, seeds):
            seen.append(os.sched_getaffinity(0))
            return super().reset(seeds)

    plain = host_program(Counter(), groups=3, concurrent=True)
    monkeypatch.setattr(simulators, "division", lambda concurrent: halves if concurrent else None)
    divided = host_program(Counter(), groups=3, concurrent=True, kind=Watched)
    shared = host_program(Counter(), {"simulators.cores": "shared"}, groups=3, concurrent=True)
    assert [one.started.simulators.cores for one in (divided, shared)] == [halves, None]
    assert set(map(frozenset, seen)) == {halves.simulators}
    want, got = (program.chunk(program.init(), 3)[0] for program in (plain, divided))
    jax.tree.map(np.testing.assert_array_equal, want.learner.params, got.learner.params)
