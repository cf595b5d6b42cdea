"""The probes are what they claim: tables, simulation and closed form agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.envs import check_env
from pqn.envs.probe import PROBES, Counter, Endless, Memory, RandomLength, make
from pqn.envs.probe.tabular import Probe
from pqn.errors import EnvError

TABULAR = [name for name, probe in PROBES.items() if issubclass(probe, Probe)]


def value_iteration(probe, gamma):
    """Q* from the tables; truncations bootstrap, terminations do not, maxima are over legal actions."""
    q = np.zeros(probe.legal.shape)
    for _ in range(3000):
        value = np.where(probe.legal, q, -np.inf).max(-1)
        q = (probe.transition * (probe.reward + gamma * ~probe.terminates * value)).sum(-1)
    return q


@pytest.mark.parametrize("gamma", [0.0, 0.7, 0.99])
@pytest.mark.parametrize("name", TABULAR)
def test_closed_form_equals_value_iteration(name, gamma):
    probe = PROBES[name]()
    q = value_iteration(probe, gamma)
    counts = probe.acting[:, None] & probe.legal
    np.testing.assert_allclose(probe.optimal_q(gamma)[counts], q[counts], atol=1e-9)


@pytest.mark.parametrize("name", TABULAR)
def test_simulation_follows_the_tables(name):
    probe = PROBES[name]()
    states, actions = probe.legal.shape
    np.testing.assert_allclose(probe.transition.sum(-1), 1)
    draws = 4000 if ((probe.transition > 0) & (probe.transition < 1)).any() else 4
    s, a = (x.reshape(-1).astype(np.int32) for x in np.meshgrid(np.arange(states), np.arange(actions), indexing="ij"))
    keys = jax.random.split(jax.random.key(0), draws)
    every_pair = jax.vmap(probe.step, in_axes=(None, 0, 0))
    out = jax.device_get(jax.jit(jax.vmap(every_pair, in_axes=(0, None, None)))(keys, s, a))
    here = (s[None], a[None], out.state)
    np.testing.assert_allclose(out.reward, probe.reward[here].astype(np.float32))
    np.testing.assert_array_equal(out.terminated, probe.terminates[here])
    np.testing.assert_array_equal(out.truncated, probe.truncates[here])
    np.testing.assert_array_equal(out.obs, probe.observations[out.state])
    frequency = (out.state[..., None] == np.arange(states)).mean(0)
    np.testing.assert_allclose(frequency, probe.transition[s, a], atol=0.03)
    first = jax.device_get(jax.jit(jax.vmap(probe.reset))(keys)[0])
    if draws > 4:
        np.testing.assert_allclose((first[:, None] == np.arange(states)).mean(0), probe.start, atol=0.03)
    assert (probe.start[first] > 0).all()


@pytest.mark.parametrize("name", ["end-or-truncation", "masked", "memory", "gridworld"])
def test_probes_keep_the_contract(name):
    report = check_env(make(name, 3), steps=40)
    assert report.episodes > 0
    assert bool(report.truncations) == (name == "end-or-truncation")


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_endless_without_bootstrapping(lam):
    """The fixed point of λ-returns over whole episodes, found by iterating them."""
    gamma, probe = 0.9, Endless(limit=4)
    value = 0.0
    for _ in range(500):
        returns, g = [], 0.0
        for left in range(1, probe.limit + 1):
            successor = 0.0 if left == 1 else (1 - lam) * value + lam * g
            g = 1 + gamma * successor
            returns.append(g)
        value = np.mean(returns)
    np.testing.assert_allclose(probe.unbootstrapped_q(gamma, lam), value, rtol=1e-10)
    assert value < probe.optimal_q(gamma)[0, 0] - 1


def test_memory_shows_its_cue_only_once():
    probe = Memory(delay=3)
    later = probe.observations[2:].reshape(3, 2, 3)
    np.testing.assert_array_equal(later[:, 0], later[:, 1])  # the two cues look alike from then on
    assert (probe.observations[0] != probe.observations[1]).any()
    asked = probe.optimal_q(1.0)[-2:]
    np.testing.assert_array_equal(asked.mean(0), 0)  # what a memoryless agent gets, whatever it answers


def test_counter_values():
    probe, gamma = Counter(longest=3, markers=9), 0.5
    assert len(probe.observations) == 3 * (1 + 2 + 3)
    for obs, q in zip(probe.observations, probe.optimal_q(gamma), strict=True):
        total, discount, over = 0.0, 1.0, False
        while not over:
            obs, reward, terminated, truncated = probe.expected(obs)
            total, discount, over = total + discount * reward, discount * gamma, terminated or truncated
        np.testing.assert_allclose(q, total)


def test_options():
    assert make("random-length", 1, p=0.5).env.optimal_q(0.9)[0, 0] == pytest.approx(1 / 0.55)
    assert make("memory", 1, delay=7).spec.max_episode_steps == 8
    assert jnp.issubdtype(make("gridworld", 1).spec.obs_dtype, jnp.bool_)
    with pytest.raises(EnvError, match="probe:memory has no option 'length'; its options are delay"):
        make("memory", 1, length=3)
    with pytest.raises(EnvError, match="probe:two-step has no option 'x'; it has none"):
        make("two-step", 1, x=3)
    with pytest.raises(EnvError, match="delay must be an integer of at least 1, not 0"):
        Memory(delay=0)
    with pytest.raises(EnvError, match=r"p must be in \[0, 1\), not 1"):
        RandomLength(p=1)
