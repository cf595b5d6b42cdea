"""PPO: advantages against their definition, gradients at the edges of the clip, and who counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from hypothesis import given
from hypothesis import strategies as st

from pqn.algorithms.base import Hyper
from pqn.algorithms.ppo import PPO, Noted, clipped
from pqn.algorithms.segments import Segments
from pqn.types import EnvSpec, Inputs, Rollout

GAMMA, M, A = 0.9, 2, 3
SPEC = EnvSpec("two", (4,), np.dtype("float32"), num_actions=A, num_agents=M, masked=True, world_size=5)


def learner(**options) -> PPO:
    return PPO(tiny({"network.hidden": (8,)} | options, algorithm="ppo"), SPEC)


# ---- advantages ----


@st.composite
def lives(draw):
    """Rewards, what follows each step ("-" goes on, "t" terminates, "c" is cut), values and those of cut ends."""
    steps = draw(st.integers(1, 8))
    numbers = st.lists(st.floats(-3, 3, width=32), min_size=steps + 1, max_size=steps + 1)
    ends = draw(st.lists(st.sampled_from("---tc"), min_size=steps, max_size=steps))
    return [np.array(draw(numbers)) for _ in range(3)], ends


@given(lives(), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_advantages_are_discounted_sums_of_td_errors(life, lam):
    """Â_t = Σ_k (γλ)ᵏ δ_{t+k} up to the end of the episode, δ = r + γ V(s') − V(s)."""
    (rewards, values, finals), ends = life
    steps = len(ends)

    def delta(t: int) -> float:
        after = {"-": values[t + 1], "t": 0.0, "c": finals[t]}[ends[t]]
        return rewards[t] + GAMMA * after - values[t]

    expected = np.zeros(steps)
    for t in range(steps):
        for k in range(steps - t):
            expected[t] += (GAMMA * lam) ** k * delta(t + k)
            if ends[t + k] != "-":
                break
    # As collecting hands them over: γ·V of a cut end is part of the reward, and the discount is 0 at every end.
    folded = rewards[:-1] + np.array([GAMMA * finals[t] if end == "c" else 0.0 for t, end in enumerate(ends)])
    discount = np.array([GAMMA if end == "-" else 0.0 for end in ends])
    column = [jnp.asarray(x, jnp.float32)[:, None] for x in (folded, discount, values[:-1])]
    inputs = Inputs(jnp.zeros((steps, 1, 1, 4)), jnp.zeros((steps, 1, 1), bool))
    rollout = Rollout(
        inputs, None, None, jnp.zeros((steps, 1, 1), jnp.int32), *column, jnp.asarray(values[-1:], jnp.float32), (),
        jax.tree.map(lambda x: x[:0], inputs), extra=jnp.zeros((steps, 1, 1)),
    )  # fmt: skip
    one = PPO(tiny(algorithm="ppo"), EnvSpec("one", (4,), np.dtype("float32"), num_actions=A))
    segments, metrics = one.segments(rollout, Hyper.of(one.config)._replace(lam=jnp.float32(lam)))
    noted = segments.extra
    np.testing.assert_allclose(noted.advantage[0], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(segments.target[0], expected + values[:-1], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(noted.value[0], column[2][:, 0])
    np.testing.assert_allclose(metrics["target"], np.mean(expected + values[:-1]), rtol=1e-4, atol=1e-4)


# ---- the clip ----

SLOPES = [  # ratio, advantage, slope of the loss
    (1.0, 2.0, -2.0),
    (1.199, 2.0, -2.0),
    (1.201, 2.0, 0.0),  # probable enough: a good action is not pushed further
    (0.801, 2.0, -2.0),
    (0.799, 2.0, -2.0),  # a good action that became improbable is pushed back
    (1.0, -2.0, 2.0),
    (1.199, -2.0, 2.0),
    (1.201, -2.0, 2.0),  # a bad action that became probable is pushed back
    (0.801, -2.0, 2.0),
    (0.799, -2.0, 0.0),  # improbable enough
]


@pytest.mark.parametrize(("ratio", "advantage", "slope"), SLOPES)
def test_gradients_at_the_edges_of_the_clip(ratio, advantage, slope):
    value, found = jax.value_and_grad(clipped)(jnp.float32(ratio), jnp.float32(advantage), 0.2)
    np.testing.assert_allclose(found, slope)
    worst = min(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    np.testing.assert_allclose(value, -worst, rtol=1e-6)


@pytest.mark.parametrize("clip_value", [False, True])
@pytest.mark.parametrize(
    ("value", "target", "slope"),
    [
        (1.05, 3.0, -1.95),  # near its old value of 1
        (1.25, 3.0, None),  # moved towards the target by more than the clip: no further
        (0.75, 3.0, -2.25),  # moved away from it: pulled back
        (1.25, -3.0, 4.25),
        (0.75, -3.0, None),
    ],
)
def test_gradients_of_values_that_moved_too_far(clip_value, value, target, slope):
    one = learner(**{"ppo.clip_value": clip_value})
    batch = Segments(*[None] * 6, jnp.float32(target), None, ())
    noted, hyper = Noted(jnp.zeros(1), jnp.float32(1.0), jnp.zeros(1)), Hyper.of(one.config)
    error, found = jax.value_and_grad(lambda v: one.value_error(v, batch, noted, hyper))(jnp.float32(value))
    cut = clip_value and slope is None
    np.testing.assert_allclose(found, 0.0 if cut else value - target, rtol=1e-6)
    held = np.clip(value, 0.8, 1.2) if cut else value
    np.testing.assert_allclose(error, 0.5 * (target - held) ** 2, rtol=1e-5)


# ---- who counts ----


def batch_of(one: PPO, avail, valid=None, seed=0, team=False):
    rng = np.random.default_rng(seed)
    shape = (1, 6) if team else (1, 6, M)

    def normal(*axes):
        return jnp.asarray(rng.normal(size=axes), jnp.float32)

    inputs = Inputs(normal(1, 6, M, 4), jnp.zeros((1, 6, M), bool))
    action = jnp.argmax(avail, axis=-1).astype(jnp.int32)  # a legal one
    noted = Noted(-jnp.abs(normal(1, 6, M)), normal(*shape), normal(*shape))
    blank = jnp.zeros(shape)
    return Segments(
        inputs, avail, normal(1, 6, 5), action, blank, blank, normal(*shape), blank[:1], (), valid=valid, extra=noted
    )


@pytest.mark.parametrize("critic", ["shared", "separate", "world"])
def test_an_agent_without_a_legal_action_has_no_part_in_the_loss(critic):
    one = learner(**{"ppo.critic": critic})
    params, hyper = one.init(jax.random.key(0)).params, Hyper.of(one.config)
    gradient = jax.jit(jax.value_and_grad(lambda p, b: one.loss(p, {}, b, hyper)[0]))
    avail = jnp.ones((1, 6, M, A), bool).at[:, ::2, 1].set(False)
    batch = batch_of(one, avail, team=critic == "world")

    def changed(field):  # of the agents that cannot act
        absent = ~jnp.any(avail, axis=-1)
        return jnp.where(absent.reshape(*absent.shape, *(1,) * (field.ndim - 3)), field + 1, field)

    extra = batch.extra._replace(log_probability=changed(batch.extra.log_probability))
    inputs = batch.inputs._replace(obs=changed(batch.inputs.obs))
    other = batch._replace(inputs=inputs, action=changed(batch.action), extra=extra)
    if critic != "world":
        extra = extra._replace(value=changed(extra.value), advantage=changed(extra.advantage))
        other = other._replace(target=changed(batch.target), extra=extra)
    jax.tree.map(np.testing.assert_array_equal, gradient(params, batch), gradient(params, other))
    everybody = [b._replace(avail=jnp.ones_like(avail)) for b in (batch, other)]
    assert gradient(params, everybody[0])[0] != gradient(params, everybody[1])[0]


def test_what_is_no_transition_has_no_part_in_the_loss():
    one = learner()
    params, hyper = one.init(jax.random.key(0)).params, Hyper.of(one.config)
    valid = jnp.ones((1, 6), bool).at[0, 2].set(False)
    batch = batch_of(one, jnp.ones((1, 6, M, A), bool), valid)
    other = jax.tree.map(lambda x: x.at[:, 2].add(1) if x.dtype == jnp.float32 else x, batch)
    gradient = jax.jit(jax.value_and_grad(lambda p, b: one.loss(p, {}, b, hyper)[0]))
    jax.tree.map(np.testing.assert_array_equal, gradient(params, batch), gradient(params, other))
    assert gradient(params, batch._replace(valid=None))[0] != gradient(params, other._replace(valid=None))[0]


def test_advantages_are_normalised_over_those_that_count():
    one = learner()
    valid = jnp.ones((1, 6), bool).at[0, 2].set(False)
    avail = jnp.ones((1, 6, M, A), bool).at[:, 1, 0].set(False)
    batch = batch_of(one, avail, valid)
    counts = np.asarray(valid)[..., None] & np.asarray(avail).any(-1)
    found = np.asarray(one.normalized(batch.extra.advantage, batch))
    np.testing.assert_allclose((found[counts].mean(), found[counts].std()), (0.0, 1.0), atol=1e-5)
    spread = np.asarray(batch.extra.advantage)[counts].std()
    np.testing.assert_allclose(np.diff(found[0, :, 0]), np.diff(batch.extra.advantage[0, :, 0]) / spread, rtol=1e-4)
    plain = learner(**{"ppo.normalize": False})
    assert plain.normalized(batch.extra.advantage, batch) is batch.extra.advantage


def test_every_action_is_drawn_and_no_epsilon_is_on_record():
    one = learner()
    state = one.init(jax.random.key(0))
    assert one.epsilon(state, Hyper.of(one.config)) == 1.0
    assert one.schedules(0).keys() == {"lr"}
