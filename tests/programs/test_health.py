"""What goes wrong in a run is said by name: an environment's NaN is not blamed on the learning rate."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from saved import read_tree

import pqn
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.errors import Diverged, EnvError, EnvFailed
from pqn.programs import health, rollout
from pqn.programs.compiled import CompiledProgram
from pqn.programs.evaluation import Evaluation
from pqn.programs.health import Fault
from pqn.programs.reported import NO_FAULT
from pqn.programs.totals import combine, first_fault
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.types import EnvSpec

QUIET = Progress(quiet=True)
BAD_AT = 48  # the last step of the sixth rollout, in the middle of an episode


class Knobs(NamedTuple):
    """What an environment gives from its 48th step on; part of its state, so that one compilation serves every case."""

    reward: float = 1.0
    obs: float = 1.0
    final: float = 1.0
    episode: int = 10


class Faulty:
    """Counts its steps over all episodes of ten, and may break a promise from the 48th on."""

    def __init__(self, knobs=None, **spec):
        known = {"max_episode_steps": 10, "truncates": True} | spec
        self.spec, self.knobs = EnvSpec("faulty", (2,), np.dtype(np.float32), 2, **known), knobs or Knobs()

    def reset(self, key):
        return (jnp.int32(0), jnp.int32(0), jax.tree.map(jnp.asarray, self.knobs)), jnp.ones(2)

    def step(self, key, state, action):
        total, time, knobs = state[0] + 1, state[1] + 1, state[2]
        late = total >= BAD_AT
        cut = time >= jnp.where(late, knobs.episode, 10)
        obs = jnp.where(late, jnp.where(cut, knobs.final, knobs.obs), 1.0)
        reward = jnp.where(late, knobs.reward, 1.0)
        return Outcome((total, time, knobs), jnp.full(2, obs), reward, jnp.bool_(False), cut)


class Going(Autoreset):
    """Keeps the count of all steps through resets."""

    def _restart(self, key, done, inner, obs, spare):
        fresh, obs, spare = super()._restart(key, done, inner, obs, spare)
        return (inner[0], fresh[1], inner[2]), obs, spare


def maker(knobs=None, **spec):
    return lambda num_envs: Going(Faulty(knobs, **spec), num_envs)


def eight_updates(program, knobs):
    """Totals of a run whose environments have these knobs, as numpy arrays."""
    state = program.init()
    like = state.stream.env.inner[2]
    turned = jax.tree.map(lambda value, old: jnp.full(old.shape, value, old.dtype), knobs, like)
    env = state.stream.env._replace(inner=(*state.stream.env.inner[:2], turned))
    return program.chunk(state._replace(stream=state.stream._replace(env=env)), 8)[1]


@pytest.fixture(scope="module")
def program():
    program = CompiledProgram(tiny({"eval.count": 0}, seed=3), maker())
    program.compile()
    return program


CASES = [
    (Knobs(reward=math.nan), 6, Fault.REWARD, "faulty gave a NaN or infinite reward; no checkpoint$"),
    (Knobs(reward=-math.inf), 6, Fault.REWARD, "faulty gave a NaN or infinite reward"),
    (Knobs(obs=math.inf), 6, Fault.OBSERVATION, "faulty gave a NaN or infinite observation"),
    (Knobs(final=math.nan), 7, Fault.OBSERVATION, "faulty gave a NaN or infinite observation"),
    (Knobs(episode=2), 7, Fault.TRUNCATED_EARLY, r"before spec\.max_episode_steps = 10, .* or to None; no checkpoint$"),
]


@pytest.mark.parametrize(("knobs", "update", "fault", "said"), CASES)
def test_the_environments_fault_is_its_own(program, knobs, update, fault, said):
    """From the compiled program: seed, update and code of the first fault, and its sentence."""
    totals = eight_updates(program, knobs)
    assert first_fault(totals) == (0, update, fault)
    error = health.error(fault, 3, update, program.env.spec, "no checkpoint")
    assert isinstance(error, EnvError) and str(error).startswith(f"seed 3, update {update}: ")
    with pytest.raises(EnvError, match=said):
        raise error
    if fault == Fault.TRUNCATED_EARLY:
        assert all(np.all(np.isfinite(value)) for value in totals.values())  # a promise broken, but never a NaN


def test_a_sound_environment_is_found_so(program):
    totals = eight_updates(program, Knobs())
    assert first_fault(totals) is None and totals["bad"].tolist() == [NO_FAULT]


def test_a_truncation_that_the_spec_denies_is_named():
    program = CompiledProgram(tiny(), maker(truncates=False, max_episode_steps=None))

    def run(s):
        return rollout.collect(program.env, program.algorithm, s.learner, s.stream, s.key, program.hyper)

    state = program.init_one(jnp.int32(0))
    stream, _, finished = jax.jit(run)(state)
    assert int(finished.fault) == Fault.NONE  # episodes of ten steps, rollouts of eight
    _, _, finished = jax.jit(run)(state._replace(stream=stream))
    assert int(finished.fault) == Fault.TRUNCATED_UNANNOUNCED
    said = str(health.error(Fault.TRUNCATED_UNANNOUNCED, 0, 2, program.env.spec, "no checkpoint"))
    assert "although spec.truncates is False; set it to True" in said


def test_a_run_ends_with_the_sentence_and_its_last_good_checkpoint(tmp_path):
    config = tiny({"save.checkpoints": 10, "eval.count": 0})
    with pytest.raises(EnvError, match=r"^seed 0, update 6: faulty gave a NaN .* the last good checkpoint is .*0005"):
        pqn.train(config, env=maker(Knobs(reward=math.nan)), out=tmp_path / "run", progress=QUIET)
    tree = read_tree(checkpoint.latest(tmp_path / "run" / "checkpoints"))
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(tree["learner"]["params"]))


def test_divergence_is_still_the_learning_rates():
    error = health.error(Fault.DIVERGED, 1, 7, Faulty().spec, "no checkpoint")
    assert isinstance(error, Diverged) and "learner.lr" in str(error) and "seed 1" in str(error)


def test_the_first_fault_counts_and_totals_add_up_alike_in_numpy_and_jax():
    rows = [
        {"loss": [1.0, 2.0], "param_norm": [1.0, 1.0], "bad": [NO_FAULT, 4], "fault": [0, 5]},
        {"loss": [3.0, 4.0], "param_norm": [2.0, 3.0], "bad": [5, 5], "fault": [2, 1]},
        {"loss": [5.0, 6.0], "param_norm": [4.0, 5.0], "bad": [6, 6], "fault": [1, 1]},
    ]
    for xp in (np, jnp):
        total, *later = [{name: xp.asarray(value) for name, value in row.items()} for row in rows]
        for row in later:
            total = combine(total, row)
        found = {name: np.asarray(value).tolist() for name, value in total.items()}
        assert found == {"loss": [9.0, 12.0], "param_norm": [4.0, 5.0], "bad": [5, 4], "fault": [2, 5]}
        assert first_fault({name: np.asarray(value) for name, value in total.items()}) == (1, 4, Fault.DIVERGED)


def test_a_nan_in_an_evaluation_is_said():
    returns, finished = np.array([[1.0, np.nan], [2.0, np.nan]]), np.array([[True, False], [True, True]])
    result = Evaluation(returns, np.ones((2, 2)), finished, {})
    with pytest.raises(EnvFailed, match=r"^seed 8: faulty gave a NaN or infinite reward in an evaluation$"):
        result.check("faulty", 7)
    result._replace(finished=np.array([[True, False], [True, False]])).check("faulty", 7)  # unfinished is no fault


def test_an_integer_observation_is_not_even_read():
    assert not bool(health.not_finite(None, jnp.zeros(3, jnp.uint8)))
    assert "is_finite" not in str(jax.make_jaxpr(health.not_finite)(jnp.zeros(3, bool)))
