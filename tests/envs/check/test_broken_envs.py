"""Environments that are broken in every way we could think of, given to `pqn.train`: one sentence, and nothing written.

Most of them never get as far as a compilation; the sound ones at the end do, so that the checks are not too strict.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny

import pqn
from pqn.envs.autoreset import Autoreset
from pqn.envs.check import check_quickly, is_ours
from pqn.envs.contract import Outcome
from pqn.errors import EnvError
from pqn.play import evaluate_run
from pqn.progress import Progress
from pqn.types import EnvSpec, TimeStep

N = 8  # environments of `tiny`
SPEC = EnvSpec("walk", (2,), np.dtype(np.float32), 2, max_episode_steps=6, truncates=True)


class Walk:
    """Sound: a walk on a line; what is broken is replaced."""

    spec = SPEC

    def reset(self, key):
        state = (jax.random.randint(key, (), 3, 90), jnp.int32(0))
        return state, self.observe(state)

    def step(self, key, state, action):
        state = (state[0] + 2 * action - 1, state[1] + 1)
        return Outcome(state, self.observe(state), state[0] / 10, state[0] <= 0, info={"position": state[0]})

    def observe(self, state):
        return jnp.stack([state[0], state[1]]).astype(jnp.float32)


def walk(**parts):
    """A walk with other attributes; a function replaces a method, None removes it."""
    broken = type("Broken", (Walk,), {name: part for name, part in parts.items() if part is not None})()
    if any(part is None for part in parts.values()):
        kept = {name: getattr(broken, name) for name in ("spec", "reset", "step") if parts.get(name, 0) is not None}
        return type("Partial", (), {"__init__": lambda self: self.__dict__.update(kept)})()
    return broken


def spec(**changes):
    return walk(spec=dataclasses.replace(SPEC, **changes))


def outcome(**fields):
    """A walk whose outcomes have other fields: functions of the sound outcome."""

    def step(self, key, state, action):
        out = Walk.step(self, key, state, action)
        return out._replace(**{name: value(out) for name, value in fields.items()})

    return walk(step=step)


def raising(error):
    def method(self, *args):
        raise error

    return method


def python_branch(self, key, state, action):
    return Walk.step(self, key, state, action) if action > 0 else Walk.step(self, key, state, 1 - action)


def leaking(self, key, state, action):
    out = Walk.step(self, key, state, action)
    reward = out.reward + getattr(self, "last", 0.0)
    self.last = out.reward  # of a trace that is over by the next one
    return out._replace(reward=reward)


def growing(self, key, state, action):
    out = Walk.step(self, key, state, action)
    return out._replace(state=(*out.state, key))


SINGLE = {
    # what is there at all
    "no spec": (walk(spec=None), "without `spec`"),
    "no reset": (walk(reset=None), "without `reset`"),
    "spec is a dict": (walk(spec={"name": "walk"}), "must be a pqn.types.EnvSpec"),
    "reset is a number": (walk(reset=3), "without `reset`"),
    # what the spec says
    "no name": (spec(name=None), "`spec.name` must be a word"),
    "list for a shape": (spec(obs_shape=[2]), "`spec.obs_shape` must be a tuple"),
    "negative shape": (spec(obs_shape=(-2,)), "`spec.obs_shape` must be a tuple"),
    "complex observations": (spec(obs_dtype=np.dtype(np.complex64)), "must be of real numbers or bool"),
    "unknown dtype": (spec(obs_dtype="float33"), "`spec.obs_dtype` must be a numpy dtype"),
    "doubles": (spec(obs_dtype=np.dtype(np.float64)), "has dtype float32 but spec says float64"),
    "no actions": (spec(num_actions=0), "`num_actions` must be an integer of at least 1, not 0"),
    "actions in floats": (spec(num_actions=2.0), "`num_actions` must be an integer of at least 1, not 2.0"),
    "actions in words": (spec(num_actions="two"), "`num_actions` must be an integer of at least 1"),
    "no agents": (spec(num_agents=0), "`num_agents` must be an integer of at least 1"),
    "negative limit": (spec(max_episode_steps=-5), "`spec.max_episode_steps` must be None or an integer from 1"),
    "limit in words": (spec(max_episode_steps="6"), "`spec.max_episode_steps` must be None or an integer from 1"),
    "limit of no end": (spec(max_episode_steps=10**12), "`spec.max_episode_steps` must be None or an integer from 1"),
    "truncates in words": (spec(truncates="yes"), "`spec.truncates` must be True or False"),
    "negative world": (
        walk(spec=dataclasses.replace(SPEC, world_size=-1), world_state=lambda self, state: jnp.zeros(1)),
        "`spec.world_size` must be an integer of at least 0",
    ),
    # masks, world, agents
    "mask promised": (spec(masked=True), "no method `avail(state)`"),
    "world promised": (spec(world_size=3), "no method `world_state(state)`"),
    "mask of another size": (
        walk(spec=dataclasses.replace(SPEC, masked=True), avail=lambda self, state: jnp.ones(3, bool)),
        "`avail` of `reset` has shape (8, 1, 3) but must have (8, 1, 2)",
    ),
    "nothing is legal": (
        walk(spec=dataclasses.replace(SPEC, masked=True), avail=lambda self, state: jnp.zeros(2, bool)),
        "`avail` leaves an environment without any legal action",
    ),
    "world of another size": (
        walk(spec=dataclasses.replace(SPEC, world_size=3), world_state=lambda self, state: jnp.zeros(2)),
        "`world` of `reset` has shape (8, 2) but must have (8, 3)",
    ),
    "three agents": (spec(num_agents=3), "has shape (2,) but spec says (3, 2)"),
    # what reset and step return
    "reset returns one thing": (walk(reset=lambda self, key: jnp.zeros(2)), "must return (state, observation)"),
    "reset returns None": (walk(reset=lambda self, key: None), "must return (state, observation), not a NoneType"),
    "observation is None": (walk(reset=lambda self, key: (0, None)), "must be an array, not a NoneType"),
    "reset raises": (walk(reset=raising(KeyError("map"))), "`reset` raised KeyError: 'map'"),
    "step raises": (walk(step=raising(RuntimeError("out of luck\nmore"))), "`step` raised RuntimeError: out of luck"),
    "step takes two": (walk(step=lambda self, state, action: None), "`step` raised TypeError"),
    "step returns a tuple": (
        walk(step=lambda self, *args: tuple(Walk.step(self, *args))),
        "`step` must return an Outcome, not a tuple",
    ),
    "observation of another shape": (
        outcome(obs=lambda out: out.obs[:1]),
        "`step` has shape (1,) but spec says",
    ),
    "observation is a list": (outcome(obs=lambda out: [0.0, 1.0]), "must be an array, not a list"),
    "reward per agent": (outcome(reward=lambda out: out.reward[None]), "`reward` of `step` must be one number"),
    "reward is None": (outcome(reward=lambda out: None), "`reward` of `step` must be an array, not a NoneType"),
    "reward is complex": (outcome(reward=lambda out: out.reward + 1j), "must be a real number, not complex64"),
    "info is a list": (outcome(info=lambda out: [1.0]), "`info` of `step` must be a dict"),
    "info is a picture": (outcome(info=lambda out: {"x": out.obs}), "`info['x']` of `step` must be one number"),
    "info is a word": (outcome(info=lambda out: {"x": "won"}), "`step` raised TypeError"),
    "state grows": (walk(step=growing), "step has `state[2]` and reset does not"),
    "state becomes float": (
        outcome(state=lambda out: (out.state[0] * 1.0, out.state[1])),
        "`state[0]` is int32[] and becomes float32[]",
    ),
    # what it does
    "branches in Python": (walk(step=python_branch), "`step` cannot be compiled"),
    "keeps a tracer": (walk(step=leaking), "Encountered an unexpected tracer"),
    "NaN reward": (outcome(reward=lambda out: out.reward * jnp.nan), "`reward` holds a NaN or an infinity"),
    "infinite observation": (outcome(obs=lambda out: out.obs / 0.0), "`obs` holds a NaN or an infinity"),
    "cut at once": (outcome(truncated=lambda out: True), "truncated after 1 steps although spec.max_episode_steps = 6"),
}


class Batched:
    """A sound `JaxEnv`; `on_step` and `on_reset` alter its state and time step."""

    def __init__(self, num_envs, on_step=None, on_reset=None, **attributes):
        self.inner, self.num_envs, self.spec = Autoreset(Walk(), num_envs), num_envs, SPEC
        self.on_step = on_step or (lambda *result: result)
        self.on_reset = on_reset or (lambda *result: result)
        self.__dict__.update(attributes)

    def reset(self, key):
        return self.on_reset(*self.inner.reset(key))

    def step(self, state, action):
        return self.on_step(*self.inner.step(state, action))


def put(**fields):
    return lambda state, step: (state, step._replace(**{name: value(step) for name, value in fields.items()}))


BATCHED = {
    "another number": ({"num_envs": 3}, "has 3 environments where 8 were asked for"),
    "returns three": (
        {"on_step": lambda state, step: (state, step, 0)},
        "(state, TimeStep), not a tuple of 3",
    ),
    "returns a dict": ({"on_reset": lambda state, step: (state, step._asdict())}, "not (state, dict)"),
    "reward is missing": ({"on_step": put(reward=lambda t: None)}, "`reward` of `step` must be an array"),
    "reward in whole numbers": (
        {"on_step": put(reward=lambda t: t.reward.astype(jnp.int32))},
        "`reward` of `step` has dtype int32 but it must be float32",
    ),
    "no axis of agents": ({"on_step": put(obs=lambda t: t.obs[:, 0])}, "`obs` of `step` has shape (8, 2)"),
    "no final observation": ({"on_step": put(final_obs=lambda t: None)}, "`final_obs` of `step` is missing"),
    "other names in info": ({"on_step": put(info=lambda t: {})}, "`info` has the names ['position'] after `reset`"),
    "not at the start": ({"on_reset": put(first=lambda t: ~t.first)}, "`first` is not set after `reset`"),
    "a reward before any step": ({"on_reset": put(reward=lambda t: t.reward + 1)}, "`reward` is not 0 after `reset`"),
    "always first": ({"on_step": put(first=lambda t: t.first | True)}, "`first` is set in the middle of an episode"),
}


class Simulator:
    """A sound `HostEnv`; parts are replaced."""

    spec = EnvSpec("simulator", (2,), np.dtype(np.float32), 2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seeds):
        assert len(seeds) == self.num_envs
        return self.time_step(first=True)

    def send(self, action):
        self.action = action

    def recv(self):
        return self.time_step(first=False)

    def time_step(self, first):
        n, no = self.num_envs, np.zeros(self.num_envs, bool)
        return TimeStep(np.zeros((n, 1, 2), np.float32), np.full((n, 1), first), np.zeros(n, np.float32), no, no)

    def close(self):
        """Nothing to free."""


def received(**fields):
    def recv(self):
        return self.time_step(first=False)._replace(**{name: value(self.num_envs) for name, value in fields.items()})

    return {"recv": recv}


HOST = {
    "no recv": ({"recv": None}, "without `recv`"),
    "raises when made": (
        {"__init__": raising(ValueError("no such map"))},
        "not be made: ValueError: no such map",
    ),
    "raises in reset": ({"reset": raising(OSError("no display"))}, "`reset` raised OSError: no display"),
    "raises in send": ({"send": raising(OSError("no cable"))}, "`send` raised OSError: no cable"),
    "raises in recv": ({"recv": raising(EOFError())}, "`recv` raised EOFError: no message"),
    "raises in close": ({"close": raising(OSError("stuck"))}, "`close` raised OSError: stuck"),
    "wants other seeds": ({"reset": lambda self, seeds: seeds[100]}, "`reset` raised IndexError"),
    "reset returns None": ({"reset": lambda self, seeds: None}, "`reset` must return a TimeStep, not a NoneType"),
    "recv returns None": ({"recv": lambda self: None}, "`recv` must return a TimeStep, not a NoneType"),
    "recv returns a tuple": (
        {"recv": lambda self: tuple(self.time_step(False))},
        "`recv` must return a TimeStep, not a tuple",
    ),
    "reward is a list": (received(reward=lambda n: [0.0] * n), "`reward` of `recv` must be an array, not a list"),
    "reward in doubles": (received(reward=np.zeros), "`reward` of `recv` has dtype float64"),
    "rewards of too few": (received(reward=lambda n: np.zeros(n - 1, np.float32)), "has shape (7,) but must have (8,)"),
    "observation is None": (received(obs=lambda n: None), "`obs` of `recv` must be an array, not a NoneType"),
    "bytes for floats": (
        received(obs=lambda n: np.zeros((n, 1, 2), np.uint8)),
        "`obs` of `recv` has dtype uint8 but spec says float32",
    ),
    "ends in whole numbers": (received(terminated=lambda n: np.zeros(n, int)), "it must be bool"),
    "NaN observation": (received(obs=lambda n: np.full((n, 1, 2), np.nan, np.float32)), "`obs` holds a NaN"),
    "infinite reward": (received(reward=lambda n: np.full(n, np.inf, np.float32)), "`reward` holds a NaN or an inf"),
    "unannounced truncation": (
        received(truncated=lambda n: np.ones(n, bool), first=lambda n: np.ones((n, 1), bool)),
        "`truncated` is raised although spec.truncates is False",
    ),
    "info appears": (received(info=lambda n: {"x": np.zeros(n, np.float32)}), "`info` has the names [] after `reset`"),
    "info of numbers": (received(info=lambda n: {3: np.zeros(n, np.float32)}), "must be a dict from words to numbers"),
    "spec without actions": ({"spec": EnvSpec("x", (2,), np.dtype(np.float32), 0)}, "`num_actions` must be an integer"),
}


def refused(env, tmp_path):
    """The sentence with which `pqn.train` refuses an environment, having left nothing behind."""
    with pytest.raises(EnvError) as caught:
        pqn.train(tiny(), env=env, out=tmp_path / "run", progress=Progress(quiet=True))
    assert not list(tmp_path.iterdir())
    said = str(caught.value)
    assert "\n" not in said and len(said) < 300
    return said


@pytest.mark.parametrize("name", SINGLE)
def test_a_broken_single_environment_is_refused(tmp_path, name):
    env, said = SINGLE[name]
    assert said in refused(lambda num_envs: env, tmp_path)


@pytest.mark.parametrize("name", BATCHED)
def test_a_broken_jax_environment_is_refused(tmp_path, name):
    parts, said = BATCHED[name]
    assert said in refused(lambda num_envs: Batched(**{"num_envs": num_envs} | parts), tmp_path)


@pytest.mark.parametrize("name", HOST)
def test_a_broken_simulator_is_refused(tmp_path, name):
    parts, said = HOST[name]
    kind = type("Broken", (Simulator,), {name: part for name, part in parts.items() if part is not None})
    if None in parts.values():
        kept = {name: value for name, value in vars(Simulator).items() if parts.get(name, 0) is not None}
        kind = type("Partial", (), {name: kept[name] for name in kept if name not in ("__dict__", "__weakref__")})
    assert said in refused(kind, tmp_path)


def test_a_broken_environment_by_name_is_refused_before_it_plays(tmp_path, monkeypatch):
    """From the command line, and by `pqn eval` of a run whose environment has broken since."""
    monkeypatch.chdir(tmp_path)
    source = "import test_broken_envs\ndef make(kind='sound'):\n    return test_broken_envs.BY_NAME[kind]()\n"
    (tmp_path / "my_walk.py").write_text(source)
    config = tiny({"env.name": "my_walk:make", "eval.count": 0}, total_steps=64)
    out = pqn.train(config, out=tmp_path / "run", progress=Progress(quiet=True)).run
    with pytest.raises(EnvError, match="`step` must return an Outcome, not a tuple"):
        pqn.train(config.replace({"env.kwargs": {"kind": "broken"}}), out=tmp_path / "other")
    assert not (tmp_path / "other").exists()
    monkeypatch.setitem(BY_NAME, "sound", BY_NAME["broken"])
    with pytest.raises(EnvError, match="`step` must return an Outcome, not a tuple"):
        evaluate_run(out, 2, env="my_walk:make")
    with pytest.raises(EnvError, match="`step` must return an Outcome, not a tuple"):
        pqn.resume(out, env="my_walk:make")


BY_NAME = {"sound": Walk, "broken": lambda: SINGLE["step returns a tuple"][0]}


@pytest.mark.parametrize("env", [Autoreset(Walk(), 4), Batched(4), Simulator(4)], ids=lambda env: type(env).__name__)
def test_a_sound_environment_passes(env):
    check_quickly(env)
    assert not is_ours(env)


def test_what_comes_with_the_package_is_not_checked_again():
    assert is_ours(pqn.envs.registry.make("CartPole-v1", 2)) and is_ours(pqn.envs.registry.make("probe:masked", 2))


def test_numpy_integers_are_integers():
    check_quickly(Autoreset(spec(num_actions=np.int64(2), obs_shape=(np.int32(2),), max_episode_steps=np.int64(6)), 2))
