"""`pqn sweep`: axes of several options, several runs at a time, runs that fail."""

from __future__ import annotations

import json

import pytest
from test_cli import SMALL

from pqn.cli.cluster import add_placement, placement
from pqn.cli.main import main
from pqn.cli.options import Parser
from pqn.cli.sweep import axis, combinations
from pqn.errors import ConfigError
from pqn.fleet.placement import Placement
from pqn.presets import preset

BASE = preset("cartpole")


def test_options_that_change_together_are_one_axis():
    axes = [axis("env.num_envs,learner.minibatches=8:2,32:8"), axis("learner.lam=0,0.5")]
    cells = dict(combinations(BASE, axes))
    assert list(cells) == [
        f"num_envs-{n}_minibatches-{m}_lam-{lam}" for n, m in ((8, 2), (32, 8)) for lam in ("0", "0.5")
    ]
    config = cells["num_envs-32_minibatches-8_lam-0.5"]
    assert (config.env.num_envs, config.learner.minibatches, config.learner.lam) == (32, 8, 0.5)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("network.hidden,learner.lr=[64,64]:0.1,[8]:0.2", [([64, 64], 0.1), ([8], 0.2)]),
        ('env.name,seed="my:make":1,plain:2', [("my:make", 1), ("plain", 2)]),
        ("network.norm,seed,learner.lam=layer:1:0,none:2:1", [("layer", 1, 0), ("none", 2, 1)]),
        ("network.norm=layer,none", [("layer",), ("none",)]),
        ("network.hidden=[64,64],[8]", [([64, 64],), ([8],)]),
    ],
)  # fmt: skip
def test_values_of_an_axis(text, points):
    assert axis(text)[1] == points


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--over", "seed,learner.lam=1:0,2"], "'2' has 1 value for 2 options (seed, learner.lam)"),
        (["--over", "seed,learner.lam=1:0:3"], "'1:0:3' has 3 values for 2 options"),
        (["--over", "seed,learner.lam=1:,2:0"], "not of the form option=value,value"),
        (["--over", "seed,=1:0"], "not of the form option=value,value"),
        (["--over", "seed,seed=1:2"], "--over has seed twice"),
        (["--over", "seed,learner.lam=1:0", "--over", "learner.lam=1"], "--over has learner.lam twice"),
        (["--over", "seed,learner.lam=1:0,1:0.0"], "--over gives seed-1_lam-0.0 twice"),
        (["--over", "env.num_envs,learner.minibatches=8:3"], "learner.minibatches 3 does not divide"),
        (["--over", "seed=1", "--jobs", "0"], "'0' is not a whole number from 1 to 1024"),
        (["--over", "seed=1", "--jobs", "2", "--ray"], "--jobs is for this machine"),
        (["--over", "seed=1", "--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: nothing answers there"),
        (["--over", "seed=1", "--ray", "cluster:port"], "--ray cluster:port: nothing answers there"),
        (["--over", "seed=1", "--gpus-per-run", "0.5"], "--gpus-per-run is for --ray"),
        (["--over", "seed=1", "--ray", "--gpus-per-run", "1.5"], "above 1 it must be whole"),
    ],
)
def test_mistakes_are_sentences(words, sentence, capsys, tmp_path):
    assert main(["sweep", "cartpole", *words, "--out", str(tmp_path / "x")]) == 2
    assert sentence in capsys.readouterr().err and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], Placement()),
        (["--jobs", "3", "--retries", "0"], Placement(jobs=3, retries=0)),
        (["--ray"], Placement(ray="local")),
        (["--ray", "auto", "--gpus-per-run", "0.25", "--cpus-per-run", "2"], Placement(ray="auto", cpus=2, gpus=0.25)),
    ],
)
def test_where_runs_are_placed(words, wanted):
    parser = Parser("sweep")
    add_placement(parser)
    assert placement(parser.parse(words)) == wanted


def test_without_ray_there_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    words = ["sweep", "cartpole", "--over", "learner.lam=0", "--ray", "--out", str(tmp_path / "x")]
    assert main(words) == 2
    assert "--ray needs the package ray: pip install -e '.[ray]'" in capsys.readouterr().err


def test_a_run_that_fails_hides_no_other(tmp_path, capsys):
    words = ["sweep", "cartpole", *SMALL, "--total-steps", "640", "--quiet", "--out", str(tmp_path)]
    assert main([*words, "--over", "learner.lr=1e30,0.001"]) == 1  # as `pqn train` exits after divergence
    said = capsys.readouterr()
    bad, good = json.loads((tmp_path / "sweep.json").read_text())
    assert bad["label"] == "lr-1e+30" and "became NaN or infinite" in bad["failed"]
    assert good["label"] == "lr-0.001" and good["mean"] is not None
    assert "lr-1e+30 failed: the loss or a parameter" in said.err
    rows = said.out.splitlines()
    assert rows[1].split() == ["lr-1e+30", "failed"] and rows[2].startswith("lr-0.001")


def test_one_sentence_where_all_fail_for_one_reason(tmp_path, capsys):
    words = ["sweep", "cartpole", "--env", "CartPole-v7", "--over", "learner.lam=0,1", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "x")]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("pqn: all 2 combinations failed: ") and said.err.count("CartPole-v7") == 1
    assert not said.out and not (tmp_path / "x").exists()


def test_combinations_are_counted_before_they_are_made():
    many = [axis(f"{name}={','.join(map(str, range(1, 103)))}") for name in ("seed", "seeds")]
    with pytest.raises(ConfigError, match="10404 combinations"):
        combinations(BASE, many)
