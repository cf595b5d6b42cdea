"""Environments outside of JAX: how much of the simulator's own speed collecting and training reach.

    python -m bench.simulators --env gymnasium:LunarLander-v3 --num-envs 64 [--kwargs vectorization_mode=async]
    python -m bench.simulators --preset atari-pong --greedy-envs 8   # network, batch and environments of a preset
    python -m bench.simulators --preset atari-pong --groups 2 3   # in two groups, and in three
    python -m bench.simulators --env busy --work 100   # a simulator that takes 100 µs a step, in this thread
    python -m bench.simulators --env busy --concurrent   # or in threads of its own

One process, five measurements of the same number of steps, interleaved and repeated. The best of each counts, since
noise only makes a measurement slower. Alone: N environments in one simulator, stepped with random actions. Grouped: the
groups of a run, stepped with random actions. Collecting: the groups and a network. Training: collecting and learning,
as a run does it, without and with `simulators.overlap`. The row also says how many cores each kept busy on average and
how many threads waited for one. It says how long a step of one group takes while collecting: in all, in the call that
computes actions, and in waiting for the simulator.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

from pqn.cli.options import pair
from pqn.config import Config
from pqn.device import enable_compilation_cache, simulator_groups
from pqn.envs import registry
from pqn.presets import preset
from pqn.programs.base import RunState
from pqn.programs.simulators.cores import reserved_cores
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.simulators import Simulators
from pqn.runs.provenance import describe_device
from pqn.types import EnvSpec, TimeStep


class Busy:
    """N environments that each take `work` microseconds a step: of this thread, or of another, one batch at a time."""

    free_at = 0.0  # when the workers, which all simulators share, have done what they were sent

    def __init__(self, num_envs: int, work: float = 100.0, pixels: bool = False, concurrent: bool = False):
        shape, dtype = ((4, 84, 84), "uint8") if pixels else ((8,), "float32")
        self.spec = EnvSpec("busy", shape, np.dtype(dtype), num_actions=4, truncates=True)
        self.num_envs, self.concurrent = num_envs, concurrent
        self.seconds = work * 1e-6 * num_envs
        self.until = 0.0
        self.obs = np.zeros((num_envs, 1, *shape), dtype)
        self.no = np.zeros(num_envs, bool)

    def reset(self, seeds: np.ndarray) -> TimeStep:
        return self._step(np.ones((self.num_envs, 1), bool))

    def send(self, action: np.ndarray) -> None:
        if self.concurrent:
            self.until = Busy.free_at = max(Busy.free_at, time.perf_counter()) + self.seconds

    def recv(self) -> TimeStep:
        if self.concurrent:
            time.sleep(max(0.0, self.until - time.perf_counter()))
        else:
            until = time.perf_counter() + self.seconds
            while time.perf_counter() < until:
                pass
        return self._step(self.no[:, None])

    def close(self) -> None:
        """Nothing to free."""

    def _step(self, first: np.ndarray) -> TimeStep:
        zero: Any = np.zeros(self.num_envs, np.float32)
        obs, no, flags = (self.obs, self.no, first)  # type: Any, Any, Any
        return TimeStep(obs, flags, zero, no, no, final_obs=obs)


class Spent(NamedTuple):
    """Time that something took."""

    seconds: float
    cpu: float  # of all threads of this process
    queued: float  # that its threads, all together, waited for a core; only Linux says


class Clock:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self.began, self.cpu, self.queued = time.perf_counter(), time.process_time(), queued()

    def read(self) -> Spent:
        seconds, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu
        return Spent(seconds, cpu, queued() - self.queued)


def queued() -> float:
    """Seconds that the threads of this process have waited for a core so far."""
    stats = [read(path) for path in Path("/proc/self/task").glob("*/schedstat")]
    return sum(int(stat.split()[1]) for stat in stats if stat) / 1e9


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the thread has ended meanwhile
        return ""


def alone(env: Any, steps: int, seed: int = 0) -> Spent:
    """Time for `steps` steps of a simulator with random actions."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, env.spec.num_actions, (steps, env.num_envs, env.spec.num_agents)).astype(np.int32)
    clock = Clock()
    for action in actions:
        env.send(action)
        env.recv()
    return clock.read()


def grouped(simulators: Simulators, steps: int) -> Spent:
    """The same by the groups of a run, in threads of their own where its collector has them.

    A collector does not know of these steps; for a measurement of speed that does not matter.
    """

    def run(group: int) -> None:
        rng, env = np.random.default_rng(group), simulators.envs[group]
        shape = (steps, simulators.num_seeds, env.num_envs // simulators.num_seeds, env.spec.num_agents)
        for action in rng.integers(0, env.spec.num_actions, shape).astype(np.int32):
            with simulators.stepping:
                simulators.send(group, action)
                simulators.recv(group)

    groups = len(simulators.envs)
    with reserved_cores(simulators.cores), ThreadPoolExecutor(groups if simulators.concurrent else 1) as threads:
        clock = Clock()
        list(threads.map(run, range(groups)))
        return clock.read()


def collecting(program: SimulatorProgram, state: RunState, rollouts: int) -> tuple[Spent, RunState]:
    with reserved_cores(program.started.simulators.cores):
        clock = Clock()
        for _ in range(rollouts):
            state, unlearned = program.collect(state)
        jax.block_until_ready(unlearned.collected.groups[-1].note[-1])
        return clock.read(), state


def per_step(program: SimulatorProgram, state: RunState, rollouts: int = 3) -> dict[str, float]:
    """Milliseconds from one step of a group to its next, and which of them in two calls."""
    spent = {"acting": 0.0, "receiving": 0.0}

    def timed(name: str, function: Any) -> Any:
        def call(*args: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args)
            finally:
                spent[name] += time.perf_counter() - began

        return call

    simulators, collector = program.started.simulators, program.started.collector
    with (
        mock.patch.object(collector, "act", [timed("acting", act) for act in collector.act]),
        mock.patch.object(simulators, "recv", timed("receiving", simulators.recv)),
    ):
        total, _ = collecting(program, state, rollouts)
    steps, groups = rollouts * program.config.learner.rollout_steps, len(simulators.groups)
    means = {"all": total.seconds / steps} | {name: seconds / (steps * groups) for name, seconds in spent.items()}
    return {name: round(1e3 * seconds, 3) for name, seconds in means.items()}


def training(program: SimulatorProgram, state: RunState, updates: int) -> tuple[Spent, RunState]:
    clock = Clock()
    state, _ = program.chunk(state, updates)
    jax.block_until_ready(state.learner)
    return clock.read(), state


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default=None, help="a preset instead of the options up to --minibatches")
    parser.add_argument("--env", default="busy")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--work", type=float, default=100.0, help="µs a step of the `busy` simulator")
    parser.add_argument("--concurrent", action="store_true", help="let the `busy` simulator work in threads of its own")
    parser.add_argument("--pixels", action="store_true", help="observations of the `busy` simulator like Atari's")
    parser.add_argument("--rollout", type=int, default=32)
    parser.add_argument("--hidden", type=int, nargs="*", default=[32])
    parser.add_argument("--torso", default="mlp")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument(
        "--greedy-envs", type=int, default=0, help="greedy environments to step during training; they count as steps"
    )
    parser.add_argument(
        "--groups", type=int, nargs="+", default=None, help="into how many the environments are split; a row each"
    )
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--kwargs", nargs="*", type=pair, default=[])
    return parser


def main() -> None:
    given = _parser().parse_args()
    config = _config(given)
    if given.preset:
        given.env, given.num_envs, given.rollout = config.env.name, config.env.num_envs, config.learner.rollout_steps
    kwargs = config.env.kwargs | dict(given.kwargs)

    def make_env(num_envs: int) -> Any:
        if given.env == "busy":
            return Busy(num_envs, given.work, given.pixels, given.concurrent)
        return registry.make(given.env, num_envs, **kwargs)

    total = given.num_envs + given.greedy_envs
    single = make_env(total)
    single.reset(np.arange(total))
    alone(single, given.rollout)
    enable_compilation_cache()  # much of a program does not depend on the number of groups
    for groups in given.groups or [simulator_groups(getattr(single, "concurrent", False))]:
        programs = {
            name: SimulatorProgram(config.replace({"simulators.overlap": overlap}), make_env, single.spec, groups)
            for name, overlap in (("training", False), ("overlapped", True))
        }
        # Both use the same emulators: starting them takes longer than measuring.
        programs["overlapped"]._started = programs["training"].start()
        states = {}
        for name, program in programs.items():
            program.compile()
            states[name] = training(program, program.init(), 2)[1]
        best = measure(single, programs, states, given)
        times = per_step(programs["training"], states["training"])
        print(json.dumps(row(given, groups, best, times), ensure_ascii=False), flush=True)
        programs["training"].close()
    single.close()


def measure(
    single: Any, programs: dict[str, SimulatorProgram], states: dict[str, RunState], given: argparse.Namespace
) -> dict[str, Spent]:
    """The least time of each measurement; `states` are brought up to date."""
    best: dict[str, Spent] = {}
    for _ in range(given.repeats):
        _least(best, "alone", alone(single, given.rollout))
        _least(best, "grouped", grouped(programs["training"].started.simulators, given.rollout))
        spent, states["training"] = collecting(programs["training"], states["training"], 1)
        _least(best, "collecting", spent)
        for name, program in programs.items():
            spent, states[name] = training(program, states[name], 1)
            _least(best, name, spent)
    return best


def row(given: argparse.Namespace, groups: int, best: dict[str, Spent], times: dict[str, float]) -> dict[str, Any]:
    """What is printed for one number of groups."""
    steps = (given.num_envs + given.greedy_envs) * given.rollout
    rates = {name: steps / least.seconds for name, least in best.items()}
    return {
        "env": given.env
        + (f" {given.work:g} µs" if given.env == "busy" else "")
        + (" pixels" if given.pixels else "")
        + (" concurrent" if given.concurrent else ""),
        "kwargs": dict(given.kwargs),
        "num_envs": given.num_envs,
        "greedy_envs": given.greedy_envs,
        "groups": groups,
        "device": describe_device(),
        "steps_per_second": {name: round(rate) for name, rate in rates.items()},
        "share_of_alone": {name: round(rate / rates["alone"], 3) for name, rate in rates.items() if name != "alone"},
        "cores_busy": {name: round(least.cpu / least.seconds, 2) for name, least in best.items()},
        "threads_queued": {name: round(least.queued / least.seconds, 2) for name, least in best.items()},
        "ms_per_step": times,
    }


def _least(best: dict[str, Spent], name: str, spent: Spent) -> None:
    best[name] = min(best.get(name, spent), spent)


def _config(given: argparse.Namespace) -> Config:
    """That of the preset, or a small one."""
    greedy = {"simulators.greedy_envs": given.greedy_envs}
    if given.preset:
        return preset(given.preset, greedy).validate()
    options = {
        "env.num_envs": given.num_envs,
        "network.hidden": tuple(given.hidden),
        "network.torso": given.torso,
        "learner.rollout_steps": given.rollout,
        "learner.epochs": given.epochs,
        "learner.minibatches": given.minibatches,
    }
    return Config().replace(options | greedy, total_steps=10**9).validate()


if __name__ == "__main__":
    main()
