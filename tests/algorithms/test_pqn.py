"""The update itself: segments, regulariser, optimiser settings."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

from pqn.algorithms.base import Hyper
from pqn.algorithms.pqn import PQN
from pqn.algorithms.segments import Segments, pick, segmented
from pqn.programs import rollout
from pqn.types import EnvSpec, Inputs, Rollout


def fake_rollout(steps=6, envs=3):
    """Every entry is 100·t + n, so that a misplaced one shows."""
    number = 100 * jnp.arange(steps)[:, None] + jnp.arange(envs)
    inputs = Inputs(number[..., None, None] * 1.0, jnp.zeros((steps, envs, 1), bool))
    blank = jnp.zeros((steps, envs))
    carry = {"h": number[::2][..., None]}  # as kept at the starts of segments of length 2
    window = jax.tree.map(lambda x: x[:0], inputs)
    return Rollout(inputs, None, None, number[..., None], blank, blank, blank, blank[0], carry, window), number


def test_cut_keeps_time_within_segments():
    data, number = fake_rollout()
    segments = segmented(data, number * 1.0, number * 1.0, 2)
    action = segments.action[..., 0]  # [L = 2, S = 9]
    assert action.shape == (2, 9)
    np.testing.assert_array_equal(action[1] - action[0], 100)  # consecutive steps of one environment
    np.testing.assert_array_equal(segments.carry["h"][:, 0], action[0])  # the carry is that of the segment's start
    assert sorted(action.ravel().tolist()) == sorted(number.ravel().tolist())


def test_pick_takes_the_same_segments_of_every_field():
    data, number = fake_rollout()
    segments = pick(segmented(data, number * 1.0, number * 1.0, 2), jnp.array([4, 0]))
    assert isinstance(segments, Segments)
    np.testing.assert_array_equal(segments.inputs.obs[:, :, 0, 0], segments.action[..., 0])
    np.testing.assert_array_equal(segments.target, segments.action[..., 0])
    np.testing.assert_array_equal(segments.carry["h"][:, 0], segments.action[0, :, 0])


@pytest.mark.parametrize("burn_in", [0, 2])
def test_the_loss_is_half_the_mean_squared_error_of_the_actions_taken(burn_in):
    """The steps of the burn-in come before it: they change the memory and have no error of their own."""
    config = tiny({"network.memory": "gru", "network.memory_size": 8, "learner.burn_in": burn_in})
    learner = PQN(config, EnvSpec("noise", (3,), np.dtype("float32"), num_actions=2))
    state, rng = learner.init(jax.random.key(0)), np.random.default_rng(0)
    obs = jnp.asarray(rng.normal(size=(burn_in + 4, 5, 1, 3)), jnp.float32)
    inputs = Inputs(obs, jnp.zeros(obs.shape[:3], bool))
    action, target = rng.integers(0, 2, (4, 5, 1)), jnp.asarray(rng.normal(size=(4, 5)), jnp.float32)
    carry, blank = learner.actor.initial_carry(5, 1), jnp.zeros((4, 5))
    batch = Segments(inputs, None, None, jnp.asarray(action), blank, blank, target, blank[:1], carry)
    loss, _ = learner.loss(state.params, {}, batch, Hyper.of(config))
    _, q = learner.actor.network.apply({"params": state.params}, carry, inputs)
    chosen = np.take_along_axis(np.asarray(q)[burn_in:, :, 0], action, axis=-1)[..., 0]
    np.testing.assert_allclose(loss, 0.5 * np.mean((target - chosen) ** 2), rtol=1e-5)


def test_segments_of_any_length_are_the_same_data():
    """A feed-forward network does not care how its rollout is cut: with one minibatch the update is identical."""
    results = []
    for length in (1, 4, 8):
        options = {"learner.segment_length": length, "learner.minibatches": 1, "learner.epochs": 1}
        results.append(run_updates(build(tiny(options)), 3).learner.params)
    for other in results[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-5), results[0], other)


@pytest.mark.parametrize("which", ["l2_final", "l2_inner"])
def test_l2_shrinks_its_own_kernels(which):
    def norms(options):
        params = run_updates(build(tiny({"learner.lr": 1e-2, "learner.lr_decay": False} | options)), 10).learner.params
        return np.linalg.norm(params["head"]["q"]["kernel"]), np.linalg.norm(params["torso"]["Dense_0"]["kernel"])

    plain, regularised = norms({}), norms({f"learner.{which}": 10.0})
    index = 0 if which == "l2_final" else 1
    assert regularised[index] < 0.85 * plain[index]
    # LayerNorm makes inner kernels scale-free, so that only theirs may shrink freely.
    assert regularised[1 - index] > 0.7 * plain[1 - index]


def test_learning_rate_falls_to_zero():
    """With decay, the last gradient steps of a run move nothing any more."""
    program = build(tiny())
    before = run_updates(program, program.config.updates - 1)
    last = run_updates(program, 1, before)
    first = run_updates(program, 1)
    start = jax.jit(jax.vmap(program.init_one))(program.seeds)

    def moved(a, b):
        difference = jax.tree.map(lambda x, y: x - y, a.learner.params, b.learner.params)
        return float(np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(difference))))

    assert 0 < moved(last, before) < 0.3 * moved(first, start)


def test_gradients_are_clipped():
    state = run_updates(build(tiny({"learner.max_grad_norm": 1e-9, "learner.optimizer": "adam"})), 1)
    moments = jax.tree.leaves(state.learner.opt.mu)
    assert moments and all(np.all(np.abs(moment) < 1e-9) for moment in moments)


def test_observations_keep_their_dtype_and_next_obs_is_not_stored():
    program = build(tiny({"env.name": "Breakout-MinAtar", "network.torso": "minatar"}))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), program.state_shape)

    def collect(state):
        return rollout.collect(program.env, program.algorithm, state.learner, state.stream, state.key, program.hyper)

    _, data, _ = jax.eval_shape(collect, one)
    assert data.inputs.obs.dtype == bool and data.inputs.obs.shape == (8, 8, 1, 10, 10, 4)
    big = [leaf for leaf in jax.tree.leaves(data) if leaf.size >= data.inputs.obs.size]
    assert len(big) == 1


def test_an_agent_without_a_legal_action_contributes_nothing():
    """Neither to the prediction nor to the value: what such an agent sees cannot change the loss."""
    config = tiny()
    spec = EnvSpec("two", (3,), np.dtype("float32"), num_actions=2, num_agents=2, masked=True)
    learner = PQN(config, spec)
    state = learner.init(jax.random.key(0))
    obs = jax.random.normal(jax.random.key(1), (1, 4, 2, 3))
    avail = jnp.ones((1, 4, 2, 2), bool).at[:, :, 1].set(False)
    blank = jnp.zeros((1, 4))

    def loss(obs, avail):
        batch = Segments(
            Inputs(obs, jnp.zeros(obs.shape[:3], bool)),
            avail,
            None,
            jnp.zeros(obs.shape[:3], jnp.int32),
            blank,
            blank,
            blank + 1.0,
            blank,
            (),
        )
        return learner.loss(state.params, {}, batch, Hyper.of(config))[0]

    other = obs.at[:, :, 1].add(5.0)
    assert loss(obs, avail) == loss(other, avail)
    assert loss(obs, jnp.ones_like(avail)) != loss(other, jnp.ones_like(avail))
    q = jax.random.normal(jax.random.key(2), (4, 2, 2))
    np.testing.assert_allclose(learner.actor.joint_value(state.params, q, avail[0], None), q[:, 0].max(-1), rtol=1e-6)
