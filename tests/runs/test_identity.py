"""A run never lies about itself: what it was trained in, with what, and from where it goes on.

Environments are given in all three ways that Python knows, and one by name; all look like CartPole to a network, so
that nothing but an identity could tell them apart.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from hostenvs import HostFromJax
from opening import Listening, WouldTrain, copy_of, would_train

import pqn
from pqn import training
from pqn.cli.main import main
from pqn.envs import registry
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.errors import CheckpointError, EnvError, PqnError, RunError
from pqn.play import evaluate_run
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs import directory as runs
from pqn.theory.monitor import measure_run
from pqn.types import EnvSpec

SHORT = {"save.checkpoints": 2, "eval.count": 1, "log.rows": 2, "total_steps": 128}
OLD = Path(__file__).parents[1] / "data" / "run-96e9915"  # without identities, ids and totals


class Mine:
    """Three steps that look like CartPole's, then 7 in all; whoever plays CartPole instead gets another number."""

    def __init__(self, name: str = "mine", actions: int = 2, size: int = 4, limit: int | None = 3):
        self.spec = EnvSpec(name, (size,), np.dtype("float32"), actions, max_episode_steps=limit)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(self.spec.obs_shape)

    def step(self, key, state, action):
        state = state + 1
        obs = jnp.full(self.spec.obs_shape, state.astype(jnp.float32))
        return Outcome(state, obs, jnp.where(state == 3, 7.0, 0.0), state == 3)


def mine(**options: Any) -> Mine:
    """Looks Mine up when it is called: a test exchanges it."""
    return Mine(**options)


WAYS = {
    "an object": mine,
    "a function of JAX environments": lambda **options: lambda num_envs: Autoreset(Mine(**options), num_envs),
    "a function of simulators": lambda **options: lambda num_envs: HostFromJax(Mine(**options), num_envs),
}
CLASSES = {"a function of simulators": "hostenvs.HostFromJax"}


@pytest.fixture(scope="module", params=WAYS)
def given(request, tmp_path_factory) -> tuple[str, Any, Path]:
    """How, a function that makes the environment anew, and a finished run in it."""
    make = WAYS[request.param]
    out = tmp_path_factory.mktemp("given") / "run"
    pqn.train(tiny(SHORT), env=make(), out=out, progress=Progress(quiet=True))
    return request.param, make, out


@pytest.fixture
def copy(tmp_path, finished_run) -> Path:
    """A finished run to change."""
    return copy_of(finished_run.run, tmp_path)


def manifest(run: Path) -> dict[str, Any]:
    path = checkpoint.latest(run / "checkpoints")
    assert path is not None
    return checkpoint.read(path).metadata


def edit(file: Path, **changes: Any) -> None:
    """Changes values of a JSON file by names such as env__name."""
    content = json.loads(file.read_text())
    for name, value in changes.items():
        *parents, last = name.split("__")
        node = content
        for parent in parents:
            node = node[parent]
        node[last] = value
    file.write_text(json.dumps(content))


@pytest.fixture
def no_training(monkeypatch) -> None:
    monkeypatch.setattr(training.loop.Loop, "compile", would_train)


# ----------------------------------------------------------------------------------------------- environments in Python


def test_a_run_records_what_it_was_trained_in(given):
    way, _, run = given
    config, about = (json.loads((run / name).read_text()) for name in ("config.json", "environment.json"))
    assert config["env"]["name"].startswith("python:test_identity.") and config["env"]["kwargs"] == {}
    env, saved = about["env"], manifest(run)
    assert env["kind"] == "python" and env["name"] == config["env"]["name"]
    assert env["made"] == CLASSES.get(way, "test_identity.Mine")
    assert env["spec"]["name"] == "mine" and env["spec"]["num_actions"] == 2 and env["spec"]["obs_shape"] == [4]
    assert saved["env"] == env and saved["run"] == about["run"] and len(saved["run"]) == 32
    assert json.loads((run / "summary.json").read_text())["env"] == env["name"]
    with pytest.raises(EnvError, match="was given in Python and has no name"):
        registry.make(env["name"], 1)


def test_it_must_be_given_again(given, capsys):
    _, _, run = given
    for call in (lambda: evaluate_run(run, 2), lambda: pqn.resume(run), lambda: measure_run(run)):
        with pytest.raises(
            EnvError, match=r"given in Python \(test_identity\..*\); give it again: env=… in Python, or"
        ):
            call()
    for name in ("eval", "resume", "stability"):
        assert main([name, str(run)]) == 2
        error = capsys.readouterr().err
        assert f"`pqn {name} {run} --env module:function`" in error and error.count("\n") == 1


def test_given_again_it_is_played(given, recwarn):
    _, make, run = given
    report = evaluate_run(run, 2, env=make())
    assert report["returns"].tolist() == [[7.0, 7.0]] and report["env"].startswith("python:")
    assert pqn.load(run).step == pqn.load(run, env=make()).step == 128
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]
    assert pqn.resume(run, env=make(), progress=Listening()).summary["steps"] == 128


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"actions": 3}, "its number of actions is 3, the run's is 2"),
        ({"size": 5}, r"its observation shape is \(5,\), the run's is \(4,\)"),
    ],
)
def test_an_environment_that_the_network_does_not_fit_is_refused_everywhere(given, options, sentence):
    _, make, run = given
    wrong = make(**options)
    calls = [
        lambda: evaluate_run(run, 2, env=wrong),
        lambda: pqn.load(run, env=wrong),
        lambda: pqn.resume(run, env=wrong, progress=Listening()),
        lambda: measure_run(run, env=wrong),
    ]
    for call in calls:
        with pytest.raises(EnvError, match=sentence):
            call()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "yours"}, "its name is yours, the run's is mine"),
        ({"limit": 4}, "its longest episode is 4, the run's is 3"),
    ],
)
def test_another_environment_cannot_go_on_where_this_one_stopped(given, options, sentence):
    _, make, run = given
    with pytest.raises(EnvError, match=sentence):
        pqn.resume(run, env=make(**options), progress=Listening())


def test_a_run_on_its_way_goes_on_in_its_environment(tmp_path):
    """Really, and in the same bits as one that was not stopped."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    pqn.train(tiny(SHORT), env=Mine(), out=whole, progress=Progress(quiet=True))
    shutil.copytree(whole, cut)
    shutil.rmtree(cut / "checkpoints" / "step-000000000002")
    pqn.resume(cut, env=Mine(), progress=Progress(quiet=True))
    one, two = (checkpoint.read(run / "checkpoints" / "step-000000000002").arrays for run in (whole, cut))
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name])


def test_stability_of_an_environment_given_in_python(tmp_path):
    run = tmp_path / "run"
    pqn.train(tiny(SHORT), env=Mine(), out=run, progress=Progress(quiet=True))
    report, step = measure_run(run, transitions=64, iterations=4, env=Mine())
    assert step == 128 and report.transitions >= 64


class Other(Mine):
    """Another class that claims to be the same."""


def test_another_class_is_said(given, monkeypatch):
    way, make, run = given
    same_function = make()
    monkeypatch.setattr(f"{__name__}.Mine", Other)
    listening = Listening()
    pqn.resume(run, env=make() if way == "an object" else same_function, progress=listening)
    said = {
        "an object": "was trained in python:test_identity.Mine; this is python:test_identity.Other",
        "a function of JAX environments": "in environments of test_identity.Mine; these are of test_identity.Other",
    }
    assert way not in said or any(said[way] in line for line in listening.said)


# ---------------------------------------------------------------------------------------------- functions and names

MODULE = """
from test_identity import Mine

def make(name="mine"):
    return Mine(name)
"""


def test_a_function_is_called_only_if_it_is_named_again(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = tmp_path / "run"
    config = tiny(SHORT | {"env.name": "own_module:make", "env.kwargs": {"name": "mine"}})
    pqn.train(config, out=run, progress=Progress(quiet=True))
    assert manifest(run)["env"]["kind"] == "function" and manifest(run)["env"]["kwargs"] == {"name": "mine"}
    for command in ("eval", "resume", "stability"):
        assert main([command, str(run)]) == 2
        assert f"repeat `pqn {command} {run} --env own_module:make`" in capsys.readouterr().err
    assert pqn.load(run).step == 128  # needs no environment
    assert pqn.resume(run, env="own_module:make", progress=Listening()).summary["steps"] == 128
    assert main(["resume", str(run), "--env", "own_module:make", "--quiet"]) == 0
    assert main(["eval", str(run), "--env", "own_module:make", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["returns"] == [[7.0, 7.0]]


def test_a_registered_run_plays_elsewhere_but_does_not_go_on_there(copy):
    said: list[str] = []
    report = evaluate_run(copy, 2, env=Mine(), warn=said.append)
    assert report["returns"].tolist() == [[7.0, 7.0]] * 2 and report["env"] == "python:test_identity.Mine"
    assert any("was trained in CartPole-v1; this is python:test_identity.Mine" in line for line in said)
    for env in (Mine(), Mine("CartPole-v1", limit=500), "Acrobot-v1", "probe:two-step"):
        with pytest.raises(EnvError, match=r"is not the environment that .*: its .* is .*, the run's is"):
            pqn.resume(copy, env=env, progress=Listening())
    with pytest.raises(EnvError, match="its number of actions is 3, the run's is 2"):
        evaluate_run(copy, 2, env="Acrobot-v1")
    same = pqn.resume(copy, env="gymnax:CartPole-v1", progress=Listening())  # another spelling
    assert same.summary["steps"] == 640


def test_an_environment_that_looks_the_same_does_not_go_on_in_a_registered_run(copy):
    twin = Mine()
    twin.spec = registry.make("CartPole-v1", 1).spec
    with pytest.raises(EnvError, match=r"trained in CartPole-v1; it cannot go on in python:test_identity\.Mine"):
        pqn.resume(copy, env=twin, progress=Listening())


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (3, "env is of type int; give the name"),
        (lambda: None, "is a NoneType without `spec` and `reset` and `step`"),
        (lambda a, b: None, "is called with the number of environments, and test_identity.<lambda> does not take that"),
        (lambda n, size: Mine(), "does not take that: missing a required argument: 'size'"),
        (HostFromJax(Mine(), 2), "lambda num_envs: HostFromJax"),
    ],
)
def test_what_is_no_environment(env, sentence, tmp_path):
    with pytest.raises(EnvError, match=sentence):
        pqn.train(tiny(SHORT), env=env, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_of_a_function_are_recorded_and_given_again(tmp_path, no_training):
    seen = []

    def build(num_envs, level=1):
        seen.append(level)
        return Autoreset(Mine(), num_envs)

    run = tmp_path / "run"
    with pytest.raises(WouldTrain):
        pqn.train(tiny(SHORT | {"env.kwargs": {"level": 5}}), env=build, out=run, progress=Listening())
    assert json.loads((run / "environment.json").read_text())["env"]["kwargs"] == {"level": 5}
    with pytest.raises(WouldTrain):
        pqn.resume(run, env=build, progress=Listening())
    assert set(seen) == {5}
    with pytest.raises(EnvError, match=r"env.kwargs \(level=5\), and .* does not take that"):
        pqn.resume(run, env=lambda num_envs: Autoreset(Mine(), num_envs), progress=Listening())


def test_versions_that_changed_are_said(copy, monkeypatch):
    monkeypatch.setattr("pqn.runs.identity.version", lambda name: {"gymnax": "0.0.7"}.get(name, "1"))
    listening = Listening()
    pqn.resume(copy, progress=listening)
    assert any("other versions: " in line and "gymnax 1.0.1 → 0.0.7" in line for line in listening.said)
    assert json.loads((copy / "environment.json").read_text())["env"]["versions"].keys() == {"gymnax"}


@pytest.mark.parametrize(
    ("name", "kwargs", "packages"),
    [
        ("CartPole-v1", {}, ("gymnax",)),
        ("Craftax-Symbolic-v1", {}, ("craftax",)),
        ("smax:3m", {}, ("jaxmarl",)),
        ("atari:pong", {}, ("ale-py",)),
        ("atari:pong", {"backend": "envpool"}, ("envpool",)),
        ("gymnasium:CartPole-v1", {}, ("gymnasium",)),
        ("probe:two-step", {}, ()),
    ],
)
def test_the_packages_behind_an_environment(name, kwargs, packages):
    assert registry.packages(name, kwargs) == packages


@pytest.mark.parametrize(
    ("name", "kwargs", "harmless"),
    [
        ("CartPole-v1", {"observe": [0, 2]}, True),
        ("gymnasium:CartPole-v1", {}, True),
        ("gymnasium:FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, True),
        ("gymnasium:os:CartPole-v1", {}, False),
        ("gymnasium:nothing/CartPole-v1", {}, False),
        ("gymnasium:CartPole-v1", {"render_mode": "human"}, False),
        ("gymnasium:Ant-v5", {"xml_file": "/tmp/evil.xml"}, False),
        ("gymnasium:CartPole-v1", {"wrappers": ["os:system"]}, False),
        ("os:system", {}, False),
    ],
)
def test_what_a_run_may_name(name, kwargs, harmless):
    assert registry.is_harmless(name, kwargs) == harmless


# ------------------------------------------------------------------------------------------------------ configurations


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"learner__lr": 0.5}, "learner.lr is 0.5 in config.json and 0.0001 in the checkpoint"),
        ({"learner__lr_decay": False}, "learner.lr_decay is false in config.json and true in the checkpoint"),
        ({"seed": 7}, "seed is 7 in config.json and 0 in the checkpoint"),
        ({"total_steps": 6400}, "total_steps is 6400 in config.json and 640 in the checkpoint"),
        ({"preset": "cartpole"}, 'preset is "cartpole" in config.json and "custom" in the checkpoint'),
        ({"env__kwargs": {"gravity": 5}}, r'env.kwargs is {"gravity": 5} in config.json and {} in the checkpoint'),
        ({"seed": 7, "learner__gamma": 0.5}, "seed is 7 .*, learner.gamma is 0.5 in"),
        ({"env__name": "Acrobot-v1"}, "env.name is Acrobot-v1 in config.json, but the run was trained in CartPole-v1"),
    ],
)
def test_an_edited_configuration_is_refused_by_name(copy, change, sentence, capsys):
    edit(copy / "config.json", **change)
    for call in (lambda: pqn.resume(copy, progress=Listening()), lambda: evaluate_run(copy, 1), lambda: pqn.load(copy)):
        with pytest.raises(PqnError, match=sentence):
            call()
    assert main(["resume", str(copy)]) == 2


def test_what_may_change_is_said(copy):
    edit(copy / "config.json", save__keep=1, eval__num_envs=3, simulators__cores="shared")
    listening = Listening()
    pqn.resume(copy, progress=listening)
    changed = [line for line in listening.said if "changed since the checkpoint" in line]
    assert len(changed) == 1 and "save.keep is 1 in config.json and 3 in the checkpoint" in changed[0]
    assert "eval.num_envs is 3" in changed[0] and "simulators.cores" in changed[0]


def test_a_checkpoint_of_another_run_is_refused(copy, finished_run):
    edit(copy / "environment.json", run="0" * 32)
    for call in (lambda: pqn.resume(copy, progress=Listening()), lambda: pqn.load(copy)):
        with pytest.raises(
            CheckpointError, match=r"belongs to another run \(its id is [0-9a-f]{32}, this run's is 0+\)"
        ):
            call()


# ------------------------------------------------------------------------------------------------------- checkpoints


def spoil(run: Path, count: int) -> None:
    for path in sorted((run / "checkpoints").iterdir(), reverse=True)[:count]:
        (path / "state.safetensors").write_bytes(b"spoiled")


def test_a_fallback_is_always_said(copy, no_training, capsys):
    spoil(copy, 1)
    with pytest.warns(UserWarning, match="step-000000000010 is damaged: .*; using the previous one") as said:
        assert pqn.load(copy).step == 512
    assert said[0].filename == __file__  # the user's own line, not ours
    listening = Listening()
    with pytest.raises(WouldTrain):
        pqn.resume(copy, progress=listening)
    assert any("using the previous one" in line for line in listening.said)
    heard: list[str] = []
    assert evaluate_run(copy, 2, warn=heard.append)["step"] == 512 and "using the previous one" in heard[0]
    assert main(["eval", str(copy), "--episodes", "2", "--json"]) == 0
    captured = capsys.readouterr()
    assert "using the previous one" in captured.err and json.loads(captured.out)["step"] == 512


def test_without_an_intact_checkpoint_nothing_starts_from_zero(copy, no_training, capsys):
    spoil(copy, 3)
    assert main(["resume", str(copy), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "all 3 are damaged; to start anew, train in another directory, or remove" in error
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="all 3 are damaged"):
        pqn.load(copy)
    shutil.rmtree(copy / "checkpoints")
    listening = Listening()
    with pytest.raises(WouldTrain):
        pqn.resume(copy, progress=listening)
    assert any("starting from the beginning" in line for line in listening.said)
    assert (copy / "metrics.jsonl").read_text() == "" and not (copy / "summary.json").exists()


def test_a_run_that_goes_on_has_no_summary(copy, no_training):
    spoil(copy, 1)
    with pytest.raises(WouldTrain):
        pqn.resume(copy, progress=Listening())
    assert not (copy / "summary.json").exists()


@pytest.mark.parametrize("content", ["{}", "garbage", "[]", '{"steps": "many"}', None])
def test_a_summary_that_is_lost_is_written_again(copy, content):
    before = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").unlink()
    if content is not None:
        (copy / "summary.json").write_text(content)
    listening = Listening()
    summary = pqn.resume(copy, progress=listening).summary
    assert summary["eval_return"] == before["eval_return"] and summary["steps"] == 640
    assert any("writing it again" in line for line in listening.said) == (content is not None)


# ------------------------------------------------------------------------------------------------------------ metrics


@pytest.mark.parametrize(
    ("lose", "sentence"),
    [
        (lambda rows: [], "there is no training row of update 1 to 10"),
        (lambda rows: rows[:3], "there is no training row of update 4 to 10"),
        (lambda rows: [row for row in rows if row["update"] not in (4, 5, 6)], "of update 4 to 6"),
        (lambda rows: [row for row in rows if row["kind"] != "eval" or row["update"] == 10], "1 of 3 rows of eval"),
        (lambda rows: rows, None),
    ],
)
def test_rows_that_are_missing_are_said(copy, lose, sentence):
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lose(rows)))
    listening = Listening()
    pqn.resume(copy, progress=listening)
    said = [line for line in listening.said if "metrics.jsonl is not complete" in line]
    assert bool(said) == (sentence is not None) and (sentence is None or sentence in said[0])


def test_no_metrics_at_all(copy):
    (copy / "metrics.jsonl").unlink()
    listening = Listening()
    pqn.resume(copy, progress=listening)
    assert any("there is no training row of update 1 to 10" in line for line in listening.said)


def test_what_was_rounded_is_said(tmp_path, no_training):
    listening = Listening()
    with pytest.raises(WouldTrain):
        pqn.train(tiny(total_steps=700), out=tmp_path / "run", progress=listening)
    assert tiny(total_steps=700).rounding() in listening.said and "640" in str(tiny(total_steps=700).rounding())


def test_the_summary_says_what_was_asked_for(finished_run):
    assert finished_run.summary["steps"] == finished_run.summary["requested_steps"] == 640


def test_an_older_run_that_was_given_its_environment_in_python(tmp_path):
    """It says CartPole-v1 whatever it was; its spec tells."""
    old = copy_of(OLD, tmp_path)
    with pytest.raises(EnvError, match="its name is mine, the run's is CartPole-v1"):
        pqn.resume(old, env=Mine(), progress=Listening())
    twin = Mine()
    twin.spec = registry.make("CartPole-v1", 1).spec
    with pytest.raises(PqnError, match="another configuration or version of pqn"):  # its state has another form
        pqn.resume(old, env=twin, progress=Listening())


def test_a_directory_that_is_none(tmp_path):
    with pytest.raises(RunError, match="is not a run directory"):
        pqn.load(tmp_path)
    assert runs.RunDir(tmp_path).path == tmp_path
