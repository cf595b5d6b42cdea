"""Bad values for every option, from Python, from config.json and from the command line: one sentence, nothing written.

The fields are not listed here: they are found in the dataclasses, so a new option is tested at once.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import subprocess
import sys
import typing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pqn
from pqn.cli import options
from pqn.cli.main import main
from pqn.config import Config
from pqn.envs import make
from pqn.envs.options import Option, choose
from pqn.errors import ConfigError, EnvError
from pqn.fields import LONGEST, Within, hints, is_group, split
from pqn.options import EnvConfig, LearnerConfig
from pqn.runs.metrics import to_json


def fields() -> dict[str, Any]:
    """The hint of every option by its full name."""
    found = {}
    for name, hint in hints(Config).items():
        found |= {f"{name}.{part}": kind for part, kind in hints(hint).items()} if is_group(hint) else {name: hint}
    return found


FIELDS = fields()
NAMES = sorted(FIELDS)
NUMBERS = [name for name in NAMES if split(FIELDS[name])[0] in (int, float)]

JUNK = st.one_of(
    st.sampled_from(
        [None, b"1", object(), math, int, 1j, {1, 2}, [[[]]], {"a": {}}, [None], np.zeros((2, 2)), "\udcff"]
    ),
    st.lists(st.lists(st.text(max_size=3), max_size=2), min_size=1, max_size=3),
    st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3), min_size=1, max_size=2),
)
HUGE = [10**400, -(10**400), 1e300, -1e300, math.inf, -math.inf, math.nan, np.float32("inf"), np.float64("nan")]


def outside(bounds: Within) -> list[Any]:
    """Numbers just out of bounds."""
    low = max(bounds.least, bounds.above)
    near = [bounds.most * 2 + 1, bounds.most * (1 + 1e-12) + 1, low - abs(low) - 1] + (
        [bounds.above] if math.isfinite(bounds.above) else []
    )
    return near


def bad(hint: Any) -> st.SearchStrategy[Any]:
    """Values that a field must refuse."""
    bare, bounds = split(hint)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    if origin is typing.Literal:
        return JUNK | st.sampled_from([0, 1.5, True, "", arguments[0].upper(), arguments[0] + " "])
    if origin is tuple:
        wrong = st.lists(bad(arguments[0]), min_size=1, max_size=2)
        return wrong | st.sampled_from([3, 0.5, "64", None, {}, b"", [None] * (LONGEST + 1), {1}])
    if origin is dict:
        values = st.sampled_from(
            [math.nan, math.inf, 10**30, object(), b"x", {1}, [[[[[[1]]]]]], "a\nb", np.float32("nan")]
        )
        wrong = st.dictionaries(st.sampled_from(["a", "b"]), values, min_size=1)
        return wrong | st.sampled_from([None, 3, "a=1", [1], [("a", 1)], {1: 2}, {"": 1}, {"a b": 1}, {"a-b": 1}])
    if bare is bool:
        return JUNK | st.sampled_from([0, 1, 0.0, "true", "false", "", "yes", np.int64(1)])
    if bare is str:
        return JUNK | st.sampled_from([0, 1.5, True, "", "a\nb", "a\0b", "\x1b[31m", "x\ud800"])
    strings = st.sampled_from(["", "1", "0.5", "1e3", "nan"]) | st.text(max_size=5)
    broken = st.sampled_from([0.5, 1.25, np.float32(0.5), Fraction(1, 3)]) if bare is int else st.nothing()
    return (
        JUNK
        | strings
        | st.booleans()
        | st.sampled_from([np.bool_(True)])
        | broken
        | st.sampled_from([*HUGE, *outside(bounds)])
    )


def good(hint: Any) -> st.SearchStrategy[Any]:
    """Values that a field must take: those at its bounds, those between, and numpy's."""
    bare, bounds = split(hint)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        unique = typing.get_origin(split(arguments[0])[0]) is typing.Literal
        return st.lists(good(arguments[0]), max_size=3, unique=unique)
    if origin is dict:
        scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300) | st.just("text")
        return st.dictionaries(st.sampled_from(["a", "B_2"]), scalars | st.lists(scalars, max_size=2), max_size=2)
    if bare is bool:
        return st.booleans() | st.booleans().map(np.bool_)
    if bare is str:
        return st.sampled_from(["CartPole-v1", "module:function", "ε × 2", "_"])
    if bare is int:
        whole = st.integers(int(bounds.least), int(bounds.most)) | st.sampled_from(
            [int(bounds.least), int(bounds.most)]
        )
        return whole | whole.map(np.int64) | whole.filter(lambda x: x <= 2**52).map(float)
    low = bounds.least if not math.isfinite(bounds.above) else 1e-30
    real = st.floats(low, bounds.most) | st.sampled_from([low, bounds.most])
    return real | real.map(np.float64) | st.sampled_from([np.float32(0.5), 1])


def refused(action: Any, name: str) -> None:
    """`action` raises a `ConfigError` of one line that names the option."""
    with pytest.raises(ConfigError) as error:
        action()
    text = str(error.value)
    assert name in text and len(text.splitlines()) == 1 and len(text) < 500


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=25)
def test_python_and_config_json_refuse_it(name, data):
    value = data.draw(bad(FIELDS[name]))
    group, _, field = name.rpartition(".")
    refused(lambda: Config().replace({name: value}), name)
    refused(lambda: pqn.preset("cartpole", {name: value}), name)
    refused(lambda: Config.from_dict({group: {field: value}} if group else {field: value}), name)


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_where_they_are_said_to_be(name):
    bare, bounds = split(FIELDS[name])
    for value in outside(bounds):
        for number in (value, np.float64(value)):
            refused(lambda number=number: Config().replace({name: number}), name)
    inside = [bounds.most, math.ulp(0.0) if math.isfinite(bounds.above) else bounds.least]
    for value in inside:
        assert str(bare(value)) in repr(Config().replace({name: value}))


def test_lists_have_an_end():
    assert len(Config().replace({"network.hidden": [1] * LONGEST}).network.hidden) == LONGEST
    refused(lambda: Config().replace({"network.hidden": [1] * (LONGEST + 1)}), "at most 64")


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=15)
def test_what_is_within_the_bounds_survives_a_trip_through_json(name, data):
    config = Config().replace({name: data.draw(good(FIELDS[name]))})
    for written in (json.dumps(config.to_dict()), to_json(config.to_dict())):
        again = Config.from_dict(json.loads(written))
        assert again == config and repr(again) == repr(config)  # types, too: True == 1


TEXTS = {
    int: ["", " ", "x", "inf", "-inf", "nan", "1e400", "2.5", "0x10", "1e30", "9" * 5000, "true", "١٫٥"],
    float: ["", "x", "inf", "-inf", "nan", "1e400", "1e39", "0,5", "true", "١٫٥"],
    bool: ["", "maybe", "2", "None"],
    str: ["", "a\nb", "\udcff", "\x1b[0m"],
    dict: ["", "x", "=1", "a b=1", "a=NaN", "a=1e999", "a=-Infinity", "a=[[[[[[1]]]]]]", "a=\udcff"],
    typing.Literal: ["", "nonsense", "none,", "0"],
}


@pytest.fixture
def no_training(monkeypatch, tmp_path):
    """An empty working directory, where nothing may be trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pqn.training.train", lambda *_, **__: pytest.fail("it was trained"))
    return tmp_path


def complaint(words: list[str], directory: Path) -> str:
    """What a command says that must fail: one sentence on standard error, exit status 2, nothing written."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(words)
    text = errors.getvalue()
    assert status == 2 and output.getvalue() == "" and not list(directory.iterdir()), text
    assert text.startswith("pqn: ") and text.count("\n") == 1 and text.endswith("\n")
    return text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "preset"])
def test_the_command_line_refuses_it(name, no_training):
    bare, bounds = split(FIELDS[name])
    bare = split(typing.get_args(bare)[0])[0] if typing.get_origin(bare) is tuple else bare
    texts = TEXTS[typing.get_origin(bare) or bare]
    if bare in (int, float):
        texts = [*texts, *map(repr, outside(bounds))]
    for text in texts:
        said = complaint(["train", "cartpole", f"--{name}={text}"], no_training)
        assert f"{name} " in said.replace("-", "_") or f"{name}:" in said.replace("-", "_") or f"{name}." in said, said


@given(text=st.text(st.characters(blacklist_categories=["Cs"]), max_size=12))
@settings(max_examples=60)
def test_any_text_is_a_number_or_not(text):
    """The readers of numbers return what the fields take, or complain as argparse wants it."""
    for read, kind in ((options.whole, int), (options.number, float)):
        try:
            value = read(text)
        except options.argparse.ArgumentTypeError:
            continue
        assert type(value) is kind and -math.inf < value < math.inf


@pytest.fixture(scope="module")
def parser() -> options.Parser:
    made = options.Parser("train")
    options.add_config(made, Config())
    return made


@pytest.mark.parametrize("name", NUMBERS)
def test_the_command_line_takes_the_bounds(name, parser):
    bare, bounds = split(FIELDS[name])
    for value in (bounds.least, bounds.most) if not math.isfinite(bounds.above) else (1e-30, bounds.most):
        config = options.apply(Config(), parser.parse([f"--{name}={bare(value)!r}"]))
        assert config == Config().replace({name: value}) and str(bare(value)) in repr(config)


# ------------------------------------------------------------------------------------------- whole configurations

FILES = [
    (None, "the configuration is None"),
    ([], "the configuration is []"),
    ("{}", "the configuration is '{}'"),
    ({"learner": None}, "learner is None; it must be a group of options"),
    ({"learner": [1]}, "learner is [1]; it must be a group of options"),
    ({"learner": {"lr_decay": "false"}}, "learner.lr_decay is 'false'; it must be true or false"),
    ({"learner": {"max_grad_norm": None}}, "learner.max_grad_norm is None"),
    ({"lerner": {}}, "there is no option 'lerner'; did you mean 'learner'?"),
    ({"learner": {"lamm": 0.5}}, "there is no option 'learner.lamm'; did you mean 'lam'?"),
    ({"learner.lr": 0.1}, "there is no option 'learner.lr'"),
    ({7: 1}, "there is no option '7'"),
    ({"seeds": {"seeds": 1}}, "seeds is {'seeds': 1}"),
    ({"env": {"env": {"env": {}}}}, "there is no option 'env.env'"),
]


@pytest.mark.parametrize(("data", "sentence"), FILES)
def test_a_configuration_that_is_none(data, sentence):
    refused(lambda: Config.from_dict(data), sentence)


NAMED = [
    ([("learner.lr", 1)], "options are given by name"),
    ("learner.lr", "options are given by name"),
    ({"learner": {"lr": 0.1}}, "learner is a group of options; set one of its parts, such as 'learner.rollout_steps'"),
    ({"env": None}, "env is a group of options"),
    ({"learner.lr.x": 0.1}, "there is no option 'learner.lr.x': lr has no parts"),
    ({"": 1}, "there is no option ''"),
    ({3: 1}, "there is no option 3"),
    ({"env.kwargs.a.b": 1}, "env.kwargs has 'a.b'"),
]


@pytest.mark.parametrize(("given_options", "sentence"), NAMED)
def test_options_that_do_not_exist(given_options, sentence):
    refused(lambda: Config().replace(given_options), sentence)


def test_a_group_of_the_wrong_kind():
    refused(lambda: Config(env=typing.cast(Any, LearnerConfig())), "env is LearnerConfig(")
    refused(lambda: EnvConfig(num_envs=0), "env.num_envs is 0")
    refused(lambda: pqn.preset("cartpole", typing.cast(Any, 3)), "options are given by name")
    refused(lambda: pqn.preset(typing.cast(Any, 3)), "there is no preset 3")


TOGETHER = [
    ({"seed": 2**31 - 1, "seeds": 2}, "the last seed must be at most 2147483647"),
    ({"env.num_envs": 2**20, "learner.rollout_steps": 2**20}, "one rollout would have 1099511627776 steps"),
    ({"learner.epochs": 2**31 - 1}, "learner.epochs 2147483647 × learner.minibatches 16"),
    ({"learner.minibatches": 2**31 - 1, "learner.epochs": 1}, "try 2048"),
    ({"learner.segment_length": 2**31 - 1}, "does not divide learner.rollout_steps 64; try 64"),
    ({"env.kwargs": {"num_envs": 3}}, "env.kwargs has num_envs"),
    ({"total_steps": 10**15, "env.num_envs": 16, "learner.rollout_steps": 1}, "total_steps"),
]


@pytest.mark.parametrize(("given_options", "sentence"), TOGETHER)
def test_options_that_do_not_fit_together(given_options, sentence):
    refused(lambda: Config().replace(given_options).validate(), sentence)


def test_the_options_of_an_environment_merge():
    rnn = pqn.preset("cartpole-rnn")
    assert rnn.env.kwargs == {"observe": [0, 2]}
    assert rnn.replace({"env.kwargs": {"gravity": 5}}).env.kwargs == {"observe": [0, 2], "gravity": 5}
    assert rnn.replace({"env.kwargs.observe": [0]}).env.kwargs == {"observe": [0]}
    assert rnn.replace({"env.kwargs": {"observe": None}}).env.kwargs == {}
    assert rnn.replace({"env.kwargs": {}}) == rnn
    assert Config.from_dict({"env": {"kwargs": {"a": None, "b": 1}}}).env.kwargs == {"b": 1}


@pytest.mark.parametrize("value", [*HUGE, 2**31, "5", None, [5], True, 0.5])
def test_an_environments_own_options_have_bounds(value):
    with pytest.raises(EnvError, match=r"^box: size must be an integer of at least 1, not ") as error:
        choose("box", {"size": Option(10, least=1)}, {"size": value})
    assert len(str(error.value)) < 200
    if value != 2**31 and not isinstance(value, float):
        with pytest.raises(EnvError, match=r"^box: mass must be a number, not "):
            choose("box", {"mass": Option(1.0)}, {"mass": value})


@pytest.mark.parametrize("name", ["CartPole-v1", "probe:memory"])
@pytest.mark.parametrize("key", ["name", "game"])
def test_names_of_our_own_are_no_options(name, key):
    with pytest.raises(EnvError, match=f"has no option '{key}'"):
        make(name, 2, **{key: "x"})


@pytest.mark.parametrize(
    ("preset", "torso"),
    [("cartpole", "minatar"), ("cartpole", "nature"), ("cartpole", "impala"), ("minatar-breakout", "nature")],
)
def test_a_torso_that_cannot_take_the_observation(preset, torso, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", preset, "--network.torso", torso]) == 2
    said = capsys.readouterr().err
    assert f"network.torso {torso} cannot take the observations of" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_is_rounded_is_said():
    config = Config().replace(total_steps=20_000)
    assert config.steps == 18_432 and "training 18,432 of 20,000 steps: 9 whole updates of 2,048" in config.rounding()
    assert Config().replace(total_steps=2048).rounding() is None


# -------------------------------------------------------------------------------------------------- command lines

LINES = [
    (["train", "cartpole", "--total-steps", "2.5"], "'2.5' is not a whole number"),
    (["train", "--total-steps", "640", "cartpol"], "'cartpol' is one word too many; did you mean 'cartpole'?"),
    (["train", "cartpole", "acrobot"], "'acrobot' is one word too many ("),
    (["train", "cartpole", "--out", ""], "argument --out: '' names no file or directory"),
    (["train", "cartpole", "--out", "a\0b"], "argument --out: 'a\\x00b' names no"),
    (["train", ""], "there is no preset ''"),
    (["train", "\udcff"], "there is no preset '\\udcff'"),
    (["train", "cartpole", "-x"], "'-x' is one word too many"),
    (["train", "cartpole", "-seeds", "2"], "'-seeds' is one word too many; did you mean '--seeds'?"),
    (["train", "cartpole", "–seeds", "2"], "'–seeds' is one word too many; did you mean '--seeds'?"),
    (["train", "cartpole", "--SEEDS", "2"], "there is no option --SEEDS; did you mean '--seeds'?"),
    (["train", "cartpole", "--learner.lr", "-1e-3"], "learner.lr is -0.001; it must be a number greater than 0"),
    (["train", "cartpole", "--learner.lr", "-inf"], "argument --learner.lr: '-inf' is not a finite number"),
    (
        ["train", "cartpole", "--stop-minutes", "-.5e1"],
        "'-.5e1' is not a number greater than 0",
    ),
    (["sweep", "cartpole", "--over", "preset=acrobot", "--out", "x"], "preset is a name and no option"),
    (["train", "--quiet"], "name a preset or an environment"),
    (["theory", "baird", "--seed", "-1"], "seed is -1; it must be a whole number from 0 to 2147483647"),
    (["theory", "baird", "--updates", "1e15"], "updates is 1000000000000000; it must be a whole number from 0 to"),
    (["theory", "baird", "--width", "999999999"], "width is 999999999; it must be a whole number from 0 to 65536"),
    (["theory", "lemma", "--widths", "64", "1e9"], "it must be a list, each entry a whole number from 0 to 65536"),
    (["theory", "deepsea-20", "--depth", "99999"], "depth is 99999; it must be a whole number from 0 to 1000"),
    (["theory", "deepsea", "--episodes", "0"], "episodes is 0: run at least one."),
    (["train", "cartpole", "--env.kwargs", "a=1", "--env.kwargs", "a=2"], "'a' is given twice"),
    (["train", "cartpole", "--log.to", "wandb", "wandb"], "none twice"),
    (["train", "cartpole", "--env.cores", "shared"], "there is no option --env.cores; it is --simulators.cores now"),
    (["train", "cartpole", "--eval.beside=0"], "there is no option --eval.beside; it is --simulators.greedy-envs now"),
    (
        ["train", "cartpole", "--algorithm", "pqm"],
        "algorithm is 'pqm'; it must be one of pqn, pqn-replay, dqn, ppo; did",
    ),
    (["sweep", "cartpole", "--over", "save.logs=1,2", "--out", "x"], "no option save.logs; it is log.rows now"),
    (["sweep", "cartpole", "--out", "x"], "required: --over"),
    (["sweep", "cartpole", "--over", "learner.lam=0"], "required: --out"),
    (["sweep", "cartpole", "--over", "learner.lam=0", "--out", ""], "argument --out: ''"),
    (["sweep", "cartpole", "--over", "learner.lam", "--out", "x"], "not of the form option=value,value"),
    (["sweep", "cartpole", "--over", "learner.lam=", "--out", "x"], "not of the form option=value,value"),
    (["sweep", "cartpole", "--over", "learner.lam=0,,1", "--out", "x"], "not of the form option=value,value"),
    (["sweep", "cartpole", "--over", "=1", "--out", "x"], "not of the form option=value,value"),
    (["sweep", "cartpole", "--over", "learner.lam=null", "--out", "x"], "not of the form option=value,value"),
    (["sweep", "cartpole", "--over", "learner.lam=none", "--out", "x"], "learner.lam is 'none'"),
    (["sweep", "cartpole", "--over", "learner.lam=NaN", "--out", "x"], "learner.lam is nan"),
    (["sweep", "cartpole", "--over", "learner.lam=[]", "--out", "x"], "learner.lam is []"),
    (["sweep", "cartpole", "--over", "learner.lam=0,0.0", "--out", "x"], "--over gives lam-0.0 twice"),
    (["sweep", "cartpole", "--over", "env.name=a/b,a:b", "--out", "x"], "--over gives name-a-b twice"),
    (["sweep", "cartpole", "--over", "seed=1", "--over", "seed=2", "--out", "x"], "--over has seed twice"),
    (["sweep", "cartpole", "--over", f"env.name={'a' * 300}", "--out", "x"], "name of more than 200 letters"),
    (["sweep", "cartpole", "--over", f"seed={','.join(map(str, range(10_001)))}", "--out", "x"], "10001 combinations"),
    (["eval", ""], "argument RUN: '' names no file or directory"),
    (["eval", ".", "--episodes", "1e400"], "argument --episodes: '1e400'"),
    (["eval", ".", "--episodes", "1e9"], "argument --episodes: '1e9' is not a whole number from 1 to 1048576"),
    (["eval", ".", "--seed", "-1"], "argument --seed: '-1'"),
    (["eval", ".", "--epsilon", "nan"], "argument --epsilon: 'nan'"),
    (["eval", ".", "--epsilon", "1.5"], "argument --epsilon: '1.5' is not a number from 0 to 1"),
    (["eval", ".", "."], "'.' is one word too many"),
    (["eval"], "required: RUN"),
    (["resume", "x" * 5000], "the name is too long"),
    (["resume", "x\udcff"], "is not a run directory"),
    (["plot", ".", "-o", ""], "argument -o/--out: ''"),
    (["stability", ".", "--transitions", "1e30"], "argument --transitions: '1e30'"),
    (["stability", ".", "--index", "-1"], "argument --index: '-1'"),
    (["theory", "baird", "--seeds", "inf"], "argument --seeds: 'inf'"),
    (["theory", "deepsea", "--gamma", "1e400"], "argument --gamma: '1e400'"),
    (["envs", "x"], "'x' is one word too many"),
    (["\udcff"], "there is no command '\\udcff'"),
    ([""], "there is no command ''"),
]


@pytest.mark.parametrize(("words", "sentence"), LINES, ids=lambda value: " ".join(value)[:40] if value else None)
def test_a_command_line_that_is_wrong(words, sentence, no_training):
    assert sentence in complaint(words, no_training)


def test_mistakes_are_found_without_jax(tmp_path):
    """All of them in one process that cannot import it."""
    code = (
        "import sys, json; sys.modules['jax'] = None\n"
        "from pqn.cli.main import main\n"
        "for words in json.loads(sys.argv[1]): assert main(words) == 2, words"
    )
    # A NUL byte and half a letter cannot be handed over as they are; JSON spells them.
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps([words for words, _ in LINES])],
        capture_output=True, check=False, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert done.stderr.count(b"\n") == len(LINES) and not list(tmp_path.iterdir())


TRAINED = [
    (["--total-steps", "4096", "cartpole"], "cartpole", {"total_steps": 4096}),
    (["--learner.lr-decay", "cartpole"], "cartpole", {"learner.lr_decay": True}),
    (["--network.hidden", "8", "8", "cartpole"], "cartpole", {"network.hidden": (8, 8)}),
    (["--env.kwargs", "gravity=5", "cartpole-rnn"], "cartpole-rnn", {"env.kwargs": {"gravity": 5}}),
    (["cartpole-rnn", "--env.kwargs", "gravity=5"], "cartpole-rnn", {"env.kwargs": {"observe": [0, 2], "gravity": 5}}),
    (["cartpole-rnn", "--env.kwargs", "observe="], "cartpole-rnn", {"env.kwargs": {"observe": None}}),
    (["cartpole", "--env.kwargs", "a=1", "--env.kwargs", "b=x"], "cartpole", {"env.kwargs": {"a": 1, "b": "x"}}),
    (["--quiet", "cartpole", "--seeds", "2"], "cartpole", {"seeds": 2}),
    (["--env", "Acrobot-v1", "--out", "cartpole"], None, {"env.name": "Acrobot-v1"}),
]


@pytest.mark.parametrize(("words", "name", "changes"), TRAINED)
def test_a_command_line_that_is_right(words, name, changes, monkeypatch, tmp_path):
    """Options before the preset or after it; those of the environment are added to the preset's."""
    trained = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pqn.training.train", lambda config, **_: trained.append(config))
    monkeypatch.setattr("pqn.cli.show.show_result", lambda _: None)
    assert main(["train", *words]) == 0
    assert trained == [(Config() if name is None else pqn.preset(name)).replace(changes)]
