"""Greedy play in simulators: beside training, and apart from it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from fickle import Fickle
from hostenvs import HostFromJax, JaxTwin, Savable
from test_collect import host_program

from pqn.algorithms.pqn import PQN
from pqn.envs.probe import Counter
from pqn.programs.evaluation import evaluate
from pqn.programs.simulators.greedy import Player
from pqn.types import Inputs

GRU = {"network.memory": "gru", "network.memory_size": 8}


def test_environments_beside_training_act_greedily():
    """While ε is 1 and the training environments act at random."""
    program = host_program(Counter(), {"simulators.greedy_envs": 5})
    state = program.init()
    _, lesson = program._collect(state, state.learner, lambda: None)
    learner = jax.tree.map(lambda x: x[0], state.learner)
    greedy = {"train": [], "beside": []}
    for share, track in zip(program.pool.shares, lesson.collected.tracks, strict=True):
        for t, obs in enumerate(track.obs):
            inputs = Inputs(jnp.asarray(obs[0]), jnp.asarray(track.first[0, t]))
            best = np.asarray(program.algorithm.actor.scores(learner, (), inputs)[1].argmax(-1))
            agrees = (best == track.action[0, t])[:, 0]
            greedy["train"] += agrees[: share.num_train].tolist()
            greedy["beside"] += agrees[share.num_train :].tolist()
    assert len(greedy["beside"]) == 5 * 8 and all(greedy["beside"])
    assert 0.2 < np.mean(greedy["train"]) < 0.8


def test_a_later_start_has_other_episodes():
    """A run whose simulators cannot be saved starts new episodes when it is resumed, and no seed comes twice."""
    program = host_program(Counter(), {"simulators.greedy_envs": 8}, seeds=2)
    given, original = [], program.pool.reset
    program.pool.reset = lambda train, beside: (given.extend([train, beside]), original(train, beside))[1]
    for update in (0, 5, 6):
        program._reset(update)
    seeds = np.concatenate([np.ravel(each) for each in given])
    assert seeds.size == 3 * 2 * (8 + 8) and len(np.unique(seeds)) == seeds.size


def test_a_checkpoint_holds_the_open_greedy_episodes():
    options = {"simulators.greedy_envs": 4, "learner.rollout_steps": 4}
    program = host_program(Counter(), options, kind=Savable)
    state, _ = program.chunk(program.init(), 3)
    program.beside.report()
    state, _ = program.chunk(state, 1)
    saved, open_episodes = program.snapshot(state), jax.tree.map(np.copy, program.beside.save())
    other = host_program(Counter(), options, kind=Savable)
    other.restore(jax.tree.map(np.asarray, saved._replace(key=()))._replace(key=saved.key), lambda said: None)
    jax.tree.map(np.testing.assert_array_equal, other.beside.save(), open_episodes)
    assert len(np.unique(open_episodes["phase"])) > 1 and open_episodes["ret"].any()


CASES = {
    "memory": (Fickle(), GRU, 0.0),
    "masked": (Fickle(masked=True), {}, 0.3),
    "scored": (Fickle(scored=True), {}, 0.0),
}


def played(case: str, max_steps: int = 40):
    """What a `Player` says of simulators, and what the compiled evaluation says of the same environments."""
    single, options, epsilon = CASES[case]
    learner = PQN(tiny(options, seeds=2), single.spec)
    states = jax.vmap(learner.init)(jax.random.split(jax.random.key(1), 2))
    keys = jax.random.split(jax.random.key(2), 2)
    found = Player(learner.actor, 2, epsilon).play(lambda n: HostFromJax(single, n), states, keys, 6, max_steps)
    twin = JaxTwin(single, 6)
    compiled = jax.jit(jax.vmap(lambda state, key: evaluate(twin, learner.actor, state, key, epsilon, max_steps)))
    return found, jax.device_get(compiled(states, keys))


@pytest.mark.parametrize("case", CASES)
def test_a_player_plays_as_the_compiled_evaluation(case):
    """`evaluate` itself is compared with play written out in tests/programs/test_evaluation.py."""
    found, expected = played(case)
    assert found.finished.all() and len(np.unique(found.length)) > 2
    np.testing.assert_array_equal(found.length, expected.length)
    np.testing.assert_allclose(found.ret, expected.ret)
    np.testing.assert_array_equal(found.info["t"], expected.info["t"])
