"""The buffer against brute force: what is sampled, when learning starts, and what a buffer may cost."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, tiny

from pqn.algorithms import make_algorithm, replay
from pqn.algorithms.base import Hyper
from pqn.algorithms.replay import Replay
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.types import EnvSpec, Inputs, Rollout

SPEC = EnvSpec("numbers", (2,), np.dtype("float32"), num_actions=2)
T, N = 4, 3


def learner(algorithm: str = "dqn", **options) -> Replay:
    base = {
        "env.num_envs": N,
        "network.hidden": (4,),
        "learner.rollout_steps": T,
        "learner.epochs": 1,
        "learner.minibatches": 2,
        "replay.size": 11 * N,  # no multiple of T: the write head wraps within a rollout
        "replay.start": 0,
        "replay.batch": 4,
        "total_steps": 10_000,
    }
    made = make_algorithm(Config().replace(base | options, algorithm=algorithm).validate(), SPEC)
    assert isinstance(made, Replay)
    return made


def numbered(update: int, **fields) -> Rollout:
    """A rollout whose observations are the number of the environment and the time since the start of the run."""
    time = update * T + jnp.arange(T)[:, None] * jnp.ones((1, N))
    env = jnp.ones((T, 1)) * jnp.arange(N)
    obs = jnp.stack([env, time], axis=-1)[:, :, None]
    blank = jnp.zeros((T, N))
    inputs = Inputs(obs, jnp.zeros((T, N, 1), bool))
    whole = Rollout(
        inputs=inputs,
        avail=None,
        world=None,
        action=(time % 2).astype(jnp.int32)[..., None],
        reward=100 * env + time,
        discount=blank + 0.9,
        value=blank,
        last_value=blank[0],
        carry=(),
        window=jax.tree.map(lambda x: x[:0], inputs),
    )
    return whole._replace(**fields)


def filled(one: Replay, updates: int):
    buffer, add = one.empty_buffer(), jax.jit(one.add)
    for update in range(updates):
        buffer = add(buffer, numbered(update))
    return buffer


@pytest.mark.parametrize("updates", [2, 3, 7])  # before the buffer is full, as it becomes so, and after
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_samples_are_consecutive_steps_that_were_stored(updates, share):
    one = learner(**{"target.n_step": 3, "replay.batch": 8, "replay.share": share, "learner.minibatches": 60})
    steps, orders = jax.jit(one.sample)(filled(one, updates), jax.random.key(updates))
    env, time = np.asarray(steps.inputs.obs)[:, :, 0, 0], np.asarray(steps.inputs.obs)[:, :, 0, 1]  # [4, K·B]
    assert env.shape == (4, 60 * 8) and one.sequence == 4
    np.testing.assert_array_equal(env, np.broadcast_to(env[0], env.shape))  # one environment
    np.testing.assert_array_equal(np.diff(time, axis=0), 1)  # in order of time: never across the write head
    np.testing.assert_array_equal(np.asarray(steps.reward), 100 * env + time)  # fields of the same step
    np.testing.assert_array_equal(np.asarray(steps.action)[..., 0], time % 2)
    assert sorted(np.asarray(orders).ravel().tolist()) == list(range(60 * 8))  # every sequence is used once
    old = round(share * 8)
    orders = np.asarray(orders)
    lived, held = updates * T, min(updates * T, 11)
    anywhere = {(n, t) for n in range(N) for t in range(lived - held, lived - 4 + 1)}
    found = orders[:, :old].ravel()
    assert {(int(env[0, i]), int(time[0, i])) for i in found} == anywhere
    if old < 8:
        found = orders[:, old:].ravel()
        newest = {(n, t) for n in range(N) for t in range(lived - T, lived)}
        assert {(int(env[-1, i]), int(time[-1, i])) for i in found} == newest


def test_a_buffer_keeps_the_newest_steps():
    one = learner()
    kept = np.asarray(filled(one, 7).experience.inputs.obs)[:, :, 0]  # [N, length, 2]
    for env in range(N):
        assert sorted(kept[env, :, 1].tolist()) == list(range(28 - 11, 28))
        assert (kept[env, :, 0] == env).all()


def test_what_is_no_transition_or_has_no_successor_is_not_usable():
    one = learner()
    valid = jnp.ones((T, N), bool).at[1, 0].set(False)
    truncated = jnp.zeros((T, N), bool).at[2, 1].set(True)
    discount = jnp.full((T, N), 0.9).at[3, 2].set(0.0).at[2, 1].set(0.0).at[1, 0].set(0.0)
    rollout = numbered(0, valid=valid, truncated=truncated, discount=discount)
    kept = jax.tree.map(lambda x: np.asarray(x)[:, :T].swapaxes(0, 1), one.add(one.empty_buffer(), rollout).experience)
    np.testing.assert_array_equal(kept.usable, valid & ~truncated)
    np.testing.assert_array_equal(kept.ended, discount == 0.0)
    plain = one.add(one.empty_buffer(), numbered(0)).experience
    assert plain.usable[:, :T].all() and not plain.ended.any()


def test_a_new_episode_follows_no_step_of_an_episode_that_is_still_open():
    """So it is where a run was resumed with simulators that had to start anew."""
    one = learner(**{"learner.segment_length": 4, "target.n_step": 2, "learner.minibatches": 20})
    state = one.init(jax.random.key(0))
    first = jnp.zeros((T, N, 1), bool).at[0].set(True).at[2].set(True)
    discount = jnp.full((T, N), 0.9).at[1, 0].set(0.0)  # where the episode had ended, all is well
    whole = numbered(0, discount=discount)
    buffer = one.add(one.empty_buffer(), whole._replace(inputs=whole.inputs._replace(first=first)))
    buffer = one.add(buffer, numbered(1))
    hyper = Hyper.of(one.config)
    work = one.work(state, one.remember(buffer, numbered(2), jax.random.key(0))[1], jax.random.key(1), hyper)
    found = work.segments
    env, time = np.asarray(found.inputs.obs)[..., 0, 0], np.asarray(found.inputs.obs)[..., 0, 1]
    expected = (time != 1) | (env == 0)
    assert not expected.all()
    np.testing.assert_array_equal(found.usable, expected)


# ---- when learning starts ----


def brute_force_start(one: Replay) -> int:
    """The first update after which the buffer has `replay.start` steps and a whole sequence for every draw."""
    config = one.config
    update = 0
    while True:
        lived = (update + 1) * config.learner.rollout_steps
        first = lived - one.sequence - (config.learner.rollout_steps - 1 if config.replay.share < 1 else 0)
        if lived * config.env.num_envs >= config.replay.start and first >= 0:
            return update
        update += 1


STARTS = [
    ({"replay.start": 24}, 1),
    ({"replay.start": 25}, 2),
    ({"replay.start": 0}, 0),
    ({"replay.start": 0, "target.n_step": 4}, 1),
    ({"replay.start": 0, "target.n_step": 8}, 2),
    ({"replay.start": 0, "replay.share": 0.5}, 1),
    ({"replay.start": 0, "replay.share": 0.5, "target.n_step": 4}, 1),
    ({"replay.start": 0, "replay.share": 0.5, "target.n_step": 5}, 2),
]


@pytest.mark.parametrize(("options", "first"), STARTS)
def test_updates_that_only_fill_the_buffer_are_counted_exactly(options, first):
    one = learner(**options)
    assert one.filling_updates == brute_force_start(one) == first


@pytest.mark.parametrize("options", [{"replay.start": 25}, {"replay.start": 0, "replay.share": 0.5}], ids=str)
def test_the_first_gradient_step_is_taken_when_the_buffer_has_enough(options):
    one = learner(**options)
    hyper, state = Hyper.of(one.config), one.init(jax.random.key(0))
    update = jax.jit(lambda state, rollout, key: one.update(state, rollout, key, hyper))
    moved = []
    for number in range(4):
        after, metrics = update(state, numbered(number), jax.random.key(number))
        same = jax.tree.map(lambda a, b: bool((a == b).all()), (after.params, after.opt), (state.params, state.opt))
        moved.append(not all(jax.tree.leaves(same)))
        assert (float(metrics["grad_norm"]) > 0) == moved[-1]
        assert int(after.updates) == number + 1 and bool(after.buffer.current_index == (number + 1) * T % 11)
        state = after
    assert moved == [number >= one.filling_updates for number in range(4)]


# ---- memory ----


@pytest.mark.parametrize(("place", "where", "has"), [("device", "device", 2**27), ("auto", "machine", 2**26)])
def test_a_buffer_that_does_not_fit_is_refused_in_a_sentence(monkeypatch, place, where, has):
    options = {"replay.size": 2_000_000, "replay.start": 64, "replay.place": place}
    config = tiny(options, algorithm="dqn", seeds=3)
    build(tiny())  # the environments' own functions are wrapped when they are imported
    compiled = []
    monkeypatch.setattr(jax, "jit", lambda *args, **kwargs: compiled.append(args))
    monkeypatch.setattr(replay, "device_memory", lambda: 2**27)
    monkeypatch.setattr(replay, "machine_memory", lambda: 2**26)
    # Of each step: four floats, whether it starts an episode, an action, a reward, ended and usable. And two numbers.
    needed = 3 * (2_000_000 * (16 + 1 + 4 + 4 + 1 + 1) + 5)
    with pytest.raises(ConfigError) as error:
        build(config)
    assert str(error.value) == (
        f"replay.size 2000000 needs a buffer of {needed / 2**30:.1f} GB for 3 seeds, and this {where} has "
        f"{has / 2**30:.1f} GB of memory; a replay.size well below {2_000_000 * has // needed} fits"
    )
    assert not compiled


def test_a_buffer_is_on_the_host_where_it_would_fill_the_device(monkeypatch):
    one = learner(**{"replay.size": 300})
    for share, on_host in ((0.69, False), (0.71, True)):
        monkeypatch.setattr(replay, "device_memory", lambda share=share: one.buffer_bytes / share)
        assert one.buffer_on_host == on_host
    monkeypatch.setattr(replay, "device_memory", lambda: np.inf)
    places = {place: learner(**{"replay.place": place}).buffer_on_host for place in ("auto", "device", "host")}
    assert places == {"auto": False, "device": False, "host": True}


def test_no_size_is_too_large_for_the_sentence():
    with pytest.raises(ConfigError, match=r"replay.size 1000000000000 needs a buffer of \d+\.\d GB, and this"):
        build(tiny({"replay.size": 10**12, "replay.start": 64}, algorithm="dqn"))
