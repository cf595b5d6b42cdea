"""How episodes start: each by a draw of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.envs import make
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.probe import Counter
from pqn.types import EnvSpec


def test_environments_that_restart_together_part():
    env = Autoreset(Counter(longest=1, markers=100_000), 8)
    state, _ = env.reset(jax.random.key(0))
    _, timestep = jax.jit(env.step)(state, jnp.zeros((8, 1), jnp.int32))
    assert timestep.first.all() and len(np.unique(timestep.obs[:, 0, 0])) == 8


class Dice:
    """Pays what it rolls."""

    spec = EnvSpec("dice", (1,), np.dtype("float32"), num_actions=2)

    def reset(self, key):
        return jnp.int32(0), jax.random.uniform(key, (1,))

    def step(self, key, state, action):
        roll = jax.random.uniform(key)
        return Outcome(state, roll[None], roll, roll < 0.2)


def test_every_step_draws_anew():
    env = Autoreset(Dice(), 4)
    state, timestep = env.reset(jax.random.key(0))
    step, rolls, starts = jax.jit(env.step), [], [timestep.obs]
    for _ in range(10):
        state, timestep = step(state, jnp.zeros((4, 1), jnp.int32))
        rolls.append(timestep.reward)
        starts.append(timestep.obs[timestep.first])
    assert len(np.unique(rolls)) == 40  # no environment at no step repeats another
    starts = np.concatenate([np.ravel(x) for x in starts])
    assert len(starts) > 5 and len(np.unique(starts)) == len(starts)


def test_hanabi_deals_the_deck_of_the_rules():
    """Of each of five colours three ones, two of each of 2, 3 and 4, and a single five."""
    pytest.importorskip("jaxmarl", reason="needs pip install -e '.[marl]'")
    env = make("hanabi:2", 1).env
    state, _ = env.reset(jax.random.key(0))
    cards = np.asarray(state.deck).sum(axis=0) + np.asarray(state.player_hands).sum(axis=(0, 1))  # [colours, ranks]
    np.testing.assert_array_equal(cards, np.tile([3, 2, 2, 2, 1], (5, 1)))


@pytest.mark.parametrize("noop_max", [0, 30])
def test_atari_games_start_at_random_frames_unless_told_not_to(noop_max):
    pytest.importorskip("ale_py", reason="needs pip install -e '.[atari]'")
    env = make("atari:pong", 4, noop_max=noop_max)
    env.reset(np.arange(4))
    for _ in range(25):
        env.send(np.zeros((4, 1), np.int32))
        timestep = env.recv()
    same = [np.array_equal(timestep.obs[0], timestep.obs[i]) for i in range(1, 4)]
    env.close()
    assert all(same) if noop_max == 0 else not all(same)
