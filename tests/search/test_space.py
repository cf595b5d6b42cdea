"""The file that says what a search may vary."""

from __future__ import annotations

import os

import pytest

from pqn.config import Config
from pqn.errors import ConfigError
from pqn.search.space import Choice, Range, read_space

SPACE = """
learner.lr = {low = 1e-5, high = 1e-2, log = true}
learner.lam = {low = 0, high = 1}
learner.epochs = {low = 1, high = 4}
"network.norm" = ["layer", "none"]
[network]
hidden = [[64], [128, 128]]
[env.kwargs]
size = {low = 2, high = 8, step = 2}
"""


def read(text, tmp_path):
    (tmp_path / "space.toml").write_text(text)
    return read_space(tmp_path / "space.toml", Config())


def test_a_space_is_read(tmp_path):
    space = read(SPACE, tmp_path)
    assert space.dimensions == {
        "learner.lr": Range(1e-5, 1e-2, log=True),
        "learner.lam": Range(0, 1),  # a number with a fraction, also where its bounds are written without
        "learner.epochs": Range(1, 4, whole=True),
        "network.norm": Choice(("layer", "none")),
        "network.hidden": Choice(([64], [128, 128])),
        "env.kwargs.size": Range(2, 8, step=2, whole=True),
    }


def test_what_optuna_chooses_are_options(tmp_path):
    pytest.importorskip("optuna", reason="the extra `tune` is not installed")
    space = read(SPACE, tmp_path)
    kinds = {name: type(dimension.distribution()).__name__ for name, dimension in space.dimensions.items()}
    assert list(kinds.values()) == [
        *["FloatDistribution"] * 2,
        "IntDistribution",
        *["CategoricalDistribution"] * 2,
        "IntDistribution",
    ]
    assert space.options({"network.hidden": "[128, 128]", "learner.lr": 0.1}) == {
        "network.hidden": [128, 128],
        "learner.lr": 0.1,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("learner.lr = ", "is not TOML"),
        ("learner.lrr = [1]", "there is no option 'learner.lrr'; did you mean 'lr'?"),
        ("learner.lr = 0.1", "learner.lr is 0.1; it must be a list of values, or {low = …, high = …}"),
        ("learner.lr = {low = 1}", "it must be a list of values, or"),
        ("learner.lr = {low = 1, high = 2, mid = 1.5}", "it must be a list of values, or"),
        ("learner.lr = []", "learner.lr has no values"),
        ("learner.lr = [1, 1]", "learner.lr has a value twice"),
        ("learner.lam = {low = 0, high = 1.5}", "learner.lam is 1.5; it must be a number from 0 to 1"),
        ("learner.lam = {low = 'a', high = 1}", "learner.lam.low is 'a'; it must be a number"),
        ("learner.lam = {low = 1, high = 0}", "low must be less"),
        ("learner.lam = {low = 0, high = 1, log = true}", "needs a low that is greater than 0"),
        ("learner.lam = {low = 0, high = 1, log = 1}", "learner.lam.log is 1; it must be true or false"),
        ("learner.epochs = {low = 1, high = 3, step = 0.5}", "learner.epochs.step is 0.5"),
        ("learner.epochs = {low = 1, high = 2.5}", "learner.epochs is 2.5; it must be a whole number"),
        ("network.norm = ['layer', 'layr']", "did you mean 'layer'?"),
        ("network.norm = {low = 1, high = 2}", "network.norm is 1"),
        ("preset = ['acrobot']", "preset is a name and no option"),
        pytest.param("a = " + "[" * 3000, "is nested too deeply", id="lists in lists"),
        pytest.param(".".join("a" * 3000) + " = 1", "is nested too deeply", id="tables in tables"),
    ],
)
def test_mistakes_are_sentences(text, sentence, tmp_path):
    with pytest.raises(ConfigError, match="--space ") as found:
        read(text, tmp_path)
    assert sentence in str(found.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="there is no such file"):
        read_space(tmp_path / "none.toml", Config())


def test_the_file_may_be_a_link_and_nothing_else(tmp_path):
    (tmp_path / "there.toml").write_text("learner.lam = [0, 1]")
    (tmp_path / "link.toml").symlink_to(tmp_path / "there.toml")
    assert read_space(tmp_path / "link.toml", Config()).dimensions == {"learner.lam": Choice((0, 1))}
    os.mkfifo(tmp_path / "pipe.toml")
    for name, kind in {"pipe.toml": "a pipe", ".": "a directory"}.items():
        with pytest.raises(ConfigError, match=rf"--space .* is {kind}; name a file"):
            read_space(tmp_path / name, Config())
