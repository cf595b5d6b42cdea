"""Every promise that `check_env` guards is broken here once, and must be named."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.envs import check_env
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.errors import EnvError, PqnError
from pqn.types import EnvSpec

LIMIT = 6


class Walk:
    """A walk on a line that ends at 0 and is cut after six steps; its observation is (position, time + 1)."""

    spec = EnvSpec("walk", (2,), np.dtype(np.float32), 2, max_episode_steps=LIMIT, truncates=True)

    def reset(self, key):
        state = (jax.random.randint(key, (), 3, 90), jnp.int32(0))
        return state, self.observe(state)

    def step(self, key, state, action):
        state = (state[0] + 2 * action - 1, state[1] + 1)
        return Outcome(state, self.observe(state), state[0] / 10, state[0] <= 0, info={"position": state[0]})

    def observe(self, state):
        return jnp.stack([state[0], state[1] + 1]).astype(jnp.float32)

    def avail(self, state):
        return jnp.ones(2, bool)


class Broken:
    """The walk as a `JaxEnv`, with its spec, its first or its later time steps tampered with."""

    def __init__(self, step=None, reset=None, **spec):
        self.inner = Autoreset(Walk(), 3)
        self.num_envs = 3
        self.spec = dataclasses.replace(self.inner.spec, **spec)
        self.on_step = step or (lambda state, timestep: (state, timestep))
        self.on_reset = reset or (lambda state, timestep: (state, timestep))

    def reset(self, key):
        return self.on_reset(*self.inner.reset(key))

    def step(self, state, action):
        return self.on_step(*self.inner.step(state, action))


def put(**fields):
    """A tampering that replaces fields, each by a value or by a function of the time step."""

    def tamper(state, timestep):
        values = {name: value(timestep) if callable(value) else value for name, value in fields.items()}
        return state, timestep._replace(**values)

    return tamper


def both(**fields):
    return {"step": put(**fields), "reset": put(**fields)}


def done(timestep):
    return timestep.terminated | timestep.truncated


ALL_LEGAL, NONE_LEGAL = jnp.ones((3, 1, 2), bool), jnp.zeros((3, 1, 2), bool)
NAN = {"position": jnp.full(3, jnp.nan)}

BROKEN = {
    # shapes, dtypes and presence
    "`obs` of `reset` has dtype float32 but spec says bool": {"obs_dtype": np.dtype(bool)},
    r"`obs` of `step` has shape \(3, 2\) but must have \(3, 1, 2\)": {"step": put(obs=lambda t: t.obs[:, 0])},
    r"`reward` of `step` has shape \(3, 1\) but must have \(3,\)": {"step": put(reward=lambda t: t.reward[:, None])},
    "`reward` of `step` has dtype int32 but it must be float32": {
        "step": put(reward=lambda t: t.reward.astype(jnp.int32))
    },
    "`terminated` of `step` has dtype float32 but it must be bool": {
        "step": put(terminated=lambda t: t.terminated.astype(jnp.float32))
    },
    "`final_obs` of `step` is missing although spec.truncates is True": {"step": put(final_obs=None)},
    "`final_obs` of `reset` is given although spec.truncates is False": {"truncates": False},
    "`avail` of `reset` is missing although spec.masked is True": {"masked": True},
    "`avail` of `step` is given although spec.masked is False": {"step": put(avail=ALL_LEGAL)},
    "`final_avail` of `reset` is missing although spec.masked and spec.truncates": {
        "masked": True,
        **both(avail=ALL_LEGAL),
    },
    r"`info` has the names \['position'\] after `reset` but \[\] after `step`": {"step": put(info={})},
    r"`step` must return \(state, TimeStep\), not a tuple of 3": {"step": lambda s, t: (s, t, 0)},
    r"`reset` must return \(state, TimeStep\), not \(state, dict\)": {"reset": lambda s, t: (s, t._asdict())},
    # the state
    r"the state changes between `reset` and `step`: `state.steps` is int32\[3\] and becomes float32\[3\]": {
        "step": lambda s, t: (s._replace(steps=s.steps * 1.0), t)
    },
    r"the state changes between `reset` and `step`: step has `state.inner\[2\]` and reset does not": {
        "step": lambda s, t: (s._replace(inner=(*s.inner, s.steps)), t)
    },
    "the state changes between `reset` and `step`: its leaves agree but their containers": {
        "step": lambda s, t: (s._replace(inner=list(s.inner)), t)
    },
    # the first time step
    "`first` is not set after `reset`": {"reset": put(first=lambda t: ~t.first)},
    "`terminated` or `truncated` is set after `reset`": {"reset": put(truncated=lambda t: ~t.truncated)},
    "`reward` is not 0 after `reset`": {"reset": put(reward=jnp.ones(3))},
    # ends of episodes
    "`terminated` and `truncated` are both true": {"step": put(terminated=done, truncated=done)},
    "`truncated` is raised although spec.truncates is False": {"truncates": False, **both(final_obs=None)},
    "`first` is not set after an episode ended": {"step": put(first=jnp.zeros((3, 1), bool))},
    "`first` is set in the middle of an episode": {"step": put(first=jnp.ones((3, 1), bool))},
    "an episode is longer than spec.max_episode_steps = 4": {"max_episode_steps": 4},
    "an episode was truncated after 6 steps although spec.max_episode_steps = 9": {"max_episode_steps": 9},
    # numbers and masks
    "`obs` holds a NaN or an infinity": {"step": put(obs=lambda t: t.obs / t.terminated[:, None, None])},
    "`reward` holds a NaN or an infinity": {"step": put(reward=jnp.full(3, jnp.inf))},
    "`final_obs` holds a NaN": {"step": put(final_obs=lambda t: t.final_obs * jnp.nan)},
    r"`info\['position'\]` holds a NaN": {"step": put(info=NAN)},
    "`avail` leaves an environment without any legal action": {
        "masked": True,
        "step": put(avail=NONE_LEGAL, final_avail=ALL_LEGAL),
        "reset": put(avail=ALL_LEGAL, final_avail=ALL_LEGAL),
    },
    "`final_avail` leaves an environment without any legal action at a truncation": {
        "masked": True,
        **both(avail=ALL_LEGAL, final_avail=NONE_LEGAL),
    },
    # the final observation
    "`final_obs` equals the reset observation at a truncation": {"step": put(final_obs=lambda t: t.obs)},
    "`final_obs` is all zeros at a truncation": {"step": put(final_obs=lambda t: 0 * t.final_obs)},
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_promise_is_named(sentence):
    with pytest.raises(EnvError, match=sentence) as caught:
        check_env(Broken(**BROKEN[sentence]), steps=20)
    assert "\n" not in str(caught.value)


def test_the_walk_itself_is_sound():
    for env in (Walk(), Autoreset(Walk(), 2), Broken()):
        report = check_env(env, steps=40)
        assert report.name == "walk" and report.num_envs in (4, 2, 3)
        assert report.episodes == report.terminations + report.truncations == len(report.lengths)
        assert report.truncations > 0 and max(report.lengths) == LIMIT and not report.notes
    assert "every promise kept" in str(report)


def test_final_obs_from_before_the_step():
    class Stale(Broken):
        def reset(self, key):
            state, timestep = self.inner.reset(key)
            return (state, timestep.obs), timestep

        def step(self, state, action):
            after, timestep = self.inner.step(state[0], action)
            return (after, timestep.obs), timestep._replace(final_obs=state[1])

    with pytest.raises(EnvError, match="`final_obs` equals the observation before the step"):
        check_env(Stale(), steps=20)


# ---- compilation, purity, randomness ----


def test_python_control_flow():
    def step(state, timestep):
        if timestep.reward.sum() > 0:
            state = state._replace(steps=state.steps + 1)
        return state, timestep

    with pytest.raises(EnvError, match=r"`step` cannot be compiled: .*bool"):
        check_env(Broken(step=step))


def test_an_error_inside_the_environment():
    def reset(state, timestep):
        raise RuntimeError("out of luck\nand more")

    with pytest.raises(EnvError, match=r"`reset` raised RuntimeError: out of luck$"):
        check_env(Broken(reset=reset))


def test_hidden_state():
    calls = []

    def step(state, timestep):
        calls.append(1)  # grows with every trace, as a counter kept on `self` would
        return state, timestep._replace(reward=timestep.reward + len(calls))

    with pytest.raises(EnvError, match="`step` is not pure: traced again"):
        check_env(Broken(step=step), steps=5)


def test_randomness_from_outside():
    generator = np.random.default_rng(0)

    def draw(reward):
        return reward + generator.random(3, np.float32)

    def step(state, timestep):
        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        noisy = jax.pure_callback(draw, shape, timestep.reward, vmap_method="sequential")
        return state, timestep._replace(reward=noisy)

    with pytest.raises(EnvError, match="`step` is not deterministic"):
        check_env(Broken(step=step), steps=5)


def test_no_axis_of_seeds():
    def step(state, timestep):
        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        return state, timestep._replace(reward=jax.pure_callback(np.asarray, shape, timestep.reward))

    with pytest.raises(EnvError, match=r"`step` raised .* when vmapped over seeds"):
        check_env(Broken(step=step), steps=5)


def test_another_result_under_vmap():
    @jax.custom_batching.custom_vmap
    def pay(reward):
        return reward

    @pay.def_vmap
    def _(axis_size, in_batched, reward):
        return reward + 1, True

    with pytest.raises(EnvError, match="`step` vmapped over seeds gives other results"):
        check_env(Broken(step=put(reward=lambda t: pay(t.reward))), steps=5)


def test_a_key_without_effect_is_only_a_warning():
    class Fixed(Broken):
        def reset(self, key):
            return super().reset(jax.random.key(7))

    with pytest.warns(UserWarning, match="`reset` ignores its key"):
        report = check_env(Fixed(), steps=20)
    assert "ignores its key" in report.notes[0]


def test_what_did_not_come_up_is_noted():
    notes = check_env(Walk(), steps=3).notes
    assert any("no episode was truncated in 3 steps" in note for note in notes)
    assert any("no episode ended in 3 steps" in note for note in notes)


# ---- a SingleEnv, before Autoreset hides its mistakes ----


def outcome(**fields):
    """A walk whose step returns an altered outcome."""

    class Altered(Walk):
        def step(self, key, state, action):
            out = super().step(key, state, action)
            return out._replace(**{name: value(out) for name, value in fields.items()})

    return Altered()


def with_spec(**changes):
    walk = Walk()
    walk.spec = dataclasses.replace(Walk.spec, **changes)
    return walk


class TupleStep(Walk):
    def step(self, key, state, action):
        return tuple(super().step(key, state, action))


SINGLES = {
    "the observation of `reset` has dtype float32 but spec says bool": with_spec(obs_dtype=np.dtype(bool)),
    r"the observation of `reset` has shape \(2,\) but spec says \(3,\)": with_spec(obs_shape=(3,)),
    r"the observation of `step` has shape \(1,\)": outcome(obs=lambda out: out.obs[:1]),
    r"`reward` of `step` must be one number, not an array of shape \(1,\)": outcome(
        reward=lambda out: out.reward[None]
    ),
    r"`info\['x'\]` of `step` must be one number": outcome(info=lambda out: {"x": out.obs}),
    "`step` must return an Outcome, not a tuple": TupleStep(),
    r"the state changes between `reset` and `step`: `state\[1\]` is int32\[\] and becomes float32": outcome(
        state=lambda out: (out.state[0], out.state[1] * 1.0)
    ),
    "`spec.obs_shape` must be a tuple of positive integers": with_spec(obs_shape=[2]),
    "`spec.max_episode_steps` must be None or an integer from 1": with_spec(max_episode_steps=0),
    "`num_actions` must be an integer of at least 1": with_spec(num_actions=0),
}


@pytest.mark.parametrize("sentence", SINGLES)
def test_a_broken_single_environment_is_named(sentence):
    with pytest.raises(EnvError, match=sentence):
        check_env(SINGLES[sentence], steps=5)


def test_not_an_environment():
    class Half:
        spec = Walk.spec

        def reset(self, key): ...

    with pytest.raises(EnvError, match="the Half is a Half without `step`"):
        check_env(Half())
    with pytest.raises(EnvError, match=r"must be a pqn\.types\.EnvSpec"):
        check_env(type("Odd", (Walk,), {"spec": {"name": "odd"}})())


@pytest.mark.parametrize("env", ["CartPole-v1", Walk, lambda num_envs: Autoreset(Walk(), num_envs)])
def test_what_makes_an_environment_is_checked_too(env):
    """As for `pqn.train`: a name, a class or a function."""
    assert check_env(env, steps=8, num_envs=2).num_envs == 2


@pytest.mark.parametrize("option", [{"steps": 0}, {"steps": "9"}, {"seed": -1}, {"num_envs": 0}], ids=str)
def test_how_to_check(option):
    with pytest.raises(PqnError, match=rf"^{next(iter(option))} is "):
        check_env(Walk(), **option)
