"""Same-step autoreset: no transition is lost, none is invented, and a truncated one keeps its true successor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import JaxEnv, Outcome
from pqn.envs.probe import Counter
from pqn.errors import EnvError
from pqn.types import EnvSpec


def run(env, steps, seed=0, action=0):
    """Time-major numpy arrays: the observation acted on, and the time step it led to."""
    state, timestep = jax.jit(env.reset)(jax.random.key(seed))
    step = jax.jit(env.step)
    actions = jnp.full((env.num_envs, env.spec.num_agents), action, jnp.int32)
    before, after = [], []
    for _ in range(steps):
        before.append(np.asarray(timestep.obs))
        state, timestep = step(state, actions)
        after.append(jax.device_get(timestep))
    return np.stack(before), jax.tree.map(lambda *x: np.stack(x), *after)


def test_every_transition_of_the_counter_is_real():
    probe = Counter(longest=4)
    before, steps = run(Autoreset(probe, 5), 60)
    successor, reward, terminated, truncated = probe.expected(before[:, :, 0])
    np.testing.assert_array_equal(steps.reward, reward)
    np.testing.assert_array_equal(steps.terminated, terminated)
    np.testing.assert_array_equal(steps.truncated, truncated)
    assert terminated.any() and truncated.any()
    np.testing.assert_array_equal(steps.final_obs[:, :, 0], successor)
    done = terminated | truncated
    np.testing.assert_array_equal(steps.first[:, :, 0], done)
    np.testing.assert_array_equal(steps.obs[:, :, 0][~done], successor[~done])
    assert (steps.obs[:, :, 0][done][:, 1] == 0).all()  # the next episode starts at once …
    assert (steps.obs[:, :, 0][done][:, 0] != successor[done][:, 0]).any()  # … and is another one


class Ramp:
    """Terminates by itself after `length` steps, with a mask, and a typed key in its state."""

    def __init__(self, length, limit, agents=1):
        self.length = length
        self.spec = EnvSpec(
            "ramp",
            (1,),
            np.dtype(np.float32),
            num_actions=3,
            num_agents=agents,
            max_episode_steps=limit,
            truncates=True,
            masked=True,
        )

    def reset(self, key):
        return {"t": 0, "key": key}, self.observe(0)  # a Python number: weakly typed once it is batched

    def step(self, key, state, action):
        t = state["t"] + 1
        return Outcome({"t": t, "key": state["key"]}, self.observe(t), 1, t >= self.length, info={"t": t})

    def observe(self, t):
        obs = jnp.full(1, t, jnp.float32)
        return obs if self.spec.num_agents == 1 else jnp.tile(obs, (self.spec.num_agents, 1))

    def avail(self, state):
        legal = jnp.arange(3) <= state["t"]
        return legal if self.spec.num_agents == 1 else jnp.tile(legal, (self.spec.num_agents, 1))


def test_terminated_wins_over_the_time_limit():
    _, steps = run(Autoreset(Ramp(length=3, limit=3), 2), 7)
    assert steps.terminated[2].all() and not steps.truncated.any()


def test_the_time_limit_truncates_with_the_mask_of_the_final_observation():
    _, steps = run(Autoreset(Ramp(length=9, limit=2), 2), 4)
    assert not steps.terminated.any()
    np.testing.assert_array_equal(steps.truncated[:, 0], [False, True, False, True])
    np.testing.assert_array_equal(steps.final_obs[1, 0], [[2.0]])
    np.testing.assert_array_equal(steps.final_avail[1, 0], [[True, True, True]])
    np.testing.assert_array_equal(steps.avail[1, 0], [[True, False, False]])  # of the new episode
    np.testing.assert_array_equal(steps.info["t"][:, 0], [1, 2, 1, 2])


def test_agents_keep_their_axis():
    env = Autoreset(Ramp(length=9, limit=2, agents=2), 3)
    before, steps = run(env, 3)
    assert before.shape == (3, 3, 2, 1)
    assert steps.first.shape == (3, 3, 2) and steps.avail.shape == (3, 3, 2, 3) and steps.reward.shape == (3, 3)


def test_reset_and_step_yield_one_type_so_that_step_compiles_once():
    env = Autoreset(Ramp(length=9, limit=4), 2)
    assert isinstance(env, JaxEnv)
    state, timestep = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    for _ in range(3):
        state, timestep = step(state, jnp.zeros((2, 1), jnp.int32))
    assert step._cache_size() == 1
    leaves = [x for x in jax.tree.leaves((state, timestep)) if isinstance(x, jax.Array)]
    assert not any(getattr(x, "weak_type", False) for x in leaves)


def test_environments_and_seeds_live_different_lives():
    env = Autoreset(Counter(), 8)
    first = [np.asarray(env.reset(jax.random.key(seed))[1].obs[:, 0, 0]) for seed in (0, 1)]
    assert len(set(first[0])) > 4
    assert (first[0] != first[1]).any()


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(EnvError, match="num_envs must be at least 1, not 0"):
        Autoreset(Counter(), 0)

    class Maskless(Counter):
        def __init__(self):
            self.spec = EnvSpec("maskless", (2,), np.dtype(np.float32), 2, masked=True)

    with pytest.raises(EnvError, match="no method `avail"):
        Autoreset(Maskless(), 1)
