"""Hyperparameters that are traced, and the work of an update in parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, tiny
from test_pqn import fake_rollout

from pqn.algorithms.base import TRACED, Hyper, Work
from pqn.algorithms.segments import segmented
from pqn.config import ALGORITHMS, Config


def other_numbers() -> dict[str, float]:
    """For every traced option a value of its own that is not its default, and not 0."""
    return {".".join(option): 0.505 + 0.01 * i for i, option in enumerate(TRACED.values())}


def read_by(algorithm: str) -> dict[str, float]:
    """Those that an algorithm may have."""
    groups = ("learner", *ALGORITHMS[algorithm])
    numbers = {name: value for name, value in other_numbers().items() if name.split(".")[0] in groups}
    return {name: value for name, value in numbers.items() if algorithm != "ppo" or ".l2_" not in name}


def test_each_traced_option_has_its_own_name():
    options = other_numbers()
    assert len(set(options.values())) == len(options) >= 10
    hyper = Hyper.of(Config().replace(options))
    assert {".".join(option): float(getattr(hyper, name)) for name, option in TRACED.items()} == {
        name: float(np.float32(value)) for name, value in options.items()
    }
    assert {"gamma", "target_rate", "ppo_clip", "ppo_entropy", "ppo_value_weight"} <= {*TRACED}


def test_epsilon_falls_from_start_to_finish_and_the_rate_from_its_option():
    hyper = Hyper.of(tiny({"learner.eps_start": 0.9, "learner.eps_finish": 0.1, "learner.eps_decay": 0.5}))
    np.testing.assert_allclose([hyper.epsilon(update) for update in (0, 5, 9)], [0.9, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(hyper.learning_rate(0.0, 8), 1e-4, rtol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_traced_option_is_not_part_of_the_program(algorithm):
    """Other numbers, the same program: nothing is compiled again, and a sweep can be a vmap."""
    l2 = {} if algorithm == "ppo" else {"learner.l2_final": 0.1, "learner.l2_inner": 0.1}
    start = {"replay.start": 64} if "replay" in ALGORITHMS[algorithm] else {}

    def traced(options):
        program = build(tiny(l2 | start | options, algorithm=algorithm))
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), program.state_shape)
        return str(jax.make_jaxpr(program.update_one)(one, program.hyper))

    assert traced({}) == traced(read_by(algorithm))


def test_a_part_of_the_work_is_some_of_its_gradient_steps():
    data, number = fake_rollout()
    segments = segmented(data, number * 1.0, number * 1.0, 2)
    work = Work(segments, jnp.arange(24).reshape(8, 3), 100.0 + jnp.arange(8.0), {})
    part = work.part(jnp.int32(3), 2)
    np.testing.assert_array_equal(part.orders, [[9, 10, 11], [12, 13, 14]])
    np.testing.assert_array_equal(part.steps, [103.0, 104.0])
    assert part.segments is segments
