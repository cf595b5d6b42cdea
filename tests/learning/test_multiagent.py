"""Several agents: mixers, masks, identities, and games whose best play is known."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Clock, build, run_updates, tiny
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pqn
from pqn.algorithms.base import Hyper
from pqn.algorithms.pqn import PQN
from pqn.algorithms.segments import Segments
from pqn.config import Config
from pqn.envs.autoreset import Autoreset
from pqn.envs.probe import TeamMatch, TwoStepGame
from pqn.exploration import epsilon_greedy
from pqn.networks.mixers import QMIX
from pqn.presets import PRESETS
from pqn.presets.multiagent import OVERCOOKED_LAYOUTS, SMAX_MAPS
from pqn.programs import rollout
from pqn.programs.compiled import CompiledProgram
from pqn.programs.evaluation import evaluate
from pqn.types import EnvSpec, Inputs

M, A, W = 3, 4, 5
SPEC = EnvSpec("three", (6,), np.dtype("float32"), num_actions=A, num_agents=M, masked=True, world_size=W)
MIXERS = ["vdn", "qmix", "independent"]


def learner_of(mixer, spec=SPEC, **options):
    learner = PQN(Config().replace({"learner.mixer": mixer, "network.hidden": (8,)} | options).validate(), spec)
    return learner, learner.init(jax.random.key(0))


# ---- mixing ----


def test_vdn_is_the_sum_and_independent_mixes_nothing():
    q = jax.random.normal(jax.random.key(0), (7, M))
    for mixer, expected in [("vdn", q.sum(-1)), ("independent", q)]:
        learner, state = learner_of(mixer)
        assert "mixer" not in state.params
        np.testing.assert_allclose(learner.actor.mix(state.params, q, None), expected, rtol=1e-6)


floats = st.floats(-10, 10, width=32)


@given(
    hnp.arrays(np.float32, M, elements=floats),
    hnp.arrays(np.float32, W, elements=floats),
    st.integers(0, 2**16),
    st.floats(0.1, 5.0),
)
def test_qmix_never_falls_when_an_agents_value_rises(q, world, seed, scale):
    mixer = QMIX(4, 8)
    params = mixer.init(jax.random.key(seed), q, world)["params"]
    params = jax.tree.map(lambda x: scale * (x + 0.1), params)  # biases are zero at first; weights of any sign
    slopes = jax.grad(lambda q: mixer.apply({"params": params}, q, world))(q)
    assert np.all(np.asarray(slopes) >= 0.0)
    raised = mixer.apply({"params": params}, q + np.float32(1.0), world)
    assert raised >= mixer.apply({"params": params}, q, world) - 1e-4


def test_qmix_reads_the_world():
    learner, state = learner_of("qmix")
    q = jnp.ones((2, M))
    low, high = learner.actor.mix(state.params, q, jnp.stack([jnp.zeros(W), jnp.arange(W, dtype=jnp.float32)]))
    assert low != high


VALUE = {mixer: jax.jit(learner_of(mixer)[0].actor.joint_value) for mixer in ("vdn", "qmix")}
MIX = {mixer: jax.jit(learner_of(mixer)[0].actor.mix) for mixer in ("vdn", "qmix")}
STATES = {mixer: learner_of(mixer)[1] for mixer in ("vdn", "qmix")}


@pytest.mark.parametrize("mixer", ["vdn", "qmix"])
@given(
    hnp.arrays(bool, (M, A)),
    hnp.arrays(np.float32, (M, A), elements=st.floats(-5, 5, width=32)),
    st.floats(0, 1, exclude_max=True, width=32),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_an_illegal_action_is_neither_chosen_nor_bootstrapped_from(mixer, avail, q, uniform, epsilon):
    """Against the definition: the best joint action among all combinations of legal ones."""
    state, world = STATES[mixer], jnp.arange(W, dtype=jnp.float32)
    action = np.asarray(epsilon_greedy(jnp.full(M, uniform), jnp.asarray(q), jnp.asarray(avail), epsilon))
    can_act = avail.any(-1)
    assert avail[np.arange(M), action][can_act].all()
    choices = [row_q[row] if row.any() else [0.0] for row_q, row in zip(q, avail, strict=True)]
    joint = np.array(list(itertools.product(*choices)), np.float32)
    joint = np.concatenate([joint, np.repeat(joint[:1], A**M - len(joint), axis=0)])  # one shape, one compilation
    value = VALUE[mixer](state.params, q, avail, world)
    best = MIX[mixer](state.params, joint, jnp.broadcast_to(world, (len(joint), W))).max()
    np.testing.assert_allclose(value, best, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mixer", MIXERS)
def test_an_agent_without_a_legal_action_contributes_nothing(mixer):
    learner, state = learner_of(mixer, **{"network.norm": "layer"})
    obs = jax.random.normal(jax.random.key(1), (1, 4, M, 6))
    avail = jnp.ones((1, 4, M, A), bool).at[:, :, 1].set(False)
    blank = jnp.zeros((1, 4, M) if mixer == "independent" else (1, 4))

    def loss(obs, avail):
        inputs = Inputs(obs, jnp.zeros(obs.shape[:3], bool))
        action, world = jnp.zeros(obs.shape[:3], jnp.int32), jnp.ones((1, 4, W))
        batch = Segments(inputs, avail, world, action, blank, blank, blank + 1.0, blank[:1], ())
        return learner.loss(state.params, {}, batch, Hyper.of(learner.config))[0]

    other = obs.at[:, :, 1].add(5.0)
    assert loss(obs, avail) == loss(other, avail)
    assert loss(obs, jnp.ones_like(avail)) != loss(other, jnp.ones_like(avail))


def test_with_one_agent_vdn_and_independent_are_the_same_program():
    texts = []
    for mixer in ("vdn", "independent"):
        program = build(tiny({"learner.mixer": mixer}))
        shape, count = program.state_shape, jax.ShapeDtypeStruct((), jnp.int32)
        texts.append(jax.jit(program._chunk).lower(shape, program.hyper, count).as_text())
    assert texts[0] == texts[1]


# ---- identities ----


def test_agent_ids_tell_agents_apart_that_see_the_same():
    inputs = Inputs(jnp.ones((1, 2, M, 6)), jnp.zeros((1, 2, M), bool))
    for told in (False, True):
        learner, state = learner_of("vdn", **{"network.agent_id": told})
        _, q = learner.actor.network.apply({"params": state.params}, (), inputs)
        same = np.allclose(q[0, 0, 0], q[0, 0, 1])
        assert same != told
        np.testing.assert_array_equal(q[0, 0], q[0, 1])  # the same agent in another environment


def test_agent_ids_are_planes_of_an_image():
    spec = EnvSpec("image", (5, 4, 2), np.dtype("uint8"), num_actions=A, num_agents=2)
    learner, state = learner_of("vdn", spec, **{"network.agent_id": True, "network.torso": "grid"})
    assert state.params["torso"]["Conv_0"]["kernel"].shape == (5, 5, 2 + 2, 32)
    inputs = Inputs(jnp.zeros((1, 1, 2, 5, 4, 2), jnp.uint8), jnp.zeros((1, 1, 2), bool))
    _, q = learner.actor.network.apply({"params": state.params}, (), inputs)
    assert not np.allclose(q[0, 0, 0], q[0, 0, 1])


def test_each_agents_memory_is_cleared_with_its_own_episode():
    learner, state = learner_of("vdn", **{"network.memory": "gru", "network.memory_size": 8})
    obs = jax.random.normal(jax.random.key(1), (2, 1, M, 6))
    first = jnp.zeros((2, 1, M), bool).at[1, 0, 1].set(True)
    carry = jax.tree.map(lambda x: x + 1.0, learner.actor.network.initial_carry(1, M))
    variables = {"params": state.params}
    _, q = learner.actor.network.apply(variables, carry, Inputs(obs, first))
    _, fresh = learner.actor.network.apply(
        variables, learner.actor.network.initial_carry(1, M), Inputs(obs[1:], jnp.zeros((1, 1, M), bool))
    )
    same = [np.allclose(q[1, 0, agent], fresh[0, 0, agent], atol=1e-6) for agent in range(M)]
    assert same == [False, True, False]


# ---- truncation ----


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_truncated_episode_bootstraps_from_its_true_last_world(mixer):
    config = tiny({"learner.mixer": mixer, "learner.rollout_steps": 4, "env.num_envs": 2, "learner.minibatches": 2})
    program = CompiledProgram(config, lambda n: Autoreset(Clock(), n))
    learner = program.algorithm
    state = program.init_one(jnp.int32(3))
    _, data, _ = rollout.collect(program.env, learner, state.learner, state.stream, jax.random.key(0), program.hyper)
    inputs = Inputs(jnp.full((2, 2, 1), 3.0), jnp.zeros((2, 2), bool))
    _, q = learner.actor.scores(state.learner, (), inputs)
    world = jnp.full((2, 1), 30.0) if mixer == "qmix" else None
    value = learner.actor.joint_value(state.learner.params, q, None, world)
    expected = config.learner.reward_scale * 1.0 + config.learner.gamma * value
    np.testing.assert_allclose(data.reward[2], expected, rtol=1e-5)
    np.testing.assert_allclose(data.reward[1].reshape(2, -1)[:, 0], 1.0)
    if mixer == "qmix":
        np.testing.assert_allclose(data.world[:, 0, 0], [0, 10, 20, 0])


# ---- games ----


def play(env, mixer, updates=300, **options):
    """Trains on uniformly random play and returns the greedy team's return."""
    base = {
        "env.name": f"probe:{env}",
        "env.num_envs": 32,
        "network.hidden": (32,),
        "learner.mixer": mixer,
        "learner.rollout_steps": 4,
        "learner.epochs": 2,
        "learner.minibatches": 2,
        "learner.lr": 3e-3,
        "learner.lam": 0.0,
        "learner.eps_finish": 1.0,
        "total_steps": updates * 128,
    }
    program = build(Config().replace(base | options).validate())
    learner = jax.tree.map(lambda x: x[0], run_updates(program, updates).learner)
    return float(evaluate(program.eval_env, program.algorithm.actor, learner, jax.random.key(0), 0.0, 2).ret.mean())


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_payoff_that_is_a_sum_is_solved(mixer):
    assert play("team-match", mixer) == TeamMatch.best


def test_a_payoff_that_is_no_sum_needs_qmix():
    """Both learn from the same uniformly random data; only the mixture can say that 8 is more than 7."""
    assert play("two-step-game", "vdn", 600) == TwoStepGame.best_sum == 7.0
    assert play("two-step-game", "qmix", 600) == TwoStepGame.best == 8.0


def test_qmix_without_a_world_mixes_by_what_the_agents_see():
    learner = build(tiny({"env.name": "probe:team-match", "learner.mixer": "qmix"})).algorithm
    params = learner.init(jax.random.key(0)).params
    assert params["mixer"]["bias"]["kernel"].shape == (4, 32)


# ---- presets and the whole way ----


def test_every_multi_agent_preset_is_there():
    wanted = [f"smax-{name}" for name in SMAX_MAPS] + [f"overcooked-{name}" for name in OVERCOOKED_LAYOUTS]
    assert len(SMAX_MAPS) == 9 and len(OVERCOOKED_LAYOUTS) == 5
    for name in [*wanted, "hanabi", "mpe-spread"]:
        PRESETS[name].config.validate()


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_team_trains_resumes_and_plays(mixer, tmp_path):
    """Through the front door: a run, its checkpoint and `pqn.load`, with what the mixer adds to both."""
    config = tiny({"env.name": "probe:two-step-game", "learner.mixer": mixer}, seeds=2)
    run = pqn.train(config, out=tmp_path / "run").run
    agent = pqn.load(run)
    assert agent.q_values(np.eye(3, dtype=np.float32)[[0, 0]]).shape == (2, 2)
    assert pqn.resume(run).run == run
