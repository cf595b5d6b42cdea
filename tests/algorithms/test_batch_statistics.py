"""`learner.batch_statistics`: what a gradient step reads beside its states, and where the option has no meaning.

That learning is then as it should be, `tests/oracle` shows.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, tiny

from pqn.algorithms.segments import segmented
from pqn.errors import ConfigError
from pqn.types import Inputs, Rollout, Seen

T, N = 6, 2
JOINT = {"learner.batch_statistics": "joint", "learner.targets": "minibatch", "network.norm": "batch"}


def numbered(steps: int, first: int = 0) -> np.ndarray:
    """A number for each step of each environment [steps, N, 1]: 10 · environment + time."""
    return (np.arange(steps)[:, None] + first + 10.0 * np.arange(N))[..., None]


@pytest.mark.parametrize(("length", "burn_in"), [(1, 0), (3, 0), (3, 2), (6, 0)])
def test_a_piece_ends_with_what_follows_it(length, burn_in):
    flags = jnp.zeros((T, N, 1), bool)
    now, last = (jnp.asarray(numbered(T)), jnp.asarray(numbered(1, T)[0]))
    each = jnp.zeros((T, N))
    rollout = Rollout(
        inputs=Inputs(now, flags),
        avail=now[..., None],
        world=now,
        action=jnp.zeros((T, N, 1), jnp.int32),
        reward=each,
        discount=each,
        value=each,
        last_value=each[0],
        carry=(),
        window=Inputs(jnp.asarray(numbered(burn_in, -burn_in)), flags[:burn_in]),
        last_seen=Seen(Inputs(last, flags[0]), last[..., None], last),
    )
    pieces = segmented(rollout, each, each, length)
    starts = [(start, env) for start in range(0, T, length) for env in range(N)]
    wanted = np.array([[10 * env + start + i for start, env in starts] for i in range(-burn_in, length + 1)])
    np.testing.assert_array_equal(pieces.inputs.obs[..., 0], wanted)
    np.testing.assert_array_equal(pieces.avail[..., 0, 0], wanted[burn_in:])
    np.testing.assert_array_equal(pieces.world[..., 0], wanted[burn_in:])
    assert pieces.inputs.first.shape == (burn_in + length + 1, len(starts), 1)
    np.testing.assert_array_equal(pieces.head().world[..., 0], wanted[burn_in:-1])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"learner.targets": "rollout"},
            r"batch_statistics joint .* or pqn with learner.targets minibatch; here it is pqn",
        ),
        ({"algorithm": "ppo", "learner.targets": "rollout"}, r"batch_statistics joint .* here it is ppo"),
        ({"learner.batch_statistics": "separate"}, r"batch_statistics separate .* pqn with learner.targets rollout"),
    ],
)
def test_an_algorithm_that_does_not_value_successors_refuses(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build(tiny(JOINT | options)).algorithm.check()


def test_a_network_without_batch_statistics_is_refused():
    with pytest.raises(ConfigError, match=r"norm layer and network.norm_input none have no batch statistics; set one"):
        tiny(JOINT | {"network.norm": "layer"})


def test_what_is_possible_is_not_refused():
    for options in ({}, {"learner.targets": "rollout", "learner.batch_statistics": "separate"}):
        build(tiny(JOINT | options)).algorithm.check()
    config = tiny(JOINT)
    assert config.keeps_last_seen and not tiny().joint_statistics
    assert tiny({"algorithm": "dqn", "replay.size": 640, "replay.start": 64}).joint_statistics
