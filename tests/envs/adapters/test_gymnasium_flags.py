"""Gymnasium's environments keep a log of what they did; what the adapter says must be that, in every mode."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pqn.envs import registry

N, STEPS = 5, 60


class Logged(gymnasium.Env):
    """Ends by its task, by a limit, or by both at once; every observation is another number."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3, start=5)
    made: ClassVar[list] = []

    def __init__(self):
        self.log = []
        Logged.made.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.length, self.end = 0, int(self.np_random.integers(1, 5)), int(self.np_random.integers(3))
        return self._note("reset", None, 0.0, False, False), {}

    def step(self, action):
        self.t += 1
        over = self.t == self.length
        terminated, truncated = over and self.end != 1, over and self.end != 0
        reward = float(self.np_random.normal())
        return self._note("step", int(action), reward, terminated, truncated), reward, terminated, truncated, {}

    def _note(self, what, action, reward, terminated, truncated):
        obs = self.np_random.normal(size=2).astype(np.float32)
        self.log.append((what, action, obs, np.float32(reward), terminated, truncated))
        return obs


gymnasium.register("pqn-tests/Logged-v0", entry_point=Logged)


def started(mode: str):
    """A vector environment, its first observations, and the logs of its environments."""
    Logged.made.clear()
    env = registry.make("gymnasium:pqn-tests/Logged-v0", N, autoreset_mode=mode)
    first = env.reset(np.arange(100, 100 + N)).obs.copy()  # the array is the simulator's own
    logs = [one.log for one in Logged.made if one.log]
    assert len(logs) == N
    return env, first, logs


def expected(log: list, mode: str) -> list[dict]:
    """The time steps that follow from a log; `final_obs` matters where `truncated`."""
    out, i = [], 1
    while i < len(log):
        what, action, obs, reward, terminated, truncated = log[i]
        over = terminated or truncated
        step = {"reward": reward, "terminated": terminated, "truncated": truncated and not terminated}
        if what == "reset":  # in a step of its own, which is no transition
            out.append({"obs": obs, "first": True, "valid": False, "action": None, "final": obs} | step)
        elif over and mode != "next_step":
            if i + 1 == len(log):
                break
            out.append({"obs": log[i + 1][2], "first": True, "valid": True, "action": action, "final": obs} | step)
            i += 1
        else:
            out.append({"obs": obs, "first": False, "valid": True, "action": action, "final": obs} | step)
        i += 1
    return out


@pytest.mark.parametrize("mode", ["same_step", "disabled", "next_step"])
def test_flags_and_final_observations_are_the_environments_own(mode):
    env, first, logs = started(mode)
    actions = np.random.default_rng(0).integers(0, 3, (STEPS, N, 1)).astype(np.int32)
    steps = []
    for action in actions:
        env.send(action)
        now = env.recv()
        steps.append(type(now)(*(np.copy(x) if isinstance(x, np.ndarray) else x for x in now)))
    env.close()
    kinds = set()
    for i, log in enumerate(logs):
        np.testing.assert_array_equal(first[i, 0], log[0][2])
        wanted = expected(log, mode)
        assert len(wanted) == STEPS
        for t, (now, want) in enumerate(zip(steps, wanted, strict=True)):
            np.testing.assert_array_equal(now.obs[i, 0], want["obs"])
            assert now.reward[i] == want["reward"] and now.first[i, 0] == want["first"]
            assert (now.terminated[i], now.truncated[i]) == (want["terminated"], want["truncated"])
            assert (now.valid is None or now.valid[i]) == want["valid"]
            if want["truncated"]:
                np.testing.assert_array_equal(now.final_obs[i, 0], want["final"])
            if want["action"] is not None:
                assert want["action"] == actions[t, i, 0] + 5
            kinds.add((want["terminated"], want["truncated"]))
    assert kinds == {(False, False), (True, False), (False, True)}


def test_every_environment_has_its_own_seed():
    """And depends on nothing else: not on its place among the others."""
    env, start, _ = started("same_step")
    assert len(np.unique(start[:, 0, 0])) == N
    again = env.reset(np.arange(100, 100 + N)[::-1])
    np.testing.assert_array_equal(again.obs, start[::-1])
    env.close()
