"""Shards on one device: an update is what joining the shards by hand gives."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import build, tiny

from pqn import shards
from pqn.algorithms.segments import pick
from pqn.errors import ConfigError
from pqn.networks.norms import Norm
from pqn.networks.qnetwork import QNetwork
from pqn.options import NetworkConfig
from pqn.programs import rollout
from pqn.programs.health import Fault
from pqn.programs.keys import seed_keys, update_keys
from pqn.programs.reported import NO_FAULT
from pqn.programs.shard_mesh import ShardMesh
from pqn.programs.totals import join_shards
from pqn.runs.state_tree import flatten
from pqn.types import Inputs

D = 2


def over_shards(function, *args):
    """`function` of one shard, for arguments with an axis of D shards; what it returns is the same for all."""

    def of_one(*one):
        with shards.on(("shard",)):
            return function(*one)

    return jax.vmap(of_one, out_axes=None, axis_name="shard")(*args)


@pytest.fixture(scope="module")
def program():
    """One gradient step per update: what is joined in it shows in the parameters."""
    return build(tiny({"learner.epochs": 1, "learner.minibatches": 1, "learner.max_grad_norm": 0.05}, shards=D))


def by_hand(program, seed):
    """The first update of a seed: each shard alone, then the mean of their gradients, and one step of the optimiser."""
    algorithm, hyper = program.algorithm, program.hyper
    run_key, net_key, env_key = seed_keys(seed)
    _, collect_key, learn_key = update_keys(run_key)
    learner = algorithm.init(net_key)

    def loss(packed, batch):
        return algorithm.loss(packed.unpack(), {}, batch, hyper)

    gradients, found = [], []
    for shard in range(D):
        env, collect, learn = (jax.random.fold_in(key, shard) for key in (env_key, collect_key, learn_key))
        stream = rollout.start(program.env, algorithm.actor, env)
        _, data, finished = rollout.collect(program.env, algorithm, learner, stream, collect, hyper)
        progress, work = algorithm.prepare(learner, data, learn, hyper)
        batch = pick(work.segments, work.orders[0])
        gradient, (_, metrics) = jax.grad(loss, has_aux=True)(progress.params, batch)
        gradients.append(gradient)
        found.append((metrics["loss"], work.metrics["target"], finished.episodes, finished.ret))
    mean = jax.tree.map(lambda *x: sum(x) / D, *gradients)
    norm = optax.tree.norm(mean)
    clipped = jax.tree.map(lambda x: x * jnp.minimum(1.0, 0.05 / norm), mean)
    change, _ = optax.scale_by_radam().update(clipped, learner.opt)
    after = jax.tree.map(lambda old, new: old - program.config.learner.lr * new, progress.params, change)
    return after.unpack(), norm, jnp.array(found)


def test_an_update_is_that_of_shards_joined_by_hand(program):
    state, reported = jax.jit(lambda seed: program.update_one(program.init_one(seed), program.hyper))(jnp.int32(0))
    params, norm, found = jax.jit(lambda seed: by_hand(program, seed))(jnp.int32(0))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8), state.learner.params, params)
    assert norm > 0.05  # the mean is clipped, not its parts
    np.testing.assert_allclose(reported["grad_norm"], norm, rtol=1e-5)
    assert found[0, 1] != found[1, 1]  # shards have environments and random numbers of their own
    np.testing.assert_allclose(reported["loss"], found[:, 0].mean(), rtol=1e-5)
    np.testing.assert_allclose(reported["target"], found[:, 1].mean(), rtol=1e-5)
    np.testing.assert_allclose(reported["episodes"], found[:, 2].sum())
    np.testing.assert_allclose(reported["return_sum"], found[:, 3].sum())


def test_a_shard_has_its_part_of_the_environments(program):
    assert program.env.num_envs == 4 and program.config.env.num_envs == 8
    assert program.state_shape.stream.inputs.obs.shape[:3] == (1, D, 4)
    assert program.state_shape.learner.updates.shape == (1,)  # parameters, optimiser and counters are shared
    assert program.config.steps_per_update == 64


def test_without_shards_nothing_is_joined():
    x = jnp.arange(3.0)
    assert shards.axes() == () and shards.mean(x) is x and shards.total(x) is x and shards.least(x) is x
    key = jax.random.key(0)
    assert shards.own_key(key) is key


def test_what_shards_share_must_not_differ():
    lifted = ShardMesh(D).over_shards(shards.own_key, (None,), None)
    with pytest.raises(ValueError, match="out_axes"):
        lifted(jax.random.key(0))


@pytest.mark.parametrize("kind", ["batch", "batch_renorm"])
def test_batch_statistics_are_those_of_all_shards(kind):
    """Output, running statistics and gradient of D shards are those of one batch."""
    x = np.random.default_rng(0).normal(size=(D, 6, 3)).astype(np.float32) * [1.0, 5.0, 0.1] + [100.0, -3.0, 0.0]
    x[1] += 2.0  # shards differ in their means
    weight = np.random.default_rng(1).normal(size=x.shape)
    norm = Norm(kind)
    variables = norm.init(jax.random.key(0), jnp.asarray(x[0]), train=True)
    if kind == "batch_renorm":  # as accurate as one batch, once the running mean is near
        variables["batch_stats"]["BatchRenorm_0"]["mean"] = jnp.array([99.0, -2.0, 0.5])

    def loss(params, x, weight):
        given = {"params": params, "batch_stats": variables["batch_stats"]}
        y, mutated = norm.apply(given, x, train=True, mutable=["batch_stats"])
        return jnp.mean(nn.relu(y * weight)), mutated["batch_stats"]

    def one_shard(x, weight):
        gradient, stats = jax.grad(loss, has_aux=True)(variables["params"], x, weight)
        return shards.mean(gradient), stats

    x, weight = jnp.asarray(x), jnp.asarray(weight, jnp.float32)
    joined = over_shards(one_shard, x, weight)
    whole = jax.grad(loss, has_aux=True)(variables["params"], x.reshape(-1, 3), weight.reshape(-1, 3))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3 if kind == "batch" else 1e-5), joined, whole)


def test_gradients_flow_through_the_statistics_of_other_shards():
    """Of what comes before a batch norm: a shard's inputs change the outputs of all shards."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(D, 6, 3)), jnp.float32)
    norm = Norm("batch_renorm")
    variables = norm.init(jax.random.key(0), x[0], train=True)

    def loss(scale, x):
        y, _ = norm.apply(variables, jnp.tanh(scale * x), train=True, mutable=["batch_stats"])
        return jnp.mean(y**3)

    scale = jnp.array([0.5, 1.0, 2.0])
    joined = over_shards(lambda x: shards.mean(jax.grad(loss)(scale, x)), x)
    np.testing.assert_allclose(joined, jax.grad(loss)(scale, x.reshape(-1, 3)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("torso", "held"), [("mlp", 3), ("minatar", 3), ("grid", 4)])
def test_what_a_batch_norm_takes_out_has_no_gradient(torso, held):
    """Biases before a batch norm, and that of the input's norm unless a border of zeros tells where it is added."""
    shape = (5,) if torso == "mlp" else (4, 4, 2)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(D, 1, 6, 1, *shape)), jnp.float32)
    hidden = (4, 3) if torso == "mlp" else (4,)
    network = QNetwork(NetworkConfig(torso=torso, hidden=hidden, norm="batch_renorm", norm_input="batch"), 2)
    variables = network.init(jax.random.key(0), (), Inputs(x[0], jnp.zeros((1, 6, 1), bool)))

    def loss(params, x, train):
        given = {"params": params, "batch_stats": variables["batch_stats"]}
        inputs = Inputs(x, jnp.zeros(x.shape[:3], bool))
        (_, q), _ = network.apply(given, (), inputs, train=train, mutable=["batch_stats"])
        return jnp.mean(q**3)

    def gradient(train):
        def of_shard(x):
            return shards.mean(jax.grad(loss)(variables["params"], x, train))

        return flatten(jax.jit(lambda x: over_shards(of_shard, x))(x))[1]

    whole = flatten(jax.jit(jax.grad(loss), static_argnums=2)(variables["params"], x.reshape(1, -1, 1, *shape), True))[
        1
    ]
    joined, acting = gradient(True), gradient(False)
    silent = {name for name, value in joined.items() if not np.any(value)}
    taken_out = {name for name in whole if name.endswith("bias") and ("Dense" in name or "Conv" in name)}
    taken_out |= {"input_norm/BatchNorm_0/bias"} if torso != "grid" else set()
    assert silent == taken_out and len(silent) == held
    for name, value in whole.items():  # by calculation they have none: without shards it is small, and only rounded
        np.testing.assert_allclose(joined[name], value, rtol=1e-3, atol=1e-6, err_msg=name)
    # With running statistics a bias has an effect.
    assert all(np.any(value) for name, value in acting.items() if name in taken_out)


def test_reports_are_joined_by_what_they_are():
    reports = {
        "loss": jnp.array([1.0, 3.0]),
        "episodes": jnp.array([1.0, 3.0]),
        "return_sum": jnp.array([10.0, 5.0]),
        "param_norm": jnp.array([7.0, 7.0]),
        "bad": jnp.array([NO_FAULT, 12], jnp.int32),
        "fault": jnp.array([Fault.NONE, Fault.OBSERVATION], jnp.int32),
    }

    def join(reported):
        norm = reported.pop("param_norm")
        return join_shards(reported | {"param_norm": shards.mean(norm)})

    joined = over_shards(join, reports)
    assert {name: float(value) for name, value in joined.items()} == {
        "loss": 2.0, "episodes": 4.0, "return_sum": 15.0, "param_norm": 7.0, "bad": 12, "fault": Fault.OBSERVATION
    }  # fmt: skip
    well = over_shards(join, reports | {"bad": jnp.full(2, NO_FAULT, jnp.int32), "fault": jnp.zeros(2, jnp.int32)})
    assert int(well["bad"]) == NO_FAULT and int(well["fault"]) == Fault.NONE


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shards": 3}, r"shards 3 does not divide env.num_envs 8; try shards 2 or env.num_envs 9"),
        (
            {"shards": 8, "learner.minibatches": 16},
            r"minibatches 16 does not divide the batch of 8 .*÷ shards 8\); try 8",
        ),
        ({"shards": 0}, "shards is 0"),
    ],
)
def test_shards_that_do_not_divide_are_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        tiny(options)
