"""Networks of the user: what they must be, what the run records, and that they are given again."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from hub import Client
from opening import Listening

import pqn
from pqn.algorithms import make_algorithm
from pqn.cli.main import main
from pqn.config import Config
from pqn.errors import ConfigError, PqnError
from pqn.export.loading import load_exported
from pqn.export.run import export_run
from pqn.networks.given import make_network, of_run, with_network
from pqn.networks.qnetwork import QNetwork
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.theory.monitor import measure_run
from pqn.types import EnvSpec
from pqn.watch.film import FilmOptions, make_film

QUIET = Progress(quiet=True)
SPEC = EnvSpec("env", (4,), np.dtype("float32"), 2)


class Small(nn.Module):
    """One hidden layer and batch normalisation; with `remember`, the sum of what it saw."""

    num_actions: int
    width: int = 8
    remember: bool = False

    def initial_carry(self, *batch):
        return jnp.zeros((*batch, 4)) if self.remember else ()

    @nn.compact
    def __call__(self, carry, inputs, train=False):
        x = inputs.obs
        if self.remember:
            x = x + carry
            carry = carry + inputs.obs.sum(0)
        x = nn.BatchNorm(use_running_average=not train)(x)
        return carry, nn.Dense(self.num_actions, name="head")(nn.relu(nn.Dense(self.width)(x)))


def small(spec: EnvSpec) -> Small:
    return Small(spec.num_actions)


class Other(Small):
    """Another class with the same parameters."""


MODULE = """
import flax.linen as nn

class Line(nn.Module):
    num_actions: int

    def initial_carry(self, *batch):
        return ()

    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, nn.Dense(self.num_actions, name="head")(inputs.obs)

def make(spec):
    open("made", "w").close()
    return Line(spec.num_actions)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> pqn.Result:
    out = tmp_path_factory.mktemp("given") / "run"
    return pqn.train(tiny(), network=small, out=out, progress=QUIET)


def test_the_run_records_what_the_network_was(trained):
    config, about = (json.loads((trained.run / name).read_text()) for name in ("config.json", "environment.json"))
    assert config["network"]["module"] == "python:test_given.small"
    shapes = {name: tuple(shape) for name, shape in about["network"]["parameters"].items()}
    assert about["network"]["made"] == "test_given.Small"
    assert shapes == {
        "BatchNorm_0/bias": (4,), "BatchNorm_0/scale": (4,), "Dense_0/bias": (8,), "Dense_0/kernel": (4, 8),
        "head/bias": (2,), "head/kernel": (8, 2),
    }  # fmt: skip
    newest = checkpoint.latest(trained.run / "checkpoints")
    assert checkpoint.describe(newest)["network"] == about["network"]


def test_it_learns_with_its_own_parameters_and_statistics(trained):
    contents = checkpoint.read(checkpoint.latest(trained.run / "checkpoints"))
    agent = pqn.load(trained.run, network=Small(2))
    params, stats = (agent.policy.params, agent.policy.stats)
    assert np.any(stats["BatchNorm_0"]["mean"] != 0)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    hidden = (obs - stats["BatchNorm_0"]["mean"]) / np.sqrt(stats["BatchNorm_0"]["var"] + 1e-5)
    hidden = hidden * params["BatchNorm_0"]["scale"] + params["BatchNorm_0"]["bias"]
    hidden = np.maximum(hidden @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"], 0)
    wanted = hidden @ params["head"]["kernel"] + params["head"]["bias"]
    np.testing.assert_allclose(agent.q_values(obs), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(contents.arrays["learner/params/head/kernel"][0], params["head"]["kernel"])


def test_it_must_be_given_again(trained, capsys):
    run = trained.run
    for call in (
        lambda: pqn.load(run),
        lambda: pqn.evaluate(run, 2),
        lambda: pqn.resume(run, progress=Listening()),
        lambda: measure_run(run),
        trained.agent,
        lambda: make_film(run),
        lambda: export_run(run, ["safetensors"]),
    ):
        with pytest.raises(ConfigError, match=r"a network of the user \(python:test_given\.small\), .* network=…"):
            call()
    for name in ("eval", "resume", "stability", "video", "export"):
        assert main([name, str(run)]) == 2
        assert f"`pqn {name} {run} --network module:function`" in capsys.readouterr().err


def test_given_again_it_plays_and_resumes(trained, recwarn):
    assert pqn.evaluate(trained.run, 4, network=Small(2))["step"] == 640
    assert trained.agent(network=lambda spec: Small(spec.num_actions)).step == 640
    assert pqn.resume(trained.run, network=Small(2), progress=Listening()).summary["steps"] == 640
    assert measure_run(trained.run, network=Small(2), transitions=32, iterations=4)[1] == 640
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]
    with pytest.warns(UserWarning, match=r"a network of test_given\.Small; this is one of test_given\.Other"):
        pqn.load(trained.run, network=Other(2))
    with pytest.raises(PqnError, match=r"params/Dense_0/bias has shape \(1, 8\), this run needs \(1, 9\)"):
        pqn.load(trained.run, network=Small(2, width=9))


def test_given_again_it_is_filmed_and_exported(trained, tmp_path):
    film = make_film(trained.run, tmp_path / "film.gif", FilmOptions(max_steps=2), network=small)
    assert film.step == 640 and film.path.stat().st_size > 0
    export_run(trained.run, ["onnx", "stablehlo", "safetensors"], tmp_path / "out", network=small)
    with pytest.raises(PqnError, match=r"a network of the user \(python:test_given\.small\): give network"):
        load_exported(tmp_path / "out")
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    wanted = pqn.load(trained.run, network=small).q_values(obs)
    np.testing.assert_array_equal(load_exported(tmp_path / "out", network=small).q_values(obs), wanted)
    assert 'load_exported(".", network=make_network)' in (tmp_path / "out" / "README.md").read_text()


def test_a_run_without_one_takes_none(finished_run):
    for call in (pqn.load, pqn.evaluate):
        with pytest.raises(ConfigError, match="was trained with a network of pqn; leave out network"):
            call(finished_run.run, network=Small(2))


def test_by_name_from_the_command_line(tmp_path, monkeypatch, capsys):
    """A foreign run directory that names it causes no import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("my_networks.py").write_text(MODULE)
    sizes = ["--env.num-envs=8", "--learner.rollout-steps=8", "--learner.minibatches=4", "--total-steps=128"]
    words = [*sizes, "--eval.num-envs=4", "--eval.count=1", "--save.checkpoints=1", "--env=CartPole-v1", "--quiet"]
    assert main(["train", *words, "--network", "my_networks:make", "--out", "run"]) == 0
    assert json.loads(Path("run/config.json").read_text())["network"]["module"] == "my_networks:make"
    assert main(["eval", "run", "--network", "my_networks:make", "--episodes", "2"]) == 0
    assert main(["video", "run", "--network", "my_networks:make", "--max-steps", "2", "-o", "film.gif"]) == 0
    assert main(["export", "run", "--network", "my_networks:make"]) == 0
    assert """load_exported(".", network='my_networks:make')""" in Path("run/export/README.md").read_text()
    monkeypatch.setitem(sys.modules, "huggingface_hub", Client())
    assert main(["push", "run", "me/agent", "--network", "my_networks:make"]) == 0
    sys.modules.pop("my_networks")
    Path("made").unlink()
    capsys.readouterr()
    assert main(["eval", "run", "--episodes", "2"]) == 2
    assert "repeat" not in (said := capsys.readouterr().err) and "`pqn eval run --network my_networks:make`" in said
    assert main(["push", "run", "me/agent"]) == 2
    assert "`pqn push run --network my_networks:make`" in capsys.readouterr().err
    assert "my_networks" not in sys.modules and not Path("made").exists()
    assert main(["train", *words, "--network", "my_networks:maker", "--out", "other"]) == 2
    assert "maker does not exist in the module my_networks, did you mean make?" in capsys.readouterr().err
    assert main(["train", *words, "--network", "no_module_here:make", "--out", "other"]) == 2
    assert "There is no module 'no_module_here'" in capsys.readouterr().err


def test_the_networks_of_pqn_fulfil_the_same_signature(tmp_path):
    """A `QNetwork` that is given trains to the bits of the one that is described."""
    config = tiny(total_steps=128)
    own = pqn.train(config, out=tmp_path / "own", progress=QUIET)
    given = pqn.train(config, network=QNetwork(config.network, 2), out=tmp_path / "given", progress=QUIET)
    a, b = (checkpoint.read(checkpoint.latest(run.run / "checkpoints")).arrays for run in (own, given))
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


class Without(nn.Module):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, nn.Dense(2)(inputs.obs)


class Flat(Small):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, nn.Dense(2)(inputs.obs)[0]


class Forgets(Small):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return (), nn.Dense(2)(inputs.obs)


class Noisy(Small):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, nn.Dense(2)(nn.Dropout(0.5, deterministic=not train)(inputs.obs))


class Counting(Small):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        self.variable("counters", "calls", jnp.zeros, ())
        return carry, nn.Dense(2)(inputs.obs)


class Half(Small):
    """Layers of another type than float32: their parameters, or what they return."""

    parameters: type = jnp.float32

    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, nn.Dense(2, param_dtype=self.parameters, dtype=jnp.bfloat16)(inputs.obs)


class Alone(Small):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return nn.Dense(2)(inputs.obs)


class Empty(Small):
    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, inputs.obs[..., :2]


def unmade(spec):
    raise OSError("no weights here")


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (3, "network is 3; give a flax module"),
        (lambda spec: 3, "network returned 3; it must return a flax module"),
        (unmade, r"network could not be made: OSError: no weights here \(test_given.py, line \d+\)"),
        (Without(), r"has no method initial_carry\(\*batch\); one without memory returns \(\)"),
        (Small(3), r"returned Q-values of shape \(2, 1, 1, 3\) .* must be numbers of the shape \(2, 1, 1, 2\)"),
        (Flat(2), r"returned Q-values of shape \(1, 1, 2\)"),
        (Forgets(2, remember=True), "returned a carry that differs in form"),
        (Noisy(2), "cannot be called as network.* on observations of env"),
        (Counting(2), "has variables of the kind counters; it may have params and batch_stats"),
        (Empty(2), "has no parameters"),
        (Half(2), r"returned Q-values of type bfloat16; they must be float32"),
        (Half(2, parameters=jnp.float16), r"has parameters of type float16 \(params.Dense_0.bias\); they must be"),
        (Alone(2), r"returned one thing; it must return the carry and the Q-values"),
        (Small(2, remember=True), r"has a memory; say over how many steps gradients flow: learner.segment_length, 64"),
    ],
)
def test_what_is_no_network_is_a_sentence(network, sentence):
    with pytest.raises(ConfigError, match=sentence) as error:
        make_algorithm(with_network(Config(), network), SPEC)
    assert "\n" not in str(error.value)


def test_one_with_a_memory_trains_over_segments():
    options = {"learner.segment_length": 8, "learner.burn_in": 4}
    config = with_network(Config().replace(options), Small(2, remember=True)).validate()
    make_algorithm(config, SPEC)
    assert config.to_dict()["network"]["module"] == "python:test_given.Small"
    changed = config.replace({"learner.lr": 0.1})  # the network is not lost on the way
    make_algorithm(changed, SPEC)
    with pytest.raises(ConfigError, match="a network of your own; give it as network=…"):
        make_algorithm(Config.from_dict(config.to_dict() | {"network": {"module": "python:x"}}), SPEC)


@pytest.mark.parametrize("network", [Small(2), small])
def test_it_goes_with_a_pickled_agent(network):
    config = with_network(Config(), network)
    stored = Config.from_dict(config.to_dict() | {"network": {"module": "python:test_given.Small"}})
    for one in (config, of_run(stored, network, "pqn eval")):  # trained with it, and opened with it
        again = pickle.loads(pickle.dumps(one))
        assert again == one and make_network(again, SPEC) == make_network(one, SPEC)
