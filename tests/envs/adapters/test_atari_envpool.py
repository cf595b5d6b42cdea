"""The optional EnvPool backend: which steps are transitions, and whose score is reported when."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("envpool", reason="needs pip install envpool")

from pqn.envs import make
from pqn.errors import EnvError

FIELDS = ("reward", "terminated", "truncated", "ended", "valid")


def play(steps: int, num_envs: int = 4, idle: bool = False, **given):
    env = make("atari:breakout", num_envs, backend="envpool", **given)
    rng = np.random.default_rng(7)
    timesteps = [env.reset(np.arange(num_envs))]
    for _ in range(steps):
        env.send((rng.integers(0, env.spec.num_actions, (num_envs, 1)) * (not idle)).astype(np.int32))
        timesteps.append(env.recv())
    env.close()
    stacked = {name: np.stack([getattr(step, name) for step in timesteps]) for name in FIELDS}
    return env, timesteps, stacked | {"score": np.stack([step.info["return"] for step in timesteps])}


def test_the_step_after_an_end_is_no_transition():
    env, timesteps, seen = play(500, clip_rewards=False)
    assert env.spec.obs_shape == (4, 84, 84) and timesteps[0].obs.shape == (4, 1, 4, 84, 84)
    over = seen["terminated"] | seen["truncated"]
    np.testing.assert_array_equal(seen["valid"][1:], ~over[:-1])
    assert seen["reward"][~seen["valid"]].max(initial=0) == 0 and not (over & ~seen["valid"]).any()
    first = np.stack([step.first[:, 0] for step in timesteps])
    np.testing.assert_array_equal(first[1:], ~seen["valid"][1:])
    assert first[0].all() and seen["valid"][0].all()


def test_a_game_has_five_lives_and_one_score():
    _, _, seen = play(600, clip_rewards=False)
    for i in range(4):
        ends = np.flatnonzero(seen["ended"][:, i])
        assert len(ends) >= 1
        assert seen["terminated"][: ends[-1] + 1, i].sum() == 5 * len(ends)
        assert seen["score"][ends[0], i] == seen["reward"][: ends[0] + 1, i].sum()
        assert seen["score"][ends[0] + 1, i] == 0


def test_fire_is_pressed_after_a_lost_life():
    assert play(250, idle=True)[2]["ended"].any()
    assert not play(250, idle=True, fire_reset=False)[2]["terminated"].any()


def test_truncation_and_seeds():
    _, timesteps, seen = play(100, max_frames=80)
    assert seen["truncated"].sum() >= 8 and (seen["ended"] >= seen["truncated"]).all()
    again = play(100, max_frames=80)[1]
    assert all((a.obs == b.obs).all() for a, b in zip(timesteps, again, strict=True))


def test_what_envpool_cannot_do_gets_a_sentence():
    with pytest.raises(EnvError, match="max_pool must be true and max_frames a multiple of frame_skip"):
        make("atari:pong", 1, backend="envpool", max_pool=False)
