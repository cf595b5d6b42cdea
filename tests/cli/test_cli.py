"""The command line: quick help, one sentence for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TINY

from pqn.cli.main import commands, main
from pqn.cli.options import Parser, add_config, apply, field_docs
from pqn.config import Config
from pqn.fields import hints, is_group

SMALL = [
    word
    for name, value in TINY.items()
    for word in (f"--{name}", *map(str, value if isinstance(value, tuple) else [value]))
]


def pqn(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pqn", *words], capture_output=True, text=True, check=False, cwd=cwd, timeout=280
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        *([command, "--help"] for command in commands()),
        ["train", "cartpole", "--help"],
        ["presets", "--algorithm", "ppo"],
        ["presets"],
        ["envs"],
    ],
)
def test_help_and_lists_are_quick_and_never_import_jax(words):
    code = (
        "import sys; from pqn.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'flax', 'gymnax', 'matplotlib'} & set(sys.modules), sorted(sys.modules)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60)
    seconds = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 50
    assert seconds < 5  # 0.1 s on a quiet machine; the promise itself is the import check above


MISTAKES = [
    (["trian"], "there is no command 'trian'; did you mean 'train'?"),
    (["train", "cartpol"], "there is no preset 'cartpol'; did you mean 'cartpole'?"),
    (
        ["train", "cartpole", "--learner.lamm", "0.5"],
        "there is no option --learner.lamm; did you mean '--learner.lam'?",
    ),
    (["train", "cartpole", "--learner.minibatches", "7"], "learner.minibatches 7 does not divide the batch"),
    (["train", "cartpole", "--learner.lam", "1.5"], "learner.lam is 1.5; it must be a number from 0 to 1"),
    (["train", "cartpole", "--learner.gamma", "2"], "learner.gamma is 2.0; it must be a number from 0 to 1"),
    (["train", "cartpole", "--learner.gamma", "abc"], "'abc' is not a finite number"),
    (["train", "cartpole", "--env.num-envs", "0"], "env.num_envs is 0"),
    (["train", "cartpole", "--env.num-envs", "1.5"], "'1.5' is not a whole number"),
    (
        ["train", "cartpole", "--network.norm", "group"],
        "network.norm is 'group'; it must be one of layer, batch, batch_renorm, none",
    ),
    (["train", "cartpole", "--env", "CartPole-v7"], "CartPole-v1"),
    (["train", "cartpole", "--env.kwargs", "gravity"], "'gravity' is not of the form key=value"),
    (["train"], "name a preset or an environment"),
    (["train", "--env", "nowhere:make"], "nowhere"),
    (["sweep", "--over", "learner.lam=0"], "name a preset"),
    (
        ["sweep", "cartpole", "--over", "learner.lam", "--out", "x"],
        "'learner.lam' is not of the form option=value,value",
    ),
    (["sweep", "cartpole", "--over", "learner.lam=0.5,1.5", "--out", "x"], "learner.lam is 1.5"),
    (["sweep", "cartpole", "--over", "learner.lamb=1", "--out", "x"], "there is no option 'learner.lamb'"),
    (["resume", "/nonexistent"], "/nonexistent is not a run directory: it does not exist"),
    (["eval", "."], ". is not a run directory: it has no config.json"),
    (["plot", "/nonexistent"], "is not a run directory"),
    (["presets", "--algorithm", "pq"], "there is no algorithm 'pq'; did you mean 'pqn'?"),
    *(([command, "/nonexistent"], "is not a run directory") for command in ("video", "watch", "export")),
    (["push", "/nonexistent", "me/agent"], "is not a run directory"),
    (["push", "."], "the following arguments are required: REPO"),
    (["video", ".", "--fps", "0"], "argument --fps: '0' is not a whole number from 1 to 240"),
    (["watch", ".", "--every", "0"], "argument --every: '0' is not a number from 0.1 to 3600"),
    (["eval", ".", "--episodes", "0"], "argument --episodes: '0' is not a whole number from 1 to 1048576"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES)
def test_mistakes_get_one_sentence_and_exit_status_2(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1 and captured.err.startswith("pqn: ")
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_presets_of_one_algorithm(capsys):
    """Single ones, those of a rule by its name, and none of another algorithm."""
    assert main(["presets", "--algorithm", "ppo"]) == 0
    shown = capsys.readouterr().out
    assert {line.split()[0] for line in shown.splitlines() if " steps  " in line} == {
        "ppo-cartpole", "ppo-acrobot", "ppo-minatar-asterix", "ppo-minatar-breakout", "ppo-minatar-freeway",
        "ppo-minatar-spaceinvaders", "ppo-craftax", "ppo-rnn-craftax", "mappo-hanabi", "mappo-smax-MAP",
        "ippo-smax-MAP", "ippo-overcooked-LAYOUT", "ppo-atari-GAME",
    }  # fmt: skip
    assert main(["presets", "--algorithm", "ippo"]) == 0
    shown = capsys.readouterr().out
    assert "ippo-smax-MAP" in shown and "mappo" not in shown and "deepsea" not in shown
    assert main(["presets"]) == 0
    assert (
        "ippo-smax-MAP" in (shown := capsys.readouterr().out) and shown.startswith("cartpole ") and "deepsea" in shown
    )


def test_unwritable_directory(capsys, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    assert main(["train", "cartpole", *SMALL, "--out", str(blocker / "run")]) == 2
    assert "cannot create the run directory" in capsys.readouterr().err


def test_a_checkpoint_of_another_configuration(capsys, tmp_path, finished_run):
    import shutil

    out = tmp_path / "run"
    shutil.copytree(finished_run.run, out)
    config = json.loads((out / "config.json").read_text())
    config["network"]["hidden"] = [32]
    (out / "config.json").write_text(json.dumps(config))
    assert main(["resume", str(out)]) == 2
    error = capsys.readouterr().err
    assert "network.hidden is [32] in config.json and [16] in the checkpoint" in error


def test_train_eval_plot(tmp_path):
    """The three commands in a row, as a user would type them, in a fresh process each."""
    done = pqn("train", "cartpole", *SMALL, "--total-steps", "640", "--seeds", "2", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "run directory   run" in done.stdout and "greedy return" in done.stdout and "steps/s" in done.stderr
    done = pqn("eval", "run", "--episodes", "3", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["seeds"] == [0, 1] and [len(seed) for seed in report["returns"]] == [3, 3]
    assert pqn("eval", "run", "--episodes", "3", "--json", cwd=tmp_path).stdout == done.stdout
    done = pqn("plot", "run", "-o", "curve.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_sweep(tmp_path, capsys):
    """The normalisation ablation in miniature; a second call finds everything done."""
    words = ["sweep", "cartpole", *SMALL, "--total-steps", "640", "--quiet", "--out", str(tmp_path / "sweep")]
    words += ["--over", "network.norm=layer,none", "--over", "network.norm_input=none,batch"]
    assert main(words) == 0
    rows = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert [row["label"] for row in rows] == [
        f"norm-{a}_norm_input-{b}" for a in ("layer", "none") for b in ("none", "batch")
    ]
    assert (tmp_path / "sweep" / "sweep.png").exists() and "norm-layer_norm_input-batch" in capsys.readouterr().out
    before = (tmp_path / "sweep" / rows[0]["label"] / "summary.json").read_bytes()
    assert main(words) == 0
    assert (tmp_path / "sweep" / rows[0]["label"] / "summary.json").read_bytes() == before
    capsys.readouterr()
    for option, value, old in (
        ("--total-steps", "1280", "640"),
        ("--learner.lr", "0.5", "0.001"),
        ("--seeds", "2", "1"),
    ):
        assert main([*words, option, value]) == 2
        name = option.removeprefix("--").replace("-", "_")
        said = capsys.readouterr()
        assert f"{name} is {value} in this sweep and {old} in that run" in said.err and not said.out
    assert main([*words, "--save.keep", "1"]) == 0  # says nothing about the results


def test_training_in_a_directory_that_holds_a_run(capsys, finished_run):
    assert main(["train", "cartpole", *SMALL, "--out", str(finished_run.run)]) == 2
    assert f"pqn resume {finished_run.run}" in capsys.readouterr().err


def test_every_option_is_on_the_command_line_with_a_help_text():
    for group in (Config, *filter(is_group, hints(Config).values())):
        docs = field_docs(group)
        for name, hint in hints(group).items():
            assert is_group(hint) or docs.get(name), f"{group.__name__}.{name} has no docstring"


def test_options_reach_the_configuration():
    parser = Parser("train")
    add_config(parser, Config())
    words = "--total-steps 1e6 --env Acrobot-v1 --env.kwargs a=1 b=text --network.hidden 8 4 --learner.lr_decay false"
    config = apply(
        Config(), parser.parse([*words.split(), "--network.last-action", "--learner.lam=0.5", "--seeds", "3"])
    )
    assert config.total_steps == 1_000_000 and config.env.name == "Acrobot-v1"
    assert config.env.kwargs == {"a": 1, "b": "text"} and config.network.hidden == (8, 4)
    assert not config.learner.lr_decay and config.network.last_action
    assert config.learner.lam == 0.5 and config.seeds == 3


USER_ENV = """
import jax, jax.numpy as jnp, numpy as np
from pqn.envs import Outcome
from pqn.types import EnvSpec

class Guess:
    spec = EnvSpec("guess", (2,), np.dtype("float32"), 2)
    def reset(self, key):
        coin = jax.random.bernoulli(key).astype(jnp.int32)
        return coin, jax.nn.one_hot(coin, 2)
    def step(self, key, state, action):
        return Outcome(state, jax.nn.one_hot(state, 2), (action == state) * 1.0, jnp.bool_(True))

def make_env(**options):
    return Guess()
"""


def test_a_users_environment(tmp_path):
    (tmp_path / "my_module.py").write_text(USER_ENV)
    done = pqn(
        "train",
        "--env",
        "my_module:make_env",
        *SMALL,
        "--total-steps",
        "6400",
        "--learner.lr",
        "0.01",
        "--out",
        "run",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["env"] == "my_module:make_env" and summary["eval_return"]["mean"] == 1.0
