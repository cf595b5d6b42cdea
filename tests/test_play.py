"""What an agent is given: observations, masks and the like that it cannot act on are sentences."""

from __future__ import annotations

import math

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
