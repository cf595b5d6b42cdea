"""Exported functions compute what the agent computes, for every kind of network, batch and memory."""

from __future__ import annotations

import flax.linen as nn
import jax
import numpy as np
import onnxruntime
import pytest
from jax import export as jax_export

from pqn.agent import Agent
from pqn.algorithms import make_algorithm
from pqn.config import Config
from pqn.errors import CheckpointError, RunError
from pqn.export import formats
from pqn.export.formats import FORMATS
from pqn.export.model import Model, example
from pqn.networks.given import with_network
from pqn.types import EnvSpec

FLOAT, BOOL, BYTE = (np.dtype(name) for name in ("float32", "bool", "uint8"))
SMALL = {"network.hidden": (8,)}
NETWORKS = {
    "mlp": (SMALL, EnvSpec("flat", (4,), FLOAT, 3, masked=True)),
    "minatar": (SMALL | {"network.torso": "minatar"}, EnvSpec("grid", (10, 10, 4), BOOL, 3)),
    "nature": (SMALL | {"network.torso": "nature", "network.norm": "batch"}, EnvSpec("frames", (4, 84, 84), BYTE, 4)),
    "gru": (
        SMALL
        | {"network.memory": "gru", "network.memory_size": 6, "network.last_action": True, "network.last_reward": True},
        EnvSpec("flat", (4,), FLOAT, 3),
    ),
    "actor": (SMALL | {"algorithm": "ppo", "network.norm": "none"}, EnvSpec("flat", (4,), FLOAT, 3)),
    "ids": (SMALL | {"network.agent_id": True}, EnvSpec("team", (4,), FLOAT, 3, num_agents=2, masked=True)),
    "kitchen": (
        SMALL | {"network.torso": "minatar", "network.agent_id": True},
        EnvSpec("grid", (4, 4, 2), BYTE, 6, num_agents=2),
    ),
    "lstm": (
        SMALL | {"network.memory": "lstm", "network.memory_size": 6, "network.memory_layers": 2},
        EnvSpec("team", (4,), FLOAT, 3, num_agents=2, masked=True),
    ),
    "mingru": (
        SMALL | {"network.memory": "mingru", "network.memory_size": 6, "network.last_action": True},
        EnvSpec("flat", (4,), FLOAT, 3),
    ),
    "lru": (
        SMALL | {"network.memory": "lru", "network.memory_size": 6, "network.memory_layers": 2},
        EnvSpec("team", (4,), FLOAT, 3, num_agents=2),
    ),
}


def build(name: str) -> tuple[Model, Agent]:
    options, spec = NETWORKS[name]
    config = Config().replace(options).validate()
    actor = make_algorithm(config, spec).actor
    # Not as at the start, where biases are zero and statistics trivial.
    policy = jax.tree.map(
        lambda x: x + 0.1 * jax.random.normal(jax.random.key(x.size), x.shape) if x.dtype == FLOAT else x,
        actor.init(jax.random.key(1)),
    )
    policy = policy._replace(stats=jax.tree.map(np.abs, policy.stats))
    return Model(config, spec, policy), Agent(actor, policy, 0)


@pytest.fixture(scope="module", params=NETWORKS)
def exported(request, tmp_path_factory):
    """A model, its agent, and functions that run its files."""
    model, agent = build(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    onnx, stablehlo = (FORMATS[name](model, folder) for name in ("onnx", "stablehlo"))
    session = onnxruntime.InferenceSession(str(onnx.file), providers=["CPUExecutionProvider"])
    again = jax_export.deserialize(bytearray(stablehlo.file.read_bytes()))
    assert [each.name for each in session.get_inputs()] == [tensor.name for tensor in model.inputs]
    assert [each.name for each in session.get_outputs()] == model.output_names

    def run_onnx(inputs):
        return session.run(None, dict(zip([x.name for x in model.inputs], inputs, strict=True)))

    return model, agent, {"onnx": run_onnx, "stablehlo": lambda inputs: jax.device_get(again.call(*inputs))}


def test_every_batch(exported):
    """ONNX to 1e-5, StableHLO exactly; the size is another than those that the export itself has tried."""
    model, _, runs = exported
    inputs = example(model.inputs, 5, model.spec.num_actions, seed=10)
    ours = jax.device_get(jax.jit(model)(*inputs))
    outputs = zip(model.outputs, ours, runs["onnx"](inputs), runs["stablehlo"](inputs), strict=True)
    for tensor, mine, onnx, stablehlo in outputs:
        assert onnx.shape == mine.shape == (5, *tensor.shape) and onnx.dtype == tensor.dtype
        np.testing.assert_allclose(onnx, mine, rtol=0, atol=1e-5 * max(1, np.abs(mine).max()))
        np.testing.assert_array_equal(stablehlo, mine)


def test_an_episode_goes_as_the_agents_does(exported, monkeypatch):
    """Actions and scores of a few steps, with masks, memory and the past handed from call to call."""
    model, agent, runs = exported
    compute, seen = agent._turn, []

    def noting(*args):
        carry, action, scores = compute(*args)
        seen.append(np.asarray(scores))
        return carry, action, scores

    monkeypatch.setattr(agent, "_turn", noting)
    batch, steps = 3, 4
    for run in runs.values():
        agent.reset()
        memory = [np.zeros((batch, *tensor.shape), tensor.dtype) for tensor in model.memory]
        last = np.zeros((batch, *model.outputs[0].shape), np.int32)
        for t in range(steps):
            inputs = example(model.inputs, batch, model.spec.num_actions, seed=t)
            given = dict(zip([tensor.name for tensor in model.inputs], inputs, strict=True))
            first = np.full(batch, t == 0)
            if "first" in given:
                given["first"] = np.broadcast_to(first.reshape(batch, *[1] * (last.ndim - 1)), last.shape).copy()
            if "last_action" in given:
                given["last_action"] = last
            given |= {tensor.name: array for tensor, array in zip(model.memory, memory, strict=True)}
            last, scores, *memory = run(list(given.values()))
            past = {"reward": given["last_reward"]} if "last_reward" in given else {}
            expected = agent.act(given["obs"], avail=given.get("avail"), first=first, **past)
            np.testing.assert_array_equal(last, expected)
            wanted = seen.pop().reshape(scores.shape)
            np.testing.assert_allclose(scores, wanted, rtol=0, atol=1e-5 * max(1, np.abs(wanted).max()))


def test_masks_decide(exported):
    model, _, runs = exported
    if not model.spec.masked:
        return
    inputs = example(model.inputs, 2, model.spec.num_actions)
    place = [tensor.name for tensor in model.inputs].index("avail")
    for only in range(model.spec.num_actions):
        inputs[place] = np.zeros_like(inputs[place])
        inputs[place][..., only] = True
        for run in runs.values():
            assert (run(inputs)[0] == only).all()


class FixedBatch(nn.Module):
    """A network that needs the size of its batch as a number, which a function for any size does not have."""

    def initial_carry(self, *batch):
        return ()

    @nn.compact
    def __call__(self, carry, inputs, train=False):
        return carry, nn.Dense(3, name="head")(inputs.obs) / int(inputs.obs.shape[1])


def test_a_network_that_cannot_be_exported(tmp_path):
    spec, config = EnvSpec("flat", (4,), FLOAT, 3), with_network(Config(), FixedBatch())
    model = Model(config, spec, make_algorithm(config, spec).actor.init(jax.random.key(0)))
    for name, told in (("onnx", "ONNX"), ("stablehlo", "StableHLO for a batch of any size")):
        with pytest.raises(RunError, match=rf"this network cannot be written as {told} \(.+\); try --format"):
            FORMATS[name](model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_wrong_translation_is_not_written(tmp_path, monkeypatch):
    model, _ = build("mlp")

    def differently(*args: object, **options: object):
        import jax2onnx

        return jax2onnx.to_onnx(
            lambda *x: tuple(y + 2e-5 if y.dtype == FLOAT else y for y in model(*x)), *args[1:], **options
        )

    class Wrong:
        to_onnx = staticmethod(differently)

    real = formats._require
    monkeypatch.setattr(formats, "_require", lambda package: Wrong if package == "jax2onnx" else real(package))
    with pytest.raises(CheckpointError, match=r"agent.onnx was not written: its outputs differ from the agent's by 2"):
        FORMATS["onnx"](model, tmp_path)
    assert not list(tmp_path.iterdir())
