"""`pqn export`: files, description and card of a run; one sentence for every mistake."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import pqn
from pqn.cli.main import main
from pqn.errors import PqnError
from pqn.export.card import train_command
from pqn.export.loading import load_exported
from pqn.export.run import export_run
from pqn.runs.opened import OpenedRun, open_run

ALL = ["onnx", "stablehlo", "safetensors"]


@pytest.fixture(scope="module")
def exported(finished_run, tmp_path_factory):
    """All formats of the run's second seed."""
    return export_run(finished_run.run, ALL, tmp_path_factory.mktemp("export"), 1)


def test_the_files(exported):
    names = ["agent.onnx", "agent.stablehlo", "agent.safetensors", "agent.json", "README.md"]
    assert exported.names == names and sorted(names) == sorted(path.name for path in exported.folder.iterdir())
    for name in ("onnx", "stablehlo"):
        assert 0 <= exported.written[name].difference < 1e-5
    said = json.loads((exported.folder / "agent.json").read_text())
    assert [each["name"] for each in said["inputs"]] == ["obs"] and said["inputs"][0]["shape"] == ["batch", 4]
    assert said["seed"] == 1 and said["step"] == 640 and said["config"]["env"]["name"] == "CartPole-v1"


def test_the_parameters_are_those_of_the_seed(exported, finished_run):
    obs = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    loaded = load_exported(exported.folder)
    np.testing.assert_array_equal(loaded.q_values(obs), pqn.load(finished_run.run, seed=1).q_values(obs))
    assert not np.array_equal(loaded.q_values(obs), pqn.load(finished_run.run, seed=0).q_values(obs))
    assert loaded.step == 640


def test_the_card_tells_what_it_is(exported, finished_run):
    card = (exported.folder / "README.md").read_text()
    trained = open_run(finished_run.run).newest()
    assert trained.eval_returns is not None
    mean, std = trained.eval_returns[1].mean(), trained.eval_returns[1].std()
    assert f"Greedy return {mean:.2f} ± {std:.2f} (mean and deviation of 4 episodes)" in card
    for text in ("# PQN on CartPole-v1", "| seed of this agent | 1 |", "| jax | ", '"preset": "custom"'):
        assert text in card
    assert str(finished_run.run) not in card  # nothing of the machine
    header = dict(line.split(": ", 1) for line in card.split("---")[1].strip().splitlines())
    assert "reinforcement-learning" in json.loads(header["tags"])
    result = json.loads(header["model-index"])[0]["results"][0]
    assert result["metrics"][0]["value"] == f"{mean:.2f} +/- {std:.2f}"


def test_the_card_counts_what_did_not_end(finished_run, monkeypatch, tmp_path):
    """One seed is no range, one episode has no deviation, and episodes that were cut are named."""
    config = open_run(finished_run.run).config
    trained = open_run(finished_run.run).newest()
    assert trained.eval_returns is not None
    returns = np.full_like(trained.eval_returns, np.nan)
    returns[0, 0] = 7.0
    cut = dataclasses.replace(trained, eval_returns=returns, config=config.replace(seeds=1))
    monkeypatch.setattr(OpenedRun, "trained", lambda *_: cut)
    monkeypatch.setattr(OpenedRun, "actor", lambda *_: trained.actor())
    card = (export_run(finished_run.run, ["safetensors"], tmp_path / "out").folder / "README.md").read_text()
    assert "Greedy return 7.00 ± 0.00 (one episode). No number includes 3 more, which did not end." in card
    assert "| seeds of the run | 0 |" in card


def test_the_card_claims_no_evaluation_of_other_weights(finished_run, monkeypatch, tmp_path):
    """A run that was interrupted has a checkpoint that is newer than its last evaluation."""
    trained = open_run(finished_run.run).newest()
    metadata = trained.contents.metadata | {"eval_update": trained.update - 1}
    newer = dataclasses.replace(trained, contents=trained.contents._replace(metadata=metadata))
    monkeypatch.setattr(OpenedRun, "trained", lambda *_: newer)
    card = (export_run(finished_run.run, ["safetensors"], tmp_path / "out").folder / "README.md").read_text()
    assert "The run has no evaluation of this agent that ended." in card
    assert "Greedy return" not in card and "mean_reward" not in card


def test_what_the_card_says_about_loading_works(exported, monkeypatch, capsys):
    monkeypatch.chdir(exported.folder)
    codes = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
    assert len(codes) == 3
    for code in codes:
        exec(compile(code, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_command_of_the_card_trains_the_same(finished_run, monkeypatch):
    """`pqn train` reads back every option in which the run differs."""
    import shlex

    from pqn import training

    seen = []

    def train(config, **_):
        seen.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", train)
    for config in (
        open_run(finished_run.run).config,
        pqn.preset("minatar-breakout", seeds=3).replace({"network.hidden": (32, 16), "learner.lam": 0.5}),
        pqn.preset("cartpole").replace({"env.kwargs": {"gravity": 5.5}, "network.last_action": True}),
    ):
        main(shlex.split(train_command(config))[1:])
        assert seen.pop().replace(preset=config.preset) == config


def test_the_command_line(finished_run, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished_run.run, run)
    assert main(["export", str(run)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [str(run / "export" / name) for name in ("agent.safetensors", "agent.json", "README.md")]
    assert main(["export", str(run), "--format", "stablehlo,safetensors"]) == 0  # over its own card
    assert "agent.stablehlo   differs from JAX by at most 0.0e+00" in capsys.readouterr().out


def sentence(words: list[str], capsys) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and not captured.out
    return captured.err


def test_mistakes(finished_run, tmp_path, capsys, monkeypatch):
    run, out = str(finished_run.run), str(tmp_path / "out")
    said = sentence(["export", run, "--format", "onxx", "-o", out], capsys)
    assert "there is no format 'onxx'; it must be one of onnx, stablehlo, safetensors; did you mean 'onnx'?" in said
    said = sentence(["export", run, "--format", "", "-o", out], capsys)
    assert "no format is named; it must be one of onnx, stablehlo, safetensors" in said
    assert "trained seeds 0 to 1, not 9" in sentence(["export", run, "--train-seed", "9", "-o", out], capsys)
    for package, name in (("jax2onnx", "onnx"), ("flatbuffers", "stablehlo")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            said = sentence(["export", run, "--format", name, "-o", out], capsys)
            assert f"this format needs {package}: pip install -e '.[export]'" in said
    assert not Path(out).exists()
    (tmp_path / "README.md").write_text("# Mine")
    said = sentence(["export", run, "-o", str(tmp_path)], capsys)
    assert "README.md is not a model card of pqn: choose another folder with -o" in said
    assert (tmp_path / "README.md").read_text() == "# Mine"
    bare = tmp_path / "bare"
    shutil.copytree(run, bare)
    shutil.rmtree(bare / "checkpoints")
    assert "there is no checkpoint in" in sentence(["export", str(bare)], capsys)


def test_an_export_is_data(exported, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(exported.folder, folder)
    said = json.loads((folder / "agent.json").read_text())
    said["config"]["network"]["hidden"] = [32]
    (folder / "agent.json").write_text(json.dumps(said))
    with pytest.raises(PqnError, match="are not of the same network"):
        load_exported(folder)
    (folder / "agent.safetensors").write_bytes(b"nonsense")
    with pytest.raises(PqnError, match="is no exported agent"):
        load_exported(folder)
    (folder / "agent.safetensors").unlink()
    with pytest.raises(PqnError, match=r"has no agent\.safetensors: export with --format safetensors"):
        load_exported(folder)
    (folder / "agent.json").write_text("[]")
    with pytest.raises(PqnError, match="it is not an object"):
        load_exported(folder)
    with pytest.raises(PqnError, match=r"agent\.json is missing"):
        load_exported(tmp_path)


def test_one_format_is_a_text(finished_run, tmp_path):
    assert export_run(finished_run, "safetensors", tmp_path / "out").written.keys() == {"safetensors"}
