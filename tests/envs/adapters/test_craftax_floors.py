"""Craftax on two floors is Craftax: step for step, under the same keys, beside the package itself."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.envs.adapters.craftax import CraftaxEnv
from pqn.envs.adapters.craftax_floors import TwoFloors, stored
from tests.envs.adapters.test_craftax import HURRY, needs_craftax

pytestmark = needs_craftax
LADDERS_EVERY = 8  # steps after which all players are put onto ladders, or they would hardly find one
FLOORS = 9


def begin(env, num_envs, key):
    """Players on all floors, who own everything, with open ladders, and plants that ripen at home before long."""
    worlds = importlib.import_module("craftax.craftax.world_gen.world_gen")
    state = jax.vmap(lambda key: env.reset_env(key, env.default_params)[1])(jax.random.split(key, num_envs))
    level = jnp.arange(num_envs) % FLOORS
    full = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), worlds.get_new_full_inventory())
    plants = jnp.arange(state.growing_plants_age.shape[1])
    return state.replace(
        player_level=level,
        player_position=jnp.where((level > 0)[:, None], state.up_ladders[jnp.arange(num_envs), level], 24),
        monsters_killed=jnp.full_like(state.monsters_killed, 20),
        player_strength=jnp.full_like(state.player_strength, 5),
        learned_spells=jnp.ones_like(state.learned_spells),
        inventory=full,
        growing_plants_age=jnp.broadcast_to(600 - 5 * plants, state.growing_plants_age.shape),
        growing_plants_mask=jnp.broadcast_to(plants < 8, state.growing_plants_mask.shape),
        growing_plants_positions=jnp.broadcast_to(plants[:, None] + 10, state.growing_plants_positions.shape),
    )


def played(step, state, key, steps):
    """All that `steps` random steps show, and the last state; what is large as its sum."""

    def one(state, at):
        time, key = at
        act, move, luck = jax.random.split(key, 3)
        num_envs = len(state.timestep)
        rows, level = jnp.arange(num_envs), state.player_level
        ladder = jnp.where(
            jax.random.bernoulli(luck, 0.5, (num_envs, 1)),
            state.down_ladders[rows, level],
            state.up_ladders[rows, level],
        )
        place = jnp.where(time % LADDERS_EVERY == 0, ladder, state.player_position)
        # Every second action on a ladder climbs.
        climb = (time % LADDERS_EVERY == 0) & (rows % 2 == 0)
        action = jnp.where(
            climb,
            jax.random.randint(act, (num_envs,), 18, 20),
            jax.random.randint(act, (num_envs,), 0, 43),
        )
        keys = jax.random.split(move, num_envs)
        obs, after, reward, done, info = jax.vmap(step)(keys, state.replace(player_position=place), action)
        weights = jnp.cos(jnp.arange(obs.shape[-1], dtype=jnp.float32))  # tells observations apart, order included
        seen = {"obs": obs @ weights, "ones": jnp.sum(obs != 0, axis=-1), "reward": reward, "done": done}
        places = {"level": after.player_level, "achievements": after.achievements, "ripe": ripe(after)}
        return after, seen | places | {"info": jnp.stack(list(info.values()))}

    return jax.lax.scan(one, state, (jnp.arange(steps), jax.random.split(key, steps)))


def ripe(state):
    """Ripe plants on the ground floor of each environment."""
    constants = importlib.import_module("craftax.craftax.constants")
    return jnp.sum(state.map[:, 0] == constants.BlockType.RIPE_PLANT.value, axis=(1, 2))


@pytest.fixture(scope="module")
def package():
    return CraftaxEnv("Craftax-Symbolic-v1")


@pytest.mark.parametrize(
    ("num_envs", "steps"), [(18, 50), pytest.param(288, 400, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_every_step_is_that_of_the_package(package, num_envs, steps):
    """The longer one: 115 200 steps, floors changed in both directions on all floors, torches lit, plants ripened."""
    env, params = package.env, package.params
    two = TwoFloors(env, params)
    start = jax.jit(lambda key: begin(env, num_envs, key), compiler_options=HURRY)(jax.random.key(0))
    options = HURRY if steps < 100 else None
    key = jax.random.key(1)

    def whole(state):
        return played(lambda key, state, action: env.step_env(key, state, action, params), state, key, steps)

    ours = jax.jit(lambda state: played(two.step, state, key, steps), compiler_options=options)
    last, shown = jax.device_get(jax.jit(whole, compiler_options=options)(start))
    our_last, our_shown = jax.device_get(ours(stored(start)))
    jax.tree.map(np.testing.assert_array_equal, our_shown, shown)
    for (path, theirs), mine in zip(jax.tree_util.tree_leaves_with_path(last), jax.tree.leaves(our_last), strict=True):
        name = jax.tree_util.keystr(path)
        if jax.dtypes.issubdtype(theirs.dtype, jax.dtypes.prng_key):
            theirs, mine = jax.random.key_data(theirs), jax.random.key_data(mine)
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
        assert mine.dtype == (np.uint8 if name in (".map", ".item_map") else theirs.dtype), name

    change = np.diff(shown["level"], axis=0)
    before = shown["level"][:-1]
    assert (change == 1).any() and (change == -1).any()
    if steps > 100:  # nothing leads up from the floor of the boss
        assert set(before[change == 1]) == set(range(8)) and set(before[change == -1]) == set(range(1, 8))
    assert (last.light_map != start.light_map).any()
    away = shown["level"] > 0
    assert (np.diff(shown["ripe"], axis=0)[away[1:]] > 0).any()  # while nobody was there to see it
    assert (shown["reward"] > 0).any() and shown["done"].any()


def test_with_god_mode_a_step_down_is_one_floor(package):
    """A god climbs without a ladder: if craftax's own step changed the floor once more, it would be two floors."""
    env, params = package.env, package.params.replace(god_mode=True)
    two = TwoFloors(env, params)
    start = jax.jit(lambda key: begin(env, 18, key), compiler_options=HURRY)(jax.random.key(0))
    climb = jnp.repeat(jnp.array([18, 19]), 9)  # down, up

    def levels(state):
        return jax.vmap(lambda state, action: two.step(jax.random.key(0), state, action).state.player_level)(
            state, climb
        )

    after = jax.jit(levels, compiler_options=HURRY)(stored(start))
    np.testing.assert_array_equal(after[:9], [1, 2, 3, 4, 5, 6, 7, 8, 8])
    np.testing.assert_array_equal(after[9:], [0, 0, 1, 2, 3, 4, 5, 6, 7])
