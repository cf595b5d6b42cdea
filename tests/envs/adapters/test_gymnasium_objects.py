"""Environments of Gymnasium as a user hands them over: objects, vector environments, functions and ids."""

from __future__ import annotations

import json
import threading

import gymnasium
import numpy as np
import pytest
from conftest import tiny
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from opening import Listening

import pqn
from pqn.envs.check import is_ours
from pqn.envs.source import given
from pqn.errors import EnvError
from pqn.progress import Progress

QUIET = Progress(quiet=True)
SHORT = {"save.checkpoints": 1, "eval.count": 1, "log.rows": 1, "total_steps": 128, "simulators.greedy_envs": 0}


class Countdown(gymnasium.Env):
    """`length` steps that pay `pay` each; what is observed are the steps that are left."""

    observation_space = gymnasium.spaces.Box(0.0, 99.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 3, pay: float = 2.0):
        self.length, self.pay, self.left = length, pay, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.length
        return self._seen(), {}

    def step(self, action):
        self.left -= 1
        return self._seen(), self.pay, self.left == 0, False, {}

    def _seen(self):
        return np.array([self.left], np.float32)


class Handle(Countdown):
    """Holds what cannot be copied."""

    def __init__(self, **options):
        super().__init__(**options)
        self.lock = threading.Lock()


gymnasium.register("Handle-v0", Handle, max_episode_steps=10)
gymnasium.register("Countdown-v0", Countdown, max_episode_steps=10)


def rewards(env: object, num_envs: int = 2, steps: int = 3, **kwargs: object) -> np.ndarray:
    """Rewards [T, N] of the first steps of environments made of `env`."""
    made = given(env, kwargs)(num_envs)
    assert made.num_envs == num_envs and not is_ours(made)
    try:
        first = made.reset(np.arange(num_envs))
        assert first.obs.shape == (num_envs, 1, 1) and np.all(first.obs == 3)
        found = []
        for _ in range(steps):
            made.send(np.zeros((num_envs, 1), np.int32))
            found.append(np.array(made.recv().reward))
        return np.array(found)
    finally:
        made.close()


def changed() -> Countdown:
    env = Countdown()
    env.pay = 5.0
    return env


@pytest.mark.parametrize(
    ("env", "kwargs", "pay"),
    [
        (Countdown(), {}, 2),
        (changed(), {}, 5),  # what was done to it is copied
        (gymnasium.wrappers.TransformReward(Countdown(), lambda reward: 3 * reward), {}, 6),  # and so are wrappers
        (Countdown, {"pay": 4.0}, 4),
        (lambda: Countdown(pay=7.0), {}, 7),
        (lambda pay=1.0: Countdown(pay=pay), {"pay": 8.0}, 8),
        (lambda num_envs: Countdown(), {}, 2),
        (lambda n: gymnasium.vector.SyncVectorEnv([changed] * n), {}, 5),
        (gymnasium.vector.SyncVectorEnv([Countdown]), {}, 2),
        (gymnasium.vector.SyncVectorEnv([Countdown, changed]), {}, [2, 5]),
        (gymnasium.make_vec("Countdown-v0", 3, vectorization_mode="sync", pay=9.0), {}, 9),
    ],
)
def test_all_become_as_many_as_are_needed(env, kwargs, pay):
    np.testing.assert_array_equal(rewards(env, **kwargs), np.broadcast_to(pay, (3, 2)))


def test_processes_of_a_vector_environment():
    functions = gymnasium.vector.AsyncVectorEnv([Countdown], context="forkserver")
    options = {"context": "forkserver"}
    named = gymnasium.make_vec("Countdown-v0", 1, vectorization_mode="async", vector_kwargs=options, pay=6.0)
    try:
        np.testing.assert_array_equal(rewards(functions, 1), np.full((3, 1), 2.0))
        assert given(functions, {})(1).concurrent
        np.testing.assert_array_equal(rewards(named, 1), np.full((3, 1), 6.0))
    finally:
        functions.close()
        named.close()


def test_the_object_itself_is_not_stepped():
    env = Countdown()
    rewards(env)
    assert env.left == -1


def test_one_that_cannot_be_copied_is_made_again():
    with pytest.warns(UserWarning, match="Handle-v0 cannot be copied, so gymnasium.make makes more of it"):
        assert np.all(rewards(gymnasium.make("Handle-v0", pay=3.0)) == 3.0)
    with pytest.raises(EnvError, match=r"Handle can neither be copied \(TypeError: .*\) nor made again .*; give a"):
        rewards(Handle())


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (RecordEpisodeStatistics(gymnasium.vector.SyncVectorEnv([Countdown])), "is wrapped in RecordEpisodeStatistics"),
        (lambda: gymnasium.vector.SyncVectorEnv([Countdown]), "of 1 where 2 were asked for; take their number as num_"),
        (gymnasium.make("Pendulum-v1"), "Pendulum-v1 has continuous actions"),
        ("Countdown-v7", "There is no environment 'Countdown-v7'"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(env, sentence):
    with pytest.raises(EnvError, match=sentence):
        given(env, {})(2)


def test_an_id_is_of_gymnasium_if_nothing_else_has_it():
    assert given("Taxi-v4", {}).name == "gymnasium:Taxi-v4" and given("Taxi-v4", {}).kind == "registered"
    assert given("LunarLander-v3", {}).name == "gymnasium:LunarLander-v3"
    assert given("CartPole-v1", {}).name == "CartPole-v1"  # written in JAX


def test_a_check_takes_it_too():
    report = pqn.check_env(Countdown(), steps=20)
    assert report.num_envs == 4 and set(report.lengths) == {3}


def test_a_run_in_one(tmp_path):
    """Trained, recorded, played and resumed; another one that it fits is said."""
    result = pqn.train(tiny(SHORT), env=Countdown(), out=tmp_path / "run", progress=QUIET)
    about = json.loads((result.run / "environment.json").read_text())["env"]
    assert about["kind"] == "python" and about["name"] == "python:test_gymnasium_objects.Countdown"
    assert about["made"] == "test_gymnasium_objects.Countdown" and about["spec"]["name"] == "Countdown"
    assert result.summary["eval_return"]["mean"] == 6.0
    with pytest.raises(EnvError, match="given in Python"):
        pqn.evaluate(result.run, 2)
    assert pqn.evaluate(result.run, 2, env=changed())["returns"].tolist() == [[15.0, 15.0]]
    agent = result.agent()
    report = pqn.evaluate(agent, 2, env=Countdown)
    assert report["returns"].tolist() == [[6.0, 6.0]] and report["seeds"] == [0] and report["step"] == 128
    with pytest.raises(EnvError, match="is not an environment for this agent: its observation shape"):
        pqn.evaluate(agent, 2, env="CartPole-v1")
    with pytest.raises(EnvError, match="given in Python"):
        pqn.evaluate(agent, 2)
    assert pqn.resume(result.run, env=Countdown(), progress=Listening()).summary["steps"] == 128


class Broken(Countdown):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return (obs * np.nan, reward, *rest)


def test_promises_are_checked_before_anything_is_written(tmp_path):
    with pytest.raises(EnvError, match="NaN"):
        pqn.train(tiny(SHORT), env=Broken(), out=tmp_path / "run", progress=QUIET)
    assert not (tmp_path / "run").exists()


class Seedless(Countdown):
    def reset(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().reset()


class OldReset(Countdown):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OldStep(Countdown):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class Wide(Countdown):
    def _seen(self):
        return np.zeros(2, np.float32)


class Boxed(Countdown):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, np.array([reward]), *rest


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (Seedless, r"^`reset` of Seedless must take seed and options"),
        (OldReset, r"^`reset` of OldReset must return two things, the observation and a dict; so it is since Gym 0.26"),
        (OldStep, r"^`step` of OldStep must return five things"),
        (Wide, r"^an observation of `reset` of Wide has shape \(2,\), but its space says \(1,\)"),
        (Boxed, r"^the reward of Boxed has shape \(1,\); it must be one number"),
    ],
)
def test_rules_of_gymnasium_are_named(env, sentence):
    """What Gymnasium's vector environments raise names neither the method nor the rule."""
    for handed in (env, env(), gymnasium.wrappers.TimeLimit(env(), 5)):
        with pytest.raises(EnvError, match=sentence):
            pqn.check_env(handed, steps=3)


class Impatient(Countdown):
    """Cuts its episodes itself, before the limit with which it is registered."""

    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, False, terminated, info

    def _seen(self):
        return np.array([self.left + 1], np.float32)


def test_an_environment_may_cut_before_its_limit(tmp_path):
    """Gymnasium does not promise the opposite, and simulators do not need it."""
    gymnasium.register("Impatient-v0", Impatient, max_episode_steps=10)
    assert pqn.check_env("Impatient-v0", steps=12).truncations > 0
    result = pqn.train(tiny(SHORT), env="Impatient-v0", out=tmp_path / "run", progress=QUIET)
    assert result.summary["eval_return"]["mean"] == 6.0


def test_a_limit_that_is_not_applied_is_none():
    """An environment that was taken out of its wrappers still has the spec that names the limit."""
    env = gymnasium.make("Countdown-v0", length=20)
    assert given(env, {})(1).spec.max_episode_steps == 10
    assert given(env.unwrapped, {})(1).spec.max_episode_steps is None
    assert max(pqn.check_env(env.unwrapped, steps=25).lengths) == 20


def test_an_observation_outside_of_its_space_is_no_state():
    class Outside(Countdown):
        observation_space = gymnasium.spaces.Discrete(2, start=2)  # it counts down from 3

        def _seen(self):
            return np.int64(self.left)

    with pytest.raises(EnvError, match=r"the observation 1 is not in Discrete\(2, start=2\)"):
        pqn.check_env(Outside, steps=4)
    assert pqn.check_env(lambda: gymnasium.wrappers.TimeLimit(Outside(), 1), steps=4).truncations == 16
