"""Which program an environment and a configuration get, and which pairs are refused."""

from __future__ import annotations

import pytest
from conftest import tiny

from pqn.envs.source import given
from pqn.errors import ConfigError
from pqn.programs.compiled import CompiledProgram
from pqn.programs.make import make_program
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.sharded import ShardedSimulatorProgram
from pqn.programs.spread import placement


def test_the_kind_of_the_environment_decides():
    assert type(make_program(tiny(), given("CartPole-v1", {}))) is CompiledProgram
    outside = make_program(tiny({"env.name": "gymnasium:CartPole-v1"}), given("gymnasium:CartPole-v1", {}))
    assert isinstance(outside, SimulatorProgram)
    outside.close()


def test_simulators_with_shards_have_a_program_of_their_own():
    config = tiny({"env.name": "gymnasium:CartPole-v1"}, shards=2)
    outside = make_program(config, given("gymnasium:CartPole-v1", {}))
    assert isinstance(outside, ShardedSimulatorProgram)
    sentence = "this run uses 1 of 4 devices, one in each process: its environments are outside of JAX"
    assert placement(outside, 4) == sentence and placement(outside, 1) is None
    outside.close()


def test_a_buffer_on_the_host_has_no_shards():
    with pytest.raises(ConfigError, match=r"replay\.place host needs a run without shards"):
        tiny({"algorithm": "dqn", "replay.start": 64, "replay.size": 512, "replay.place": "host"}, shards=2)
