"""Options: validation in sentences, and the trip through JSON."""

from __future__ import annotations

import json

import pytest

from pqn import renamed
from pqn.config import ALGORITHMS, Config
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


OLD = {
    "env": {"name": "CartPole-v1", "cores": "apart"},
    "learner": {"lam": 0.5, "overlap": True},
    "eval": {"count": 3, "beside": 2},
    "save": {"keep": 1, "logs": 7, "loggers": ["wandb"], "stability": 4},
}


def test_the_names_of_older_runs_are_read():
    config = Config.from_dict(OLD)
    options = {"learner.lam": 0.5, "eval.count": 3, "save.keep": 1, "simulators.overlap": True}
    options |= {"simulators.greedy_envs": 2, "log.rows": 7, "log.to": ("wandb",), "log.stability": 4}
    assert config == Config().replace(options) and config.simulators.cores == "reserved"
    assert OLD["env"]["cores"] == "apart"  # what was given is not changed
    assert Config.from_dict({"env": {"cores": "shared"}}).simulators.cores == "shared"
    assert Config.from_dict({}).algorithm == "pqn"


@pytest.mark.parametrize("old", renamed.OPTIONS)
def test_an_old_name_is_an_error_that_names_the_new_one(old):
    new = renamed.OPTIONS[old]
    group, option = new.split(".")
    with pytest.raises(ConfigError, match=rf"^there is no option {old}; it is {new} now$"):
        Config().replace({old: getattr(getattr(Config(), group), option)})


def test_an_option_has_one_name_in_a_file():
    with pytest.raises(ConfigError, match=r"save.logs and log.rows are both there"):
        Config.from_dict({"save": {"logs": 7}, "log": {"rows": 7}})
    for data in ({"save": {"logs": 7}, "log": 3}, {"env": {"cores": ["apart"]}}, {"simulators": {"cores": "apart"}}):
        with pytest.raises(ConfigError, match=r"log.rows are both|simulators.cores is"):
            Config.from_dict(data)


def test_an_algorithm_is_one_of_those_that_are_listed(monkeypatch):
    with pytest.raises(ConfigError, match="algorithm is 'sarsa'; it must be one of pqn, pqn-replay, dqn, ppo"):
        Config().replace(algorithm="sarsa")
    monkeypatch.setitem(ALGORITHMS, "sarsa", ())
    assert Config().replace(algorithm="sarsa").algorithm == "sarsa"
    with pytest.raises(ConfigError, match="it must be one of pqn, pqn-replay, dqn, ppo, sarsa; did you mean 'sarsa'"):
        Config().replace(algorithm="sarsb")


# ---- options of one algorithm ----

SOME = {"replay": ("replay.batch", 7), "target": ("target.double", True), "ppo": ("ppo.critic", "shared")}
FITS = {"replay.size": 1000, "replay.start": 100, "env.num_envs": 4, "learner.rollout_steps": 4}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_options_of_another_algorithm_are_refused(algorithm):
    for group, (option, value) in SOME.items():
        config = Config().replace({option: value}, algorithm=algorithm)
        if group in ALGORITHMS[algorithm]:
            assert config.validate() is config
        else:
            readers = " or ".join(name for name, groups in ALGORITHMS.items() if group in groups)
            with pytest.raises(ConfigError) as error:
                config.validate()
            assert str(error.value) == (
                f"{option} is set, but algorithm {algorithm} does not read it; "
                f"leave it out, or set algorithm to {readers}"
            )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"replay.size": 15}, "replay.size 15 holds 3 steps of each environment .* at least 16"),
        ({"replay.size": 16, "replay.start": 0}, None),
        ({"replay.size": 40, "replay.start": 0, "target.n_step": 10}, "sequence need 11, so it must be at least 44"),
        ({"replay.size": 44, "replay.start": 0, "target.n_step": 10}, None),
        ({"replay.start": 1001}, "replay.start 1001 is more than replay.size 1000"),
        ({"total_steps": 100}, "replay.start 100 is not less than the 96 steps of the run"),
        ({"replay.share": 0.4, "replay.batch": 40}, "replay.share 0.4 of replay.batch 40 leaves 24 sequences"),
        ({"replay.share": 0.6, "replay.batch": 40}, None),
        # With a share for the last rollout, a sequence that starts T - 1 steps earlier must still be there.
        ({"replay.size": 16, "replay.start": 0, "replay.share": 0.5}, "sequence need 5, so it must be at least 20"),
        ({"replay.size": 20, "replay.start": 0, "replay.share": 0.5}, None),
        ({"learner.minibatches": 3}, None),  # of a buffer, not of a rollout
    ],
)
def test_a_buffer_holds_what_is_sampled(options, sentence):
    config = Config().replace(FITS | options, algorithm="dqn")
    if sentence is None:
        config.validate()
    else:
        with pytest.raises(ConfigError, match=sentence):
            config.validate()


def test_a_run_must_be_long_enough_to_learn_from_its_buffer():
    with pytest.raises(ConfigError, match="learning never starts"):
        Config().replace(FITS | {"replay.start": 0, "target.n_step": 30, "total_steps": 64}, algorithm="dqn").validate()


@pytest.mark.parametrize(
    ("name", "meant"),
    [("lr", "learner.lr"), ("num_envs", "env.num_envs"), ("network.lam", "learner.lam"), ("hidden", "network.hidden")],
)
def test_an_option_without_its_group(name, meant):
    """Other libraries have no groups: a newcomer writes `lr`."""
    with pytest.raises(ConfigError, match=f"there is no option '{name}'; did you mean '{meant}'"):
        Config().replace({name: 1})
