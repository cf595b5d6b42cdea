"""Networks against their equations, written out with numpy and XLA's own convolution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.networks import torsos
from pqn.networks.heads import Head
from pqn.networks.mixers import QMIX
from pqn.networks.norms import BatchRenorm
from pqn.networks.pixels import image
from pqn.networks.qnetwork import TORSOS, _with_agent_id, kernel_norms


def shaken(params, seed=5):
    """Parameters of which none is at its initial 0 or 1."""
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    noise = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, noise)


# ---- norms ----


def renormalised(x, mean, var, updates):
    """Batch renormalisation with the numbers of the public code: 0.999, 1e-3, r ≤ 3, |d| ≤ 5, from update 100 on."""
    sigma, running = np.sqrt(x.var(0) + 1e-3), np.sqrt(var + 1e-3)
    r = np.clip(sigma / running, 1 / 3, 3) if updates >= 100 else 1.0
    d = np.clip((x.mean(0) - mean) / running, -5, 5) if updates >= 100 else 0.0
    share = max(1 / (updates + 1), 0.001)
    moved = (mean + share * (x.mean(0) - mean), var + share * (x.var(0) - var))
    return r, d, sigma, moved


@pytest.mark.parametrize("updates", [0, 99, 100, 5000])
def test_batch_renorm_is_that_of_the_public_code(updates):
    """Of five features the first is as expected, the others are wide, narrow, high and low."""
    rng = np.random.default_rng(updates)
    x = rng.normal(size=(16, 5)) * [1.0, 20.0, 0.05, 1.0, 1.0] + [0.2, 0.0, 0.0, 50.0, -50.0]
    mean, var = rng.normal(size=5) * 0.1, 1.0 + rng.uniform(size=5)
    module = BatchRenorm()
    params = shaken(module.init(jax.random.key(0), jnp.asarray(x), False)["params"])
    stats = {"mean": jnp.asarray(mean), "var": jnp.asarray(var), "updates": jnp.int32(updates)}
    weights = jnp.asarray(rng.normal(size=x.shape))

    def ours(x):
        y, mutated = module.apply({"params": params, "batch_stats": stats}, x, True, mutable=["batch_stats"])
        return jnp.sum(weights * y), (y, mutated["batch_stats"])

    gradient, (y, after) = jax.grad(ours, has_aux=True)(jnp.asarray(x))
    r, d, sigma, moved = renormalised(x, mean, var, updates)
    scale, bias = np.asarray(params["scale"]), np.asarray(params["bias"])
    np.testing.assert_allclose(y, ((x - x.mean(0)) / sigma * r + d) * scale + bias, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(after["mean"], moved[0], rtol=1e-4)
    np.testing.assert_allclose(after["var"], moved[1], rtol=1e-4)
    assert int(after["updates"]) == updates + 1
    # r and d are constants: the gradient is that of plain batch norm, times r.
    slope = np.asarray(weights) * scale * r
    unit = (x - x.mean(0)) / sigma
    expected = (slope - slope.mean(0) - unit * (slope * unit).mean(0)) / sigma
    np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-3)
    acting = module.apply({"params": params, "batch_stats": stats}, jnp.asarray(x), False)
    np.testing.assert_allclose(acting, (x - mean) / np.sqrt(var + 1e-3) * scale + bias, rtol=1e-3, atol=1e-3)


# ---- torsos ----


def norm_of(x, params):
    params = params["LayerNorm_0"]
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * params["scale"] + params["bias"]


def conv_of(x, params, stride=1, padding="VALID"):
    layout = ("NHWC", "HWIO", "NHWC")
    out = jax.lax.conv_general_dilated(x, params["kernel"], (stride, stride), padding, dimension_numbers=layout)
    return out + params["bias"]


def pool_of(x, window, stride):
    shape, strides = (1, window, window, 1), (1, stride, stride, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, shape, strides, "SAME")


def dense_of(x, params, activation):
    x = x.reshape(len(x), -1) @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"]
    return activation(norm_of(x, params["Norm_0"]))


def mlp(x, p):
    return dense_of(x, p, jax.nn.relu)


def minatar(x, p):
    return dense_of(jax.nn.relu(norm_of(conv_of(x, p["Conv_0"]), p["Norm_0"])), p["MLP_0"], jax.nn.relu)


def grid(x, p):
    for i in range(3):
        x = jax.nn.relu(norm_of(conv_of(x, p[f"Conv_{i}"], padding="SAME"), p[f"Norm_{i}"]))
    return dense_of(x, p["MLP_0"], jax.nn.relu)


def nature(x, p):
    for i, stride in enumerate((4, 2, 1)):
        x = jax.nn.relu(norm_of(conv_of(x, p[f"Conv_{i}"], stride), p[f"Norm_{i}"]))
    return dense_of(x, p["MLP_0"], jax.nn.relu)


def impala(x, p):

    def conv(x, i):
        return conv_of(x, p[f"Conv_{i}"], padding="SAME")

    def act(x, i):
        return jax.nn.relu(norm_of(x, p[f"Norm_{i}"]))

    for stage in range(3):
        x = pool_of(conv(x, 5 * stage), 3, 2)
        for block in range(2):
            c, n = 5 * stage + 1 + 2 * block, 4 * stage + 2 * block
            x = x + conv(act(conv(act(x, n), c), n + 1), c + 1)
    return dense_of(act(x, 12), p["MLP_0"], jax.nn.relu)


def hadamax(x, p):
    for i, (window, stride) in enumerate(((4, 4), (2, 2), (3, 1))):
        left, right = (
            jax.nn.gelu(norm_of(conv_of(x, p[f"Conv_{j}"], padding="SAME"), p[f"Norm_{j}"])) for j in (2 * i, 2 * i + 1)
        )
        x = pool_of(left * right, window, stride)
    return dense_of(x, p["MLP_0"], jax.nn.gelu)


SHAPES = {"mlp": (7,), "minatar": (10, 10, 4), "grid": (4, 5, 3), "nature": (36, 36, 2), "impala": (9, 9, 2)}
SHAPES["hadamax"] = (16, 16, 2)


@pytest.mark.parametrize("torso", [mlp, minatar, grid, nature, impala, hadamax], ids=lambda f: f.__name__)
def test_torsos_are_these_layers_of_flax(torso):
    name = torso.__name__
    options = {"hidden": (6,), "norm": "layer", "kernel_init": "he_normal"}
    module = TORSOS[name](**options)
    x = jax.random.uniform(jax.random.key(1), (2, *SHAPES[name]))
    params = shaken(module.init(jax.random.key(0), x, False)["params"])
    ours = jax.jit(lambda params: module.apply({"params": params}, x, False))(params)
    assert ours.shape == (2, 6)
    np.testing.assert_allclose(ours, jax.jit(lambda params: torso(x, params))(params), rtol=1e-3, atol=1e-4)
    if name == "minatar":  # the network of Young & Tian (2019)
        assert params["Conv_0"]["kernel"].shape == (3, 3, 4, 16)


@pytest.mark.parametrize(("init", "gain"), [("he_normal", 2.0), ("lecun_normal", 1.0)])
def test_kernels_start_with_the_variance_of_their_initialiser(init, gain):
    x = jnp.zeros((1, 300))
    params = torsos.MLP((300,), "layer", init).init(jax.random.key(0), x, False)["params"]
    assert float(params["Dense_0"]["kernel"].var()) * 300 == pytest.approx(gain, rel=0.05)
    assert not params["Dense_0"]["bias"].any()


def test_images_are_scaled_and_have_their_channels_last():
    frames = np.random.default_rng(0).integers(0, 256, (2, 3, 8, 9)).astype(np.uint8)
    np.testing.assert_allclose(image(jnp.asarray(frames), "float32"), frames.transpose(0, 2, 3, 1) / 255, rtol=1e-6)
    last = frames.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(image(jnp.asarray(last), "float32"), last / 255, rtol=1e-6)
    np.testing.assert_array_equal(image(jnp.asarray(last, jnp.float32), "float32"), last)


# ---- heads, ids, regulariser, mixers ----


def test_a_dueling_head_has_its_value_as_the_mean_over_actions():
    x = jax.random.normal(jax.random.key(0), (5, 7))
    head = Head("dueling", 4)
    params = shaken(head.init(jax.random.key(1), x)["params"])
    q = head.apply({"params": params}, x)
    value, advantage = (x @ params[name]["kernel"] + params[name]["bias"] for name in ("value", "advantage"))
    np.testing.assert_allclose(q.mean(-1, keepdims=True), value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q - value, advantage - advantage.mean(-1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_agent_ids_number_the_agents_of_every_environment():
    x = jnp.arange(2 * 3 * 2.0).reshape(6, 2)  # two environments of three agents
    np.testing.assert_array_equal(_with_agent_id(x, 3), np.concatenate([x, np.tile(np.eye(3), (2, 1))], axis=1))


def test_the_regulariser_looks_at_kernels_only():
    params = {
        "head": {"q": {"kernel": jnp.full(2, 2.0), "bias": jnp.full(2, 3.0)}},
        "memory_0": {"recurrent": jnp.full(3, 2.0), "candidate_bias": jnp.full(3, 5.0)},
        "torso": {"Norm_0": {"LayerNorm_0": {"scale": jnp.full(2, 7.0), "bias": jnp.full(2, 7.0)}}},
    }
    assert [float(part) for part in kernel_norms(params)] == [4.0, 6.0]


def test_qmix_is_its_equation():
    """h = ELU(|W₁(s)|ᵀ q + b₁(s)),  Q = |w₂(s)|ᵀ h + v(s); hypernetworks of one hidden layer with LayerNorm."""
    module = QMIX(size=3, hyper_size=4)
    q, world = jax.random.normal(jax.random.key(1), (5, 2)), jax.random.normal(jax.random.key(2), (5, 6))
    p = shaken(module.init(jax.random.key(0), q, world)["params"])

    def hyper(name):
        hidden = world @ p[f"{name}_hidden"]["kernel"] + p[f"{name}_hidden"]["bias"]
        hidden = jax.nn.relu(norm_of(hidden, {"LayerNorm_0": p[f"{name}_norm"]}))
        return hidden @ p[name]["kernel"] + p[name]["bias"]

    first = np.abs(hyper("weights")).reshape(5, 2, 3)
    bias = world @ p["bias"]["kernel"] + p["bias"]["bias"]
    hidden = jax.nn.elu(np.einsum("nm,nmh->nh", q, first) + bias)
    expected = np.einsum("nh,nh->n", hidden, np.abs(hyper("final"))) + hyper("value")[:, 0]
    np.testing.assert_allclose(module.apply({"params": p}, q, world), expected, rtol=1e-4, atol=1e-5)
