"""What an agent is given: observations, masks and the like that it cannot act on are sentences."""

from __future__ import annotations

import copy
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pqn
from pqn.errors import ObservationError, PqnError

OBS = np.zeros(4, np.float32)
BATCH = np.zeros((3, 4), np.float32)
BAD = [
    ((np.full(4, np.nan),), {}, "is finite"),
    ((jnp.full(4, jnp.inf),), {}, "is finite"),
    ((np.zeros((0, 4)),), {}, r"not \(0, 4\)"),
    (([],), {}, r"not \(0,\)"),
    ((3.0,), {}, r"not \(\)"),
    ((np.zeros((2, 2, 4)),), {}, r"not \(2, 2, 4\)"),
    ((["a", "b", "c", "d"],), {}, "is of type float32"),
    (([[0.0], [0.0, 1.0]],), {}, "is of type float32"),
    ((None,), {}, "is finite"),
    ((np.zeros(4, complex) + 1j,), {}, "is of type float32"),
    ((OBS,), {"epsilon": 5}, "epsilon is 5; it must be a number from 0 to 1"),
    ((OBS,), {"epsilon": math.nan}, "epsilon is nan"),
    ((OBS,), {"epsilon": "0.5"}, "epsilon is '0.5'"),
    ((OBS,), {"seed": -1}, "seed is -1"),
    ((OBS,), {"seed": "x"}, "seed is 'x'"),
    ((OBS,), {"avail": [False, False]}, "avail leaves no legal action"),
    ((OBS,), {"avail": [True, True, True]}, "avail is"),
    ((BATCH,), {"first": [True, False]}, "first is"),
    ((BATCH,), {"reward": [1.0, 2.0]}, "reward is"),
    ((BATCH,), {"reward": math.nan}, "reward is nan; it must be finite"),
]


@pytest.fixture(scope="module")
def agent(finished_run):
    return pqn.load(finished_run.run)


@pytest.mark.parametrize(("given", "options", "sentence"), BAD)
def test_what_it_cannot_act_on(given, options, sentence, agent):
    with pytest.raises(PqnError, match=sentence) as error:
        agent.act(*given, **options)
    assert isinstance(error.value, ValueError) and "\n" not in str(error.value)


def test_what_it_can_act_on(agent):
    for obs in (OBS, [0, 0, 0, 0], np.zeros(4, np.int64), np.zeros(4, bool), jnp.zeros(4), np.zeros(4, object)):
        assert agent.act(obs) == agent.act(OBS)
    assert agent.act(OBS, epsilon=np.float32(1.0), seed=np.int64(3)) in (0, 1)
    assert agent.act(BATCH, first=[True, False, False], reward=1.0, avail=[[True, False]] * 3).tolist() == [0] * 3


def test_images_keep_their_range(agent):
    """An environment of bytes takes any numbers that are bytes."""
    from pqn.agent import _finite
    from pqn.types import EnvSpec

    spec = EnvSpec("image", (2,), np.dtype("uint8"), 2)
    for obs in ([0, 255], [0.0, 255.0], np.array([0, 255], np.int64)):
        assert _finite(spec, obs) is not None
    for obs in ([-1, 0], [0, 256], [0.5, 1.0], [1e30, 0.0], ["0", "1"]):
        with pytest.raises(ObservationError, match="is of type uint8"):
            _finite(spec, obs)
    with pytest.raises(ObservationError, match="is finite"):
        _finite(spec, [np.nan, 1.0])


def test_numbers_that_the_type_cannot_hold(agent):
    """A float64 may be rounded to float32; one that would become infinite is no observation."""
    assert agent.act(np.full(4, 1 / 3)) in (0, 1)
    for obs in (np.full(4, 1e300), np.full((2, 4), -1e39)):
        with pytest.raises(ObservationError, match="is of type float32"):
            agent.act(obs)


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))], ids=["copy", "pickle"]
)
def test_an_agent_goes_to_another_process(how, agent):
    again = how(agent)
    obs = np.linspace(-1, 1, 20).reshape(5, 4)
    np.testing.assert_array_equal(again.q_values(obs), agent.q_values(obs))
    assert again.step == agent.step and again.origin == agent.origin


@pytest.mark.parametrize("options", [{"checkpoint": "best"}, {"network": object()}], ids=["checkpoint", "network"])
def test_an_agent_is_of_one_checkpoint_already(options, agent):
    """They were ignored: the report would have been of other weights than the user asked for."""
    with pytest.raises(PqnError, match="an agent has its own"):
        pqn.evaluate(agent, episodes=2, **options)


@pytest.mark.parametrize("seed", ["0", 0.5, None, -1, True])
def test_seeds_of_a_run(seed, finished_run):
    if seed is None:
        assert pqn.load(finished_run.run, seed).origin["seed"] == 0
        return
    with pytest.raises(PqnError, match=r"^seed is"):
        pqn.load(finished_run.run, seed)


@pytest.mark.parametrize("path", [None, 3, "", b"runs", "a\0b", object()])
@pytest.mark.parametrize("call", [pqn.load, pqn.evaluate, pqn.resume, pqn.runs])
def test_what_is_no_path(path, call):
    with pytest.raises(PqnError, match="it must be a path, not empty"):
        call(path)


def test_a_result_stands_for_its_run(finished_run):
    step = finished_run.summary["steps"]
    assert pqn.load(finished_run).step == step
    assert pqn.evaluate(finished_run, episodes=2)["step"] == step
    (listed,) = pqn.runs(finished_run)
    assert pqn.load(listed).step == step


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_inside_of_a_compiled_function(transform, agent):
    """What is traced is no array yet; that was said to be of the wrong type."""
    for call in (agent.act, agent.q_values, lambda obs: agent.act([obs, obs])):
        with pytest.raises(ObservationError, match=r"inside of jax.jit or jax.vmap.*compile agent.actor.scores"):
            transform(call)(BATCH)
