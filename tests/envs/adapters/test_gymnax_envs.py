"""The gymnax adapter: every discrete environment keeps the contract and steps as gymnax itself does."""

import dataclasses
import subprocess
import sys

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.envs import check_env, make
from pqn.envs.adapters.gymnax import _BINARY, GymnaxEnv
from pqn.envs.autoreset import Autoreset
from pqn.envs.catalog import FAMILIES
from pqn.errors import EnvError

NAMES = list(FAMILIES["gymnax"].names)

# (truncates, max_episode_steps) with default options, decided from each environment's source.
LIMITS = {
    # No clock in the observation and a limit that cuts: truncation.
    "CartPole-v1": (True, 500),
    "Acrobot-v1": (True, 500),
    "MountainCar-v0": (True, 200),
    "Asterix-MinAtar": (True, 1000),
    "Breakout-MinAtar": (True, 1000),
    "Freeway-MinAtar": (True, 2500),
    "Seaquest-MinAtar": (True, 1000),
    "SpaceInvaders-MinAtar": (True, 1000),
    "FourRooms-misc": (True, 500),
    "Pong-misc": (True, 1000),
    "FrozenLake-misc": (True, 100),
    # The task is over by itself after so many steps; the limit never acts.
    "Catch-bsuite": (False, 9),
    "DeepSea-bsuite": (False, 8),
    "MemoryChain-bsuite": (False, 6),
    "UmbrellaChain-bsuite": (False, 10),
    "SimpleBandit-bsuite": (False, 1),
    # The clock is in the observation and the limit is the end of the task: termination.
    "DiscountingChain-bsuite": (False, 100),
    "BernoulliBandit-misc": (False, 100),
    "GaussianBandit-misc": (False, 100),
    "MetaMaze-misc": (False, 200),
}


def test_the_static_table_is_gymnaxs_registry():
    family = FAMILIES["gymnax"]
    assert sorted([*family.names, *family.refused]) == sorted(gymnax.registered_envs)
    continuous = {name for name, why in family.refused.items() if "continuous" in why}
    assert set(family.refused) - continuous == {"MNISTBandit-bsuite"}
    for name in continuous:
        with pytest.raises(EnvError, match="continuous actions"):
            GymnaxEnv(name)


@pytest.mark.parametrize("name", NAMES)
def test_limits(name):
    spec = GymnaxEnv(name).spec
    assert (spec.truncates, spec.max_episode_steps) == LIMITS[name]


SLOW_TO_COMPILE = ("Asterix-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar")


def short(name):
    """Options under which episodes end within a few steps."""
    if name in ("Catch-bsuite", "DeepSea-bsuite", "MemoryChain-bsuite", "UmbrellaChain-bsuite", "SimpleBandit-bsuite"):
        return {}
    return {"max_steps_in_episode": 7}


@pytest.mark.parametrize("name", NAMES)
def test_contract(name):
    """Runs the checker; where observations are stored as bool, on the raw floats, spoiled unless they are 0 or 1."""
    env = GymnaxEnv(name, **short(name))
    if name in _BINARY:
        env.spec = dataclasses.replace(env.spec, obs_dtype=np.dtype(np.float32))
        env._encode = lambda obs: jnp.where(((obs == 0) | (obs == 1)).all(), obs.astype(jnp.float32), jnp.nan)
    copies = 1 if name in SLOW_TO_COMPILE else 2
    report = check_env(Autoreset(env, copies), steps=60)
    assert report.episodes > 0
    assert bool(report.truncations) == env.spec.truncates
    assert max(report.lengths) == env.spec.max_episode_steps


def test_observations_are_arrays_a_network_can_read():
    lake = GymnaxEnv("FrozenLake-misc", is_slippery=False)
    assert lake.spec.obs_shape == (16,) and lake.spec.obs_dtype == np.dtype(bool)
    state, obs = lake.reset(jax.random.key(0))
    np.testing.assert_array_equal(obs, np.eye(16, dtype=bool)[0])
    np.testing.assert_array_equal(lake.step(jax.random.key(0), state, jnp.int32(2)).obs, np.eye(16, dtype=bool)[1])
    rooms = GymnaxEnv("FourRooms-misc").reset(jax.random.key(0))[1]  # integers in gymnax
    assert rooms.dtype == jnp.float32
    assert GymnaxEnv("Breakout-MinAtar").reset(jax.random.key(0))[1].dtype == bool


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Breakout-MinAtar", "DeepSea-bsuite", "FrozenLake-misc", "MemoryChain-bsuite"]
)
def test_steps_as_gymnax_does(name):
    """Our reset and step against gymnax's autoresetting `step`, given the keys that it splits off for each."""
    options = {"max_steps_in_episode": 12}
    ours = GymnaxEnv(name, **options)
    theirs, params = gymnax.make(name)
    params = params.replace(**options)
    step, reset = jax.jit(ours.step), jax.jit(ours.reset)
    obs, state = theirs.reset(jax.random.key(0), params)
    ends = []
    for i in range(40):
        key, action = jax.random.key(i), jnp.int32(i % ours.spec.num_actions)
        step_key, reset_key = jax.random.split(key)
        out = step(step_key, state, action)
        obs, state, reward, terminated, truncated, info = theirs.step(key, state, action, params)
        np.testing.assert_allclose(out.obs, ours._encode(info["final_observation"]), rtol=1e-5, atol=1e-6)
        assert out.reward == pytest.approx(float(reward))
        assert bool(out.terminated) == bool(terminated)
        if not terminated and ours.spec.truncates:
            assert bool(out.truncated) == bool(truncated)
        if terminated or truncated:
            ends.append((bool(terminated), bool(truncated)))
            _, fresh_obs = reset(reset_key)
            np.testing.assert_allclose(fresh_obs, ours._encode(obs), rtol=1e-5, atol=1e-6)
    assert ends
    if name == "DeepSea-bsuite":  # never taken for a truncation although the limit of 12 comes after the size of 8
        assert not ours.spec.truncates and ours.spec.max_episode_steps == 8


def run_to_end(env, steps):
    state, timestep = jax.jit(env.reset)(jax.random.key(0))
    step = jax.jit(env.step)
    for _ in range(steps):
        state, timestep = step(state, jnp.zeros((env.num_envs, 1), jnp.int32))
    return timestep


def test_whose_clock_is_seen_terminates_and_whose_is_not_truncates():
    seen = run_to_end(make("DiscountingChain-bsuite", 1, max_steps_in_episode=3), 3)
    assert seen.terminated[0] and not seen.truncated[0] and seen.final_obs is None
    unseen = run_to_end(make("MountainCar-v0", 1, max_steps_in_episode=3), 3)
    assert unseen.truncated[0] and not unseen.terminated[0]
    assert not np.array_equal(unseen.final_obs, unseen.obs)


def test_deep_sea_ends_as_a_termination_although_gymnax_flags_both():
    last = run_to_end(make("DeepSea-bsuite", 2, size=3), 3)
    assert last.terminated.all() and not last.truncated.any()


def test_a_limit_below_the_natural_length_truncates():
    spec = make("Catch-bsuite", 1, max_steps_in_episode=4).spec
    assert spec.truncates and spec.max_episode_steps == 4
    spec = make("Catch-bsuite", 1, rows=4).spec
    assert not spec.truncates and spec.max_episode_steps == 3 and spec.obs_shape == (4, 5)


def test_options_go_where_they_belong():
    env = GymnaxEnv("MemoryChain-bsuite", num_bits=3, memory_length=4)
    assert env.spec.obs_shape == (5,) and env.spec.max_episode_steps == 5
    assert GymnaxEnv("CartPole-v1", max_steps_in_episode=20.0, gravity=10).params.gravity == 10.0
    maps = [GymnaxEnv("DeepSea-bsuite", size=5, action_mapping_key=key).env.action_mapping for key in (1, 2)]
    assert (maps[0] != maps[1]).any()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("CartPole-v1", {"foo": 1}, "CartPole-v1 has no option 'foo'; its options are force_mag, gravity"),
        ("Catch-bsuite", {"foo": 1}, "its options are columns, max_steps_in_episode, rows"),
        ("CartPole-v1", {"max_steps_in_episode": "many"}, "max_steps_in_episode must be an integer, not 'many'"),
        ("CartPole-v1", {"max_steps_in_episode": 2.5}, "max_steps_in_episode must be an integer, not 2.5"),
        ("CartPole-v1", {"max_steps_in_episode": 0}, "max_steps_in_episode must be at least 1, not 0"),
        ("CartPole-v1", {"gravity": float("nan")}, "gravity must be a number, not nan"),
        ("DeepSea-bsuite", {"deterministic": "no"}, "deterministic must be true or false, not 'no'"),
        ("FrozenLake-misc", {"map_name": "9x9"}, "FrozenLake-misc cannot be built with map_name='9x9': map_name must"),
        ("MetaMaze-misc", {"maze_size": 4}, "MetaMaze-misc cannot be built with maze_size=4: gymnax refuses"),
        ("DiscountingChain-bsuite", {"reward_timestep": [1, 2]}, r"reward_timestep must have the shape \(5,\)"),
    ],
)
def test_bad_options_get_a_sentence(name, options, sentence):
    with pytest.raises(EnvError, match=sentence):
        make(name, 2, **options)


def test_what_the_user_registers_with_gymnax_works():
    if "Mine-v0" not in gymnax.registered_envs:
        gymnax.register("Mine-v0", lambda rows=6: gymnax.environments.Catch(rows=rows))
    env = make("Mine-v0", 2, rows=5)
    assert env.spec.obs_shape == (5, 5) and env.spec.obs_dtype == np.float32
    assert env.spec.truncates  # nothing is known of its natural length


IMPORTS = """
import sys
from pqn.envs.adapters.gymnax import import_gymnax
gymnax = import_gymnax()
heavy = [name for name in sys.modules if name.partition('.')[0] in ('matplotlib', 'seaborn', 'pandas', 'scipy')]
assert not heavy, heavy
import matplotlib
matplotlib.use('Agg')
env, params = gymnax.make('Catch-bsuite')
import jax
obs, state = env.reset(jax.random.key(0), params)
figure, axes = env.render(state, params)          # through the deferred pyplot, which is now the real one
from gymnax.environments.misc import pong
assert pong.sns.color_palette('cubehelix', 3) and pong.colors.ListedColormap
import gymnax.visualize, matplotlib.pyplot, seaborn
assert matplotlib.pyplot.figure and type(matplotlib.pyplot).__name__ == 'module'
"""


def test_plotting_libraries_load_only_when_used():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, timeout=120)


def test_observe_hides_the_rest_of_the_observation():
    full, masked = GymnaxEnv("CartPole-v1"), GymnaxEnv("CartPole-v1", observe=[0, 2])
    assert masked.spec.obs_shape == (2,)
    key = jax.random.key(0)
    np.testing.assert_array_equal(masked.reset(key)[1], full.reset(key)[1][jnp.array([0, 2])])
    state, _ = full.reset(key)
    seen, whole = (env.step(key, state, jnp.int32(1)).obs for env in (masked, full))
    np.testing.assert_array_equal(seen, whole[jnp.array([0, 2])])


@pytest.mark.parametrize("observe", [[4], [], "02", [0.5], 3])
def test_observe_wants_indices(observe):
    with pytest.raises(EnvError, match="observe must list indices from 0 to 3"):
        GymnaxEnv("CartPole-v1", observe=observe)


def test_observe_wants_a_flat_observation():
    with pytest.raises(EnvError, match="observe picks numbers of a flat observation"):
        GymnaxEnv("Breakout-MinAtar", observe=[0])
