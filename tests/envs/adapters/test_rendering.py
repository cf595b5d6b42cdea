"""Simulators that draw themselves: Atari's second set of emulators, Gymnasium's render mode."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from pqn.envs import registry
from pqn.envs.source import given
from pqn.errors import EnvError


def test_ataris_colours_are_of_the_same_game():
    """The grey pictures that the agent gets are those of the coloured ones, also across a time limit."""
    env = registry.make("atari:breakout", 2, max_frames=120)
    with pytest.raises(EnvError, match="only after prepare_render"):
        env.render()
    env.prepare_render()
    generator = np.random.default_rng(0)
    try:
        step = env.reset(np.array([3, 4]))
        limits = 0
        for _ in range(40):
            grey = env.render().astype(float) @ [0.299, 0.587, 0.114]
            rows, columns = np.arange(84) * 210 // 84, np.arange(84) * 160 // 84
            for seen, drawn in zip(step.obs[:, 0, -1], grey[:, rows][:, :, columns], strict=True):
                assert np.corrcoef(seen.ravel(), drawn.ravel())[0, 1] > 0.9
            env.send(generator.integers(0, 4, (2, 1)))
            step = env.recv()
            limits += int(step.truncated.any())
        assert limits and env.render().shape == (2, 210, 160, 3)
        assert not np.array_equal(*env.render())  # two games
    finally:
        env.close()


def test_gymnasium_draws_where_it_can():
    env = registry.make("gymnasium:CartPole-v1", 2)
    env.prepare_render()
    try:
        env.reset(np.array([1, 2]))
        before = env.render()
        assert before.shape == (2, 400, 600, 3) and before.dtype == np.uint8
        for _ in range(4):
            env.send(np.array([[1], [0]]))
            env.recv()
        assert not np.array_equal(env.render()[0], before[0])
    finally:
        env.close()
    plain = registry.make("gymnasium:CartPole-v1", 1)
    try:
        plain.reset(np.array([1]))
        with pytest.raises(EnvError, match="gymnasium:CartPole-v1 has no pictures: it has no render mode rgb_array"):
            plain.render()
    finally:
        plain.close()


class Unseen(gymnasium.Env):
    """One that leaves `render` as Gymnasium has it: not implemented."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, 0.0, True, False, {}


@pytest.mark.parametrize("given_env", [Unseen(), Unseen], ids=["object", "class"])
def test_an_environment_of_the_user_without_pictures(given_env):
    env = given(given_env, {})(1)
    env.prepare_render()
    try:
        env.reset(np.array([1]))
        with pytest.raises(EnvError, match="Unseen has no pictures: it has no render mode rgb_array"):
            env.render()
    finally:
        env.close()
