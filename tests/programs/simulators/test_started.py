"""Simulators are started once, when the program is told to, and never left running after a failure."""

from __future__ import annotations

import pytest
from conftest import tiny
from hostenvs import HostFromJax, Savable

from pqn.envs.probe import Counter
from pqn.errors import EnvFailed
from pqn.programs.simulators.groups import split_into_groups
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.simulators import Simulators


def recorded(kind=HostFromJax):
    """A function that makes simulators, and the list of those that it made."""
    made = []

    def make(num_envs):
        made.append(kind(Counter(), num_envs))
        return made[-1]

    return make, made


@pytest.mark.parametrize("kind", [HostFromJax, Savable])
def test_the_shape_of_a_checkpoint_and_compiling_share_one_start(kind):
    make, made = recorded(kind)
    program = SimulatorProgram(tiny(), make, Counter().spec)
    program.close()  # there is nothing to close yet
    assert not made
    program.saved_shape()
    started = program.started
    program.compile()
    assert len(made) == 2 and program.start() is started is program.started
    program.close()
    assert all(env.closed for env in made)


def test_nothing_else_starts_them():
    make, made = recorded()
    program = SimulatorProgram(tiny(), make, Counter().spec)
    with pytest.raises(RuntimeError, match=r"not been started; call start\(\) or compile\(\)"):
        program.started.simulators.close()
    assert not made


def test_simulators_that_cannot_be_reset_are_closed():
    class NoReset(HostFromJax):
        def reset(self, seeds):
            raise ValueError("no disk")

    make, made = recorded(NoReset)
    program = SimulatorProgram(tiny(), make, Counter().spec)
    with pytest.raises(EnvFailed, match="could not reset: it raised ValueError: no disk"):
        program.start()
    assert len(made) == 2 and all(env.closed for env in made)
    program.close()


def test_if_one_simulator_cannot_be_made_the_others_are_closed():
    make, made = recorded()

    def make_one(num_envs):
        if made:
            raise MemoryError("too many")
        return make(num_envs)

    with pytest.raises(EnvFailed, match="could not be made: it raised MemoryError: too many"):
        Simulators(make_one, 1, split_into_groups(4, 0, 2))
    assert [env.closed for env in made] == [True]
