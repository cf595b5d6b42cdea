"""Our programs against the plain numpy PQN: the same random numbers, the same parameters after several updates."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from oracle import adapter, cases, networks
from oracle import ring as rings
from oracle.covering import met, pairs
from oracle.dqn import DQN
from oracle.ppo import PPO
from oracle.pqn import PQN, Settings

# Float32 against float64; and Adam makes small gradients, with what rounding did to them, as long as others. In its
# first steps RAdam's ρ is a small difference of large numbers, of which float32 keeps two or three digits (in
# optax it is 0.6 % off at the sixth step).
TOLERANCE = {"adam": 1e-3, "radam later": 1e-3, "radam": 5e-3}
LATER = 5000  # steps that RAdam believes to have taken, so that ρ has all its digits


LEARNERS = {"pqn": PQN, "pqn-replay": DQN, "dqn": DQN, "ppo": PPO}


class Rings:
    """The environments as the oracle plays them."""

    def __init__(self, ring: rings.Ring, luck: np.ndarray):
        self.ring, self.luck = ring, luck

    def reset(self) -> rings.Outcome:
        self.state, outcome = rings.start(np, self.ring, self.luck)
        return outcome

    def step(self, action: np.ndarray) -> rings.Outcome:
        self.state, outcome = rings.step(np, self.ring, self.state, action)
        return outcome


def replay(
    algorithm: str, settings: Settings, world: Rings, start: adapter.Start, later: int
) -> tuple[PQN, dict[str, float]]:
    """The oracle's run, and the totals over its updates."""
    oracle = LEARNERS[algorithm](settings, start.params, start.stats, world)
    if isinstance(oracle, DQN):
        oracle.target = start.target
    oracle.optimizer.t, networks.closest[0] = later, np.inf
    only_greedy = dataclasses.replace(settings, envs=len(start.luck_beside), eps_start=0.0, eps_finish=0.0)
    if only_greedy.envs:
        oracle.greedy = PQN(only_greedy, start.params, start.stats, Rings(world.ring, start.luck_beside))
    totals: dict[str, float] = {}
    for chance, ahead in itertools.pairwise(start.chances):
        for name, value in oracle.update(chance, ahead).items():
            totals[name] = value if name == "param_norm" else totals.get(name, 0.0) + value
    return oracle, totals


def compare(case: dict[str, Any], run: Any, options: dict[str, Any] | None = None) -> None:
    config = adapter.configure(options or cases.options(case))
    ring = cases.ring(case)
    later = LATER if case["optimizer"].endswith("later") else 0
    start, finish = run(config, ring, cases.UPDATES, seed=case["seeds"] - 1, optimizer_steps=later)
    world = Rings(ring, start.luck)
    oracle, totals = replay(config.algorithm, adapter.settings(config, ring), world, start, later)
    assert oracle.closest > 1e-5, "an action hangs on rounding: change the seed of the case"
    assert networks.closest[0] > 1e-7, "a gradient hangs on rounding: change the seed of the case"
    if finish.env is not None:
        for ours, theirs in zip(finish.env, world.state, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg="other actions were chosen")
    if oracle.greedy is not None:
        assert finish.greedy is not None and np.isfinite(finish.greedy).any()
        np.testing.assert_allclose(finish.greedy, first_episodes(oracle.greedy), rtol=1e-5, err_msg="of greedy play")
    tolerance = TOLERANCE[case["optimizer"]]
    change = max(rms(value - start.params[name]) for name, value in oracle.params.items())
    wrong = {name: rms(finish.params[name] - value) / change for name, value in oracle.params.items()}
    for name, value in totals.items():
        wrong[name] = abs(finish.totals[name] - value) / (1.0 + abs(value))
    for norm, parts in oracle.stats.items():
        for part, value in parts.items():
            moved = rms(value - start.stats[norm][part])
            wrong[f"{norm}.{part}"] = rms(finish.stats[norm][part] - value) / moved
    if isinstance(oracle, DQN) and oracle.r.target_network:
        moved = max(rms(value - start.target[0][name]) for name, value in oracle.target[0].items())
        for name, value in oracle.target[0].items():
            wrong[f"target {name}"] = rms(finish.target[0][name] - value) / moved
        assert set(finish.target[1]) == set(oracle.target[1])
        for norm, parts in oracle.target[1].items():
            for part, value in parts.items():
                wrong[f"target {norm}.{part}"] = rms(finish.target[1][norm][part] - value) / moved
    assert set(finish.params) == set(oracle.params) and set(finish.stats) == set(oracle.stats)
    assert not {name: error for name, error in wrong.items() if not error <= tolerance}


def first_episodes(player: PQN) -> np.ndarray:
    """Return and length of the first episode of each environment [2, E], NaN where none has ended."""
    found = np.full((2, player.s.envs), np.nan)
    for env, *numbers in reversed(player.episodes):
        found[:, env] = numbers
    return found


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


@pytest.mark.parametrize("case", cases.COMPILED_CASES, ids=cases.name)
def test_the_compiled_program_learns_what_the_oracle_learns(case):
    compare(case, adapter.compiled)


@pytest.mark.parametrize("case", cases.SIMULATED_CASES, ids=cases.name)
def test_the_program_of_simulators_learns_what_the_oracle_learns(case):
    compare(case, adapter.simulated)


def program_of(case: dict[str, Any]) -> Any:
    return adapter.compiled if case["program"] == "compiled" else adapter.simulated


def quick_and_slow(chosen: list[dict[str, Any]], quick: int = 7) -> list[Any]:
    """The cases, of which all but the first few, which are the shortest, are for `make test-slow`."""
    late = [pytest.param(case, marks=pytest.mark.slow) for case in chosen[quick:]]
    return [*chosen[:quick], *late]


@pytest.mark.parametrize("case", quick_and_slow(cases.REPLAYED_CASES), ids=cases.name)
def test_learning_from_a_buffer_is_that_of_the_oracle(case):
    compare(case, program_of(case), cases.options_of_replay(case))


@pytest.mark.parametrize("case", quick_and_slow(cases.PPO_CASES), ids=cases.name)
def test_ppo_learns_what_the_oracle_learns(case):
    compare(case, program_of(case), cases.options_of_ppo(case))


@pytest.mark.parametrize(
    ("choices", "chosen"),
    [
        (cases.COMPILED, cases.COMPILED_CASES),
        (cases.SIMULATED, cases.SIMULATED_CASES),
        (cases.REPLAYED, cases.REPLAYED_CASES),
        (cases.PPO, cases.PPO_CASES),
    ],
)
def test_every_pair_of_options_meets_in_some_case(choices, chosen):
    assert set().union(*map(met, chosen)) >= pairs(choices, cases.clash)
    assert not any(cases.clash(*pair) for case in chosen for pair in met(case))


def scheduled(config: Any, update: int) -> dict[str, float]:
    """ε and learning rate of the oracle after some updates."""
    settings = adapter.settings(config, rings.Ring())
    oracle = PQN(settings, {}, {}, Rings(rings.Ring(), np.zeros(settings.envs, np.uint32)))
    oracle.done = update
    return {"epsilon": oracle.epsilon(), "lr": oracle.lr(update * settings.epochs * settings.minibatches)}


@pytest.mark.parametrize("case", [case for case in cases.COMPILED_CASES if case["memory"] == "none"], ids=cases.name)
def test_schedules_on_record_are_those_of_the_oracle(case):
    config = adapter.configure(cases.options(case))
    for update in range(config.updates + 1):
        assert adapter.recorded_schedules(config, update) == pytest.approx(scheduled(config, update))


def test_a_run_reports_schedules_of_the_update_it_is_at(finished_run):
    config, rows = adapter.finished(finished_run)
    assert len(rows) > 2
    for row in rows:
        expected = scheduled(config, row["update"])
        assert {name: row[name] for name in expected} == pytest.approx(expected)
