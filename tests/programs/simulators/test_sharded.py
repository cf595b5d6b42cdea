"""Shards of runs on simulators, in one process; tests/hosts has several processes."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from conftest import run_updates, tiny
from hostenvs import HostFromJax, JaxTwin, Savable
from test_program import GRU, QUIET, FailingSavable, Listening, final, make, stop_at

import pqn
from pqn.algorithms import make_algorithm
from pqn.envs.probe import Counter, Memory
from pqn.errors import ConfigError, EnvFailed
from pqn.programs.compiled import CompiledProgram
from pqn.programs.simulators import sharing
from pqn.programs.simulators.player import Player
from pqn.programs.simulators.sharded import ShardedSimulatorProgram
from pqn.runs.metrics import read_metrics

NO_GREEDY = {"simulators.greedy_envs": 0}


def sharded(env, options=None, kind=HostFromJax, **top):
    program = ShardedSimulatorProgram(tiny(options, **{"shards": 2} | top), lambda n: kind(env, n), env.spec)
    program.compile()
    return program


def assert_close(found, wanted, most=1e-6):
    """Up to the rounding of sums; what is no fraction is equal."""

    def close(a, b):
        a, b = np.asarray(a), np.asarray(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=most * np.max(np.abs(b), initial=1e-6) * (b.dtype.kind == "f"))

    jax.tree.map(close, found, wanted)


@pytest.mark.parametrize(
    ("env", "options", "top"),
    [
        (Counter(), {"network.norm_input": "batch_renorm"}, {"seeds": 2}),
        (Memory(), GRU | {"learner.burn_in": 2}, {"shards": 4}),
    ],
)
def test_shards_on_the_host_are_those_inside_jax(env, options, top):
    """The same environments behind both interfaces: seeds, exploration, minibatches, joins, reports."""
    inside = CompiledProgram(tiny(options, **{"shards": 2} | top), lambda n: JaxTwin(env, n))
    outside = sharded(env, options, **top)
    state, totals = outside.chunk(outside.init(), 3)
    assert_close(state.learner, run_updates(inside, 3).learner)
    inside.compile()
    _, wanted = inside.chunk(inside.init(), 3)
    assert totals.keys() == wanted.keys() and totals["episodes"].sum() > 0
    assert_close(totals, {name: np.asarray(value, totals[name].dtype) for name, value in wanted.items()}, 1e-5)
    outside.close()


def test_shards_have_their_share_of_the_environments_and_seeds_of_their_own():
    made = []

    class Noted(HostFromJax):
        def reset(self, seeds):
            made.append((self.num_envs, tuple(seeds)))
            return super().reset(seeds)

    sharded(Counter(), {"simulators.greedy_envs": 4}, kind=Noted).close()
    assert [size for size, _ in made] == [3, 3, 3, 3]  # 8 + 4 environments, 2 shards of 2 groups
    assert len({seed for _, seeds in made for seed in seeds}) == 12


@pytest.mark.parametrize("kind", [Savable, HostFromJax])
def test_a_resumed_run_with_shards_goes_on(tmp_path, kind):
    """Where simulators can be saved, to the bit, greedy episodes included; otherwise with new episodes."""
    config = tiny({"simulators.greedy_envs": 4, "eval.count": 5}, shards=2)
    with pytest.raises(pqn.PqnError, match="continue with: pqn resume"):
        pqn.train(config, env=make(kind), out=tmp_path / "cut", progress=stop_at(4))
    listening = Listening()
    cut = pqn.resume(tmp_path / "cut", env=make(kind), progress=listening)
    assert any("starts new ones" in line for line in listening.said) == (kind is HostFromJax)
    whole = pqn.train(config, env=make(kind), out=tmp_path / "whole", progress=QUIET)
    rows = [read_metrics(run / "metrics.jsonl") for run in (whole.run, cut.run)]
    evals = [[row for row in each if row["kind"] == "eval"] for each in rows]
    assert [row["update"] for row in evals[1]] == [2, 4, 6, 8, 10] == [row["update"] for row in evals[0]]
    assert np.shape(evals[0][0]["returns"]) == (1, 4) and np.shape(evals[0][-1]["returns"]) == (1, 4)
    if kind is Savable:
        jax.tree.map(np.testing.assert_array_equal, final(whole.run), final(cut.run))
        assert [row["returns"] for row in evals[0]] == [row["returns"] for row in evals[1]]


def test_new_episodes_after_a_resume_are_not_those_of_the_start():
    program = sharded(Counter(), NO_GREEDY)
    state, _ = program.chunk(program.init(), 3)
    saved = program.snapshot(state)
    restored = program.restore(saved, lambda text: None)
    first, second = (stream.observed[0].obs for stream in restored.stream)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, program.init().stream[0].observed[0].obs)
    program.close()


def test_a_simulator_of_one_shard_that_fails_leaves_a_checkpoint(tmp_path):
    config = tiny(NO_GREEDY | {"save.checkpoints": 1, "eval.count": 0}, shards=2)
    with pytest.raises(EnvFailed, match="the simulator is broken; update 5 is saved in"):
        pqn.train(config, env=make(FailingSavable, patience=40), out=tmp_path / "run", progress=QUIET)
    result = pqn.resume(tmp_path / "run", env=make(FailingSavable, patience=10_000), progress=QUIET)
    assert result.summary["steps"] == 640


def test_players_share_out_the_episodes_of_an_evaluation():
    env = Counter()
    actor = make_algorithm(tiny(), env.spec).actor
    policy = jax.vmap(actor.init)(jax.random.split(jax.random.key(0), 2))
    keys = jax.random.split(jax.random.key(1), 2)
    whole, *parts = (
        Player(actor, 2, 0.5, *part).play(lambda n: HostFromJax(env, n), policy, keys, 6, 50)
        for part in ((0, 1), (0, 3), (1, 3), (2, 3))
    )
    np.testing.assert_array_equal(whole.ret, np.concatenate([part.ret for part in parts], axis=1))
    assert len(set(np.ravel(whole.ret))) > 3


@pytest.mark.parametrize(
    ("options", "shards", "processes", "sentence"),
    [
        ({}, 1, 2, r"shards is 1 and there are 2 processes; counter .* try shards 2"),
        ({}, 4, 3, r"shards is 4 and there are 3 processes; .* try shards 3"),
        ({"simulators.overlap": True}, 2, 1, "simulators.overlap is for runs without shards"),
        ({"simulators.greedy_envs": 6}, 4, 2, "shards 4 does not divide simulators.greedy_envs 6; try 8, or 0"),
        ({"log.stability": 1}, 2, 1, "log.stability is 1; it must be 0 for counter"),
    ],
)
def test_what_cannot_be_divided_is_one_sentence(options, shards, processes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        sharing.check(tiny(options, shards=shards), "counter", processes)
