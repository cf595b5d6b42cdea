"""Greedy play in simulators: during training, and in an evaluation of its own."""

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
from pqn.programs.simulators.groups import Layout
from pqn.programs.simulators.player import Player
from pqn.programs.simulators.seeds import episode_seeds
from pqn.types import Inputs

GRU = {"network.memory": "gru", "network.memory_size": 8}


def test_greedy_environments_act_greedily():
    """While ε is 1 and the training environments act at random."""
    program = host_program(Counter(), {"simulators.greedy_envs": 5})
    state = program.init()
    _, unlearned = program.collect(state)
    learner = jax.tree.map(lambda x: x[0], state.learner)
    agreed = {"train": [], "greedy": []}
    for group, steps in zip(program.layout.groups, unlearned.collected.groups, strict=True):
        for t, obs in enumerate(steps.obs):
            inputs = Inputs(jnp.asarray(obs[0]), jnp.asarray(steps.first[0, t]))
            best = np.asarray(program.algorithm.actor.scores(learner, (), inputs)[1].argmax(-1))
            agrees = (best == steps.action[0, t])[:, 0]
            agreed["train"] += agrees[: group.num_train].tolist()
            agreed["greedy"] += agrees[group.num_train :].tolist()
    assert len(agreed["greedy"]) == 5 * 8 and all(agreed["greedy"])
    assert 0.2 < np.mean(agreed["train"]) < 0.8


def test_a_later_start_has_other_episodes():
    """A run whose simulators cannot be saved starts new episodes when it is resumed, and no seed comes twice."""
    layout = Layout.of(tiny({"simulators.greedy_envs": 8}, seeds=2), Counter().spec, 2)
    seeds = np.concatenate([np.ravel(x) for update in (0, 5, 6) for x in episode_seeds(jnp.arange(2), layout, update)])
    assert seeds.size == 3 * 2 * (8 + 8) and len(np.unique(seeds)) == seeds.size


def test_a_resumed_run_resets_its_simulators_for_its_update():
    program, given = host_program(Counter()), []
    state, _ = program.chunk(program.init(), 3)
    simulators = program.started.simulators
    original = simulators.reset
    simulators.reset = lambda *seeds: (given.append(seeds), original(*seeds))[1]
    program.restore(program.snapshot(state), lambda text: None)
    jax.tree.map(np.testing.assert_array_equal, given, [episode_seeds(program.seeds, program.layout, 3)])


def test_a_checkpoint_holds_the_open_greedy_episodes():
    options = {"simulators.greedy_envs": 4, "learner.rollout_steps": 4}
    program = host_program(Counter(), options, kind=Savable)
    state, _ = program.chunk(program.init(), 3)
    program.started.greedy.report()
    state, _ = program.chunk(state, 1)
    saved, open_episodes = program.snapshot(state), jax.tree.map(np.copy, program.started.greedy.save())
    other = host_program(Counter(), options, kind=Savable)
    other.restore(jax.tree.map(np.asarray, saved._replace(key=()))._replace(key=saved.key), lambda said: None)
    jax.tree.map(np.testing.assert_array_equal, other.started.greedy.save(), open_episodes)
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
