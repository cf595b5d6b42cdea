"""The shapes of schedules against numbers computed by hand, in programs and for the record."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, tiny

from pqn.algorithms.base import Hyper, schedules
from pqn.algorithms.schedules import Linear, shape_of
from pqn.cli import options
from pqn.config import Config
from pqn.errors import ConfigError

SECONDS = math.sqrt(0.5)  # cos(π/4)


def course(name: str, given: dict, updates: list[float]) -> list[float]:
    """ε or the learning rate after some of ten updates, by the compiled rule; the record must agree."""
    config = tiny(given)
    hyper = Hyper.of(config)
    rule = hyper.epsilon if name == "epsilon" else lambda update: hyper.learning_rate(8 * update, 8)
    found = [float(jax.jit(rule)(jnp.float32(update))) for update in updates]
    assert [schedules(config, update)[name] for update in updates] == pytest.approx(found, rel=1e-5, abs=1e-9)
    return found


@pytest.mark.parametrize(
    ("given", "updates", "wanted"),
    [
        ({"learner.lr_schedule": "linear"}, [0, 5, 10, 11], [0.8, 0.4, 0.0, 0.0]),
        ({"learner.lr_schedule": "linear", "learner.lr_finish": 0.2}, [0, 5, 10, 12], [0.8, 0.5, 0.2, 0.2]),
        ({"learner.lr_schedule": "linear", "learner.lr_finish": 1.0}, [0, 5, 10], [0.8, 0.9, 1.0]),  # it may rise
        ({"learner.lr_schedule": "constant"}, [0, 5, 10, 99], [0.8, 0.8, 0.8, 0.8]),
        ({"learner.lr_decay": False, "learner.lr_schedule": "cosine"}, [0, 5, 10], [0.8, 0.8, 0.8]),
        (
            {"learner.lr_schedule": "cosine"},
            [0, 2.5, 5, 7.5, 10, 11],
            [0.8, 0.4 + 0.4 * SECONDS, 0.4, 0.4 - 0.4 * SECONDS, 0.0, 0.0],
        ),
        ({"learner.lr_schedule": "cosine", "learner.lr_finish": 0.2}, [0, 5, 10], [0.8, 0.5, 0.2]),
        (
            {"learner.lr_schedule": "piecewise", "learner.lr_points": [0.1, 0.3, 0.5, 0.1, 0.5, 0.02, 1.0, 0.01]},
            [0, 1, 3, 4.99, 5, 7.5, 10, 11],
            [0.3, 0.3, 0.2, 0.1005, 0.02, 0.015, 0.01, 0.01],
        ),
        ({"learner.lr_schedule": "piecewise", "learner.lr_points": [0.5, 0.3]}, [0, 5, 10], [0.3, 0.3, 0.3]),
        (
            {
                "learner.lr_schedule": "piecewise",
                "learner.lr_points": [0, 0, 0.2, 1, 1, 0],
                "learner.schedule_steps": 1280,
            },
            [0, 2, 4, 12],
            [0.0, 0.5, 1.0, 0.5],
        ),
    ],
)
def test_the_learning_rate(given, updates, wanted):
    assert course("lr", {"learner.lr": 0.8} | given, updates) == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("given", "updates", "wanted"),
    [
        ({"learner.eps_schedule": "linear"}, [0, 2, 4, 10], [1.0, 0.6, 0.2, 0.2]),
        ({"learner.eps_schedule": "constant"}, [0, 2, 10], [1.0, 1.0, 1.0]),
        ({"learner.eps_schedule": "cosine"}, [0, 1, 2, 4, 10], [1.0, 0.6 + 0.4 * SECONDS, 0.6, 0.2, 0.2]),
        # Its points are shares of the run, not of eps_decay.
        ({"learner.eps_schedule": "piecewise", "learner.eps_points": [0, 0.9, 1, 0.1]}, [0, 5, 10], [0.9, 0.5, 0.1]),
    ],
)
def test_epsilon(given, updates, wanted):
    options = {"learner.eps_start": 1.0, "learner.eps_finish": 0.2, "learner.eps_decay": 0.4}
    assert course("epsilon", options | given, updates) == pytest.approx(wanted, rel=1e-5)


def test_a_straight_line_adds_nothing_to_the_program():
    """The default shapes have no numbers: the program of a preset has the arguments that it had."""
    hyper = Hyper.of(tiny())
    assert jax.tree.leaves((hyper.lr_shape, hyper.eps_shape)) == [] and hyper.lr_shape == Linear()
    assert shape_of("constant", ()) == Linear()


def test_points_are_arguments_and_reach_the_parameters():
    """Another learning rate at one point is another result, of the same program."""

    def options(value: float) -> dict:
        return {"learner.lr_schedule": "piecewise", "learner.lr_points": [0.0, 0.01, 1.0, value]}

    one, other = (build(tiny(options(value))) for value in (0.01, 0.02))
    same = jax.tree.structure(one.hyper) == jax.tree.structure(other.hyper)
    assert same and [leaf.shape for leaf in jax.tree.leaves(one.hyper)][-2:] == [(2,), (2,)]
    chunk = jax.jit(one._chunk)
    state = jax.jit(jax.vmap(one.init_one))(one.seeds)
    results = [chunk(state, program.hyper, jnp.int32(3))[0].learner.params for program in (one, other)]
    changed = jax.tree.map(lambda a, b: not np.allclose(a, b, rtol=1e-4), *results)
    assert any(jax.tree.leaves(changed))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"learner.lr_schedule": "piecewise"}, "learner.lr_points has 0 numbers; it must have pairs"),
        ({"learner.lr_schedule": "piecewise", "learner.lr_points": [0, 1, 2]}, "has 3 numbers"),
        ({"learner.lr_schedule": "piecewise", "learner.lr_points": [0.5, 1, 0.2, 1]}, "the shares 0.5, 0.2; they must"),
        ({"learner.lr_schedule": "piecewise", "learner.lr_points": [0, 1, 1.5, 1]}, "must be from 0 to 1"),
        ({"learner.lr_schedule": "piecewise", "learner.lr_points": [0, -1]}, "learner.lr_points"),
        ({"learner.lr_points": [0, 1]}, "is for learner.lr_schedule piecewise, which is linear here"),
        ({"learner.eps_schedule": "piecewise", "learner.eps_points": [0, 2]}, "learner.eps_points"),
        ({"learner.eps_points": [0, 1]}, "is for learner.eps_schedule piecewise, which is linear here"),
        ({"learner.lr_schedule": "step"}, "one of linear, constant, cosine, piecewise"),
        ({"learner.lr_decay": False, "learner.lr_finish": 0.1}, "but the learning rate is constant"),
        ({"learner.lr_schedule": "cosine", "learner.schedule_steps": 4096}, "would be 0 for the rest of the run"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Config().replace(given).validate()


def test_a_schedule_that_does_not_end_at_0_may_be_shorter_than_the_run():
    given = {"learner.lr_schedule": "cosine", "learner.schedule_steps": 320, "learner.lr_finish": 1e-5}
    assert schedules(tiny(given), 9)["lr"] == pytest.approx(1e-5)


def test_points_on_the_command_line_and_in_a_file():
    parser = options.Parser("train")
    options.add_config(parser, Config())
    words = "--learner.lr-schedule piecewise --learner.lr-points 0 1e-3 0.5 1e-4 1 0 --learner.eps-schedule cosine"
    config = options.apply(Config(), parser.parse(words.split())).validate()
    assert config.learner.lr_points == (0.0, 1e-3, 0.5, 1e-4, 1.0, 0.0) and config.learner.eps_schedule == "cosine"
    assert Config.from_dict(config.to_dict()) == config
