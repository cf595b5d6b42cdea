"""Options: validation in sentences, and the trip through JSON."""

from __future__ import annotations

import json

import pytest

from pqn.config import Config
from pqn.errors import ConfigError

BAD = [
    ({"learner.minibatches": 7}, "learner.minibatches 7 does not divide the batch of 2048"),
    ({"learner.lam": 1.5}, "learner.lam is 1.5; it must be a number from 0 to 1"),
    ({"learner.gamma": -0.1}, "learner.gamma is -0.1; it must be a number from 0 to 1"),
    ({"env.num_envs": 0}, "env.num_envs is 0; it must be a whole number from 1 to 1048576"),
    ({"learner.segment_length": 7}, "learner.segment_length 7 does not divide learner.rollout_steps 64; try 8"),
    ({"total_steps": 100}, "total_steps 100 is less than one rollout of 2048 steps"),
    (
        {"network.norm": "layers"},
        "network.norm is 'layers'; it must be one of layer, batch, batch_renorm, none; did you mean 'layer'",
    ),
    ({"learner.lr": 0.0}, "learner.lr is 0.0; it must be a number greater than 0"),
    ({"seeds": 0}, "seeds is 0"),
    ({"seed": -1}, "seed is -1"),
    ({"network.hidden": (64, 0)}, "network.hidden"),
    ({"learner.gamma": float("nan")}, "learner.gamma is nan"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD)
def test_bad_values_get_a_sentence(options, sentence):
    with pytest.raises(ConfigError) as error:
        Config().replace(options).validate()
    assert sentence in str(error.value)


def test_the_suggested_number_of_minibatches_works():
    Config().replace({"learner.minibatches": 8}).validate()
    with pytest.raises(ConfigError, match="try 8"):
        Config().replace({"learner.minibatches": 7}).validate()


def test_json_round_trip():
    config = Config().replace({"env.kwargs": {"size": 10}, "network.hidden": (1, 2)}, seeds=3)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_unknown_fields_in_a_file_are_named():
    data = Config().to_dict()
    data["learner"]["lambda"] = 0.5
    with pytest.raises(ConfigError, match=r"there is no option 'learner.lambda'"):
        Config.from_dict(data)


def test_remainder_of_steps_is_left_out():
    config = Config().replace(total_steps=5000)
    assert config.updates == 2 and config.steps_per_update == 2048
