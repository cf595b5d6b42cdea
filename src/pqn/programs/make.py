"""The program for an environment, whichever kind it is of."""

from __future__ import annotations

import contextlib
from typing import cast

import jax

from pqn.config import Config
from pqn.device import require_compiler, simulator_groups
from pqn.envs.check import check_quickly, is_ours
from pqn.envs.check.declared import first_line, host_call
from pqn.envs.contract import HostEnv, JaxEnv
from pqn.errors import EnvError, PqnError
from pqn.programs.base import EnvFactory, HostFactory, JaxFactory, Program
from pqn.programs.compiled import CompiledProgram
from pqn.programs.hosted import HostedProgram
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.sharded import ShardedSimulatorProgram
from pqn.programs.spread import SpreadProgram, groups_of


def make_program(config: Config, make_env: EnvFactory) -> Program:
    """The program for the kind of environment that `make_env` makes.

    Raises:
      EnvError: the environment cannot be made, or is the user's own and breaks a promise at once.
      DeviceError: JAX is told not to compile.
    """
    require_compiler()
    env = _make(make_env, config.env.num_envs // config.shards)
    if isinstance(env, HostEnv):
        try:
            _check(env)
        except EnvError:
            with contextlib.suppress(Exception):  # what is wrong has been found
                env.close()
            raise
        host_call("close", env.close)
        groups = simulator_groups(getattr(env, "concurrent", False))
        given = (config, cast(HostFactory, make_env), env.spec, groups)
        if config.shards > 1 or jax.process_count() > 1:
            return ShardedSimulatorProgram(*given)
        return SimulatorProgram(*given)
    _check(env)

    def make_or_reuse(num_envs: int) -> JaxEnv | HostEnv:
        return env if num_envs == env.num_envs else _make(make_env, num_envs)

    groups = groups_of(config.seeds, config.shards, jax.devices())
    if len(groups) > 1 or len(groups[0].devices) > 1:
        spread = SpreadProgram(config, cast(JaxFactory, make_or_reuse), groups)
        return cast(Program, spread)  # its states are several
    program = CompiledProgram(config, cast(JaxFactory, make_or_reuse))  # one device, and therefore also one process
    return HostedProgram(program) if program.algorithm.buffer_on_host else program


def _make(make_env: EnvFactory, num_envs: int) -> JaxEnv | HostEnv:
    try:
        return make_env(num_envs)
    except PqnError:
        raise
    except Exception as error:
        raise EnvError(f"the environment could not be made: {type(error).__name__}: {first_line(error)}") from error


def _check(env: JaxEnv | HostEnv) -> None:
    if not is_ours(env):
        check_quickly(env)
