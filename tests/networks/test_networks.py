"""Networks: the matmul convolution, norms, heads, the regulariser's split."""

from __future__ import annotations

import functools
from typing import get_args, get_type_hints

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.networks import norms
from pqn.networks.norms import BatchRenorm, LayerNorm
from pqn.networks.qnetwork import TORSOS, QNetwork, kernel_norms
from pqn.networks.torsos import Conv
from pqn.options import NetworkConfig
from pqn.types import Inputs


def make(config: NetworkConfig, obs_shape=(10, 10, 4), actions=3):
    network = QNetwork(config, actions)
    obs = jax.random.bernoulli(jax.random.key(1), 0.3, (2, 5, 1, *obs_shape))
    inputs = Inputs(obs, jnp.zeros((2, 5, 1), bool))
    return network, network.init(jax.random.key(0), (), inputs), inputs


@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((3, 2), 2), ((4, 4), 3)])
def test_matmul_convolution_equals_the_native_one(kernel, stride):
    x = jax.random.normal(jax.random.key(0), (2, 10, 11, 3))
    convs = [Conv(5, kernel, stride, matmul=matmul) for matmul in (True, False)]
    params = convs[0].init(jax.random.key(1), x)
    params = jax.tree.map(lambda p: p + 0.1, params)  # a bias that is not zero
    assert jax.tree.structure(params) == jax.tree.structure(convs[1].init(jax.random.key(1), x))

    def loss(conv):
        return jax.value_and_grad(lambda p: jnp.sum(jnp.sin(conv.apply(p, x))))(params)

    for ours, native in zip(*(jax.tree.leaves(loss(conv)) for conv in convs), strict=True):
        np.testing.assert_allclose(ours, native, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("torso", ["mlp", "minatar", "grid"])
@pytest.mark.parametrize("norm", ["layer", "batch", "batch_renorm", "none"])
@pytest.mark.parametrize("head", ["linear", "dueling"])
def test_every_combination_gives_q_values(torso, norm, head):
    network, variables, inputs = make(NetworkConfig(torso=torso, norm=norm, head=head, hidden=(8,)))
    carry, q = network.apply(variables, (), inputs)
    assert carry == () and q.shape == (2, 5, 1, 3) and q.dtype == jnp.float32
    assert ("batch_stats" in variables) == norm.startswith("batch")


def test_time_and_batch_are_interchangeable_for_feed_forward_networks():
    network, variables, inputs = make(NetworkConfig(torso="minatar", hidden=(8,)))
    _, together = network.apply(variables, (), inputs)
    for t in range(2):
        _, one = network.apply(variables, (), jax.tree.map(lambda x, t=t: x[t : t + 1], inputs))
        np.testing.assert_allclose(one[0], together[t], rtol=1e-5, atol=1e-6)


def test_layer_norm_makes_features_blind_to_scale():
    network, variables, inputs = make(NetworkConfig(hidden=(32,)), obs_shape=(6,))
    inputs = inputs._replace(obs=jax.random.normal(jax.random.key(2), inputs.obs.shape))
    q = network.apply(variables, (), inputs)[1]
    scaled = network.apply(variables, (), inputs._replace(obs=100 * inputs.obs))[1]
    np.testing.assert_allclose(q, scaled, rtol=1e-3, atol=1e-4)


def test_batch_statistics_move_only_in_training():
    network, variables, inputs = make(NetworkConfig(norm="batch", norm_input="batch", hidden=(8,)), obs_shape=(6,))
    (_, q), mutated = network.apply(variables, (), inputs, train=True, mutable=["batch_stats"])
    changed = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), variables["batch_stats"], mutated["batch_stats"])
    assert all(jax.tree.leaves(changed))
    assert not np.allclose(q, network.apply(variables, (), inputs)[1])  # acting uses the running statistics


def test_dueling_is_value_plus_centred_advantage():
    network, variables, inputs = make(NetworkConfig(head="dueling", hidden=(8,)), obs_shape=(6,))
    q = network.apply(variables, (), inputs)[1]
    lifted = jax.tree_util.tree_map_with_path(
        lambda path, p: p + 7.0 if "advantage" in str(path) and "bias" in str(path) else p, variables
    )
    np.testing.assert_allclose(network.apply(lifted, (), inputs)[1], q, rtol=1e-4, atol=1e-4)


def test_bfloat16_keeps_parameters_and_q_in_float32():
    network, variables, inputs = make(NetworkConfig(torso="minatar", hidden=(8,), dtype="bfloat16"))
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}
    q = network.apply(variables, (), inputs)[1]
    exact = QNetwork(NetworkConfig(torso="minatar", hidden=(8,)), 3).apply(variables, (), inputs)[1]
    assert q.dtype == jnp.float32
    np.testing.assert_allclose(q, exact, atol=0.1)


IMAGES = ("nature", "impala", "hadamax")
FRAMES = (4, 84, 84)


def make_image(torso: str, **options):
    """A network for Atari's frames, its variables and two random observations."""
    network = QNetwork(NetworkConfig(torso=torso, hidden=(512,), init="he_normal", conv="native", **options), 6)
    obs = jax.random.randint(jax.random.key(1), (1, 2, 1, *FRAMES), 0, 256).astype(jnp.uint8)
    inputs = Inputs(obs, jnp.zeros((1, 2, 1), bool))
    return network, network.init(jax.random.key(0), (), inputs), inputs


def count(tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def test_parameters_of_the_nature_network():
    """By hand: 84 → 20 → 9 → 7 pixels a side, so that 7·7·64 = 3136 features enter the dense layer."""
    _, variables, _ = make_image("nature")
    convs = (8 * 8 * 4 * 32 + 32) + (4 * 4 * 32 * 64 + 64) + (3 * 3 * 64 * 64 + 64)
    norms = 2 * (32 + 64 + 64 + 512)
    dense, head = 3136 * 512 + 512, 512 * 6 + 6
    assert count(variables["params"]) == convs + norms + dense + head == 1_688_550
    assert count(make_image("nature", norm="none")[1]["params"]) == convs + dense + head


def test_parameters_of_the_impala_network():
    """By hand: 84 → 42 → 21 → 11 pixels a side; five convolutions and four norms a stage, and two norms at the end."""
    _, variables, _ = make_image("impala")
    convs = sum(9 * i * o + o + 4 * (9 * o * o + o) for i, o in ((4, 16), (16, 32), (32, 32)))
    norms = 2 * (4 * 16 + 4 * 32 + 4 * 32 + 32 + 512)
    assert count(variables["params"]) == convs + norms + 11 * 11 * 32 * 512 + 512 + 512 * 6 + 6


def test_parameters_of_the_hadamax_network():
    """By hand: pooling 84 → 21 → 11 → 11 pixels a side, twice the convolutions and norms of the Nature network."""
    _, variables, _ = make_image("hadamax")
    convs = 2 * ((8 * 8 * 4 * 32 + 32) + (4 * 4 * 32 * 64 + 64) + (3 * 3 * 64 * 64 + 64))
    norms = 2 * (2 * (32 + 64 + 64) + 512)
    assert count(variables["params"]) == convs + norms + 11 * 11 * 64 * 512 + 512 + 512 * 6 + 6


@pytest.mark.parametrize("torso", IMAGES)
def test_image_networks_normalise_before_every_nonlinearity(torso):
    """With the biases at zero LayerNorm makes Q blind to the scale of every kernel that feeds a norm directly."""
    network, variables, inputs = make_image(torso)
    q = network.apply(variables, (), inputs)[1]
    assert q.shape == (1, 2, 1, 6) and q.dtype == jnp.float32 and bool(jnp.isfinite(q).all())
    layers = ["MLP_0", *(name for name in variables["params"]["torso"] if name.startswith("Conv"))]
    if torso == "impala":  # what a residual path carries is normalised only after the sum: the inner convolutions are
        layers = ["MLP_0", *(f"Conv_{5 * stage + inner}" for stage in range(3) for inner in (1, 3))]

    def scale(path, p):
        return 30.0 * p if path[1].key == "torso" and path[2].key in layers and path[-1].key == "kernel" else p

    scaled = jax.tree_util.tree_map_with_path(scale, variables)
    np.testing.assert_allclose(network.apply(scaled, (), inputs)[1], q, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("torso", IMAGES)
def test_gradients_reach_every_parameter_of_image_networks(torso):
    network, variables, inputs = make_image(torso)

    def loss(params):
        return jnp.sum(jnp.sin(network.apply({"params": params}, (), inputs)[1]))

    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.grad(loss)(variables["params"])):
        assert bool(jnp.isfinite(leaf).all()), path
        # A bias is lost only where LayerNorm sees the same number in every channel, which none of these is.
        assert float(jnp.abs(leaf).max()) > 1e-9, path


@pytest.mark.parametrize("torso", IMAGES)
def test_image_networks_in_bfloat16(torso):
    network, variables, inputs = make_image(torso, dtype="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}
    q = network.apply(variables, (), inputs)[1]
    exact = make_image(torso)[0].apply(variables, (), inputs)[1]
    assert q.dtype == jnp.float32
    np.testing.assert_allclose(q, exact, atol=0.15)


def test_image_networks_scale_bytes_once_and_find_the_channels():
    """Bytes with frames first, bytes with frames last and floats in [0, 1] are the same picture."""
    network, variables, inputs = make_image("nature")
    q = network.apply(variables, (), inputs)[1]
    last = jnp.moveaxis(inputs.obs, 3, -1)
    np.testing.assert_allclose(network.apply(variables, (), inputs._replace(obs=last))[1], q, atol=1e-5)
    np.testing.assert_allclose(network.apply(variables, (), inputs._replace(obs=last / 255.0))[1], q, atol=1e-4)


def test_the_input_norm_of_images_is_per_frame():
    network, variables, inputs = make_image("nature", norm_input="batch")
    assert variables["batch_stats"]["input_norm"]["BatchNorm_0"]["mean"].shape == (4,)
    _, mutated = network.apply(variables, (), inputs, train=True, mutable=["batch_stats"])
    moved = mutated["batch_stats"]["input_norm"]["BatchNorm_0"]["mean"] / 0.01  # of momentum 0.99
    np.testing.assert_allclose(moved, inputs.obs.mean(axis=(0, 1, 2, 4, 5)) / 255.0, rtol=1e-3)


@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((4, 4), 1), ((8, 8), 4)])
def test_padded_convolutions_equal_those_of_flax(kernel, stride):
    x = jax.random.normal(jax.random.key(0), (2, 21, 20, 3))
    theirs = nn.Conv(5, kernel, stride, padding="SAME")
    params = theirs.init(jax.random.key(1), x)
    for matmul in (True, False):
        ours = Conv(5, kernel, stride, matmul, same=True)
        np.testing.assert_allclose(ours.apply(params, x), theirs.apply(params, x), rtol=1e-4, atol=1e-4)


def test_kernel_norms_split_final_and_inner():
    _, variables, _ = make(NetworkConfig(hidden=(8, 4)), obs_shape=(6,))
    params = variables["params"]
    final, inner = kernel_norms(params)
    head = params["head"]["q"]["kernel"]
    others = [layer["kernel"] for name, layer in params["torso"].items() if "Dense" in name]
    np.testing.assert_allclose(final, 0.5 * np.sum(np.square(head)), rtol=1e-6)
    np.testing.assert_allclose(inner, sum(0.5 * np.sum(np.square(k)) for k in others), rtol=1e-6)


def renormalise(x, updates=0, **options):
    module = BatchRenorm(**options)
    variables = module.init(jax.random.key(0), x, False)
    stats = variables["batch_stats"] | {"updates": jnp.int32(updates)}
    return module, {"params": variables["params"], "batch_stats": stats}


def test_batch_renorm_starts_as_batch_norm_and_becomes_the_running_normalisation():
    x = 3.0 + 2.0 * jax.random.normal(jax.random.key(1), (64, 5))
    module, variables = renormalise(x)
    y, _ = module.apply(variables, x, True, mutable=["batch_stats"])
    np.testing.assert_allclose(y.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(y.std(0), 1.0, atol=1e-2)
    # Unclipped, training is acting.
    module, variables = renormalise(x, updates=BatchRenorm.warm_up, r_max=1e6, d_max=1e6)
    y, mutated = module.apply(variables, x, True, mutable=["batch_stats"])
    np.testing.assert_allclose(y, module.apply(variables, x, False), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mutated["batch_stats"]["mean"], x.mean(0) / (BatchRenorm.warm_up + 1), rtol=1e-4)
    assert int(mutated["batch_stats"]["updates"]) == BatchRenorm.warm_up + 1


def test_running_statistics_hold_nothing_of_what_they_start_with():
    """Until they have seen 1 / (1 - momentum) batches they are plain means; then old batches fade."""
    batches = [jax.random.normal(jax.random.key(i), (16, 3)) + 10.0 * i for i in range(20)]
    module, variables = renormalise(batches[0], momentum=0.9)
    seen = []
    for batch in batches:
        _, mutated = module.apply(variables, batch, True, mutable=["batch_stats"])
        variables |= mutated
        seen.append(variables["batch_stats"])
    for count in (1, 2, 10):
        means, variances = (np.mean([f(b, axis=0) for b in batches[:count]], axis=0) for f in (np.mean, np.var))
        np.testing.assert_allclose(seen[count - 1]["mean"], means, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(seen[count - 1]["var"], variances, rtol=1e-4)
    faded = 0.9 * seen[-2]["mean"] + 0.1 * batches[-1].mean(0)
    np.testing.assert_allclose(seen[-1]["mean"], faded, rtol=1e-5)


def test_batch_renorm_clips_and_is_constant_for_the_gradient():
    x = 100.0 + jax.random.normal(jax.random.key(1), (64, 5))
    module, variables = renormalise(x, updates=1000)
    y, _ = module.apply(variables, x, True, mutable=["batch_stats"])
    np.testing.assert_allclose(y.mean(0), 5.0, atol=1e-3)  # d_max

    def total(x):
        return module.apply(variables, x, True, mutable=["batch_stats"])[0].sum()

    np.testing.assert_allclose(jax.grad(total)(x), 0.0, atol=1e-4)  # a batch-normalised sum does not depend on x


def test_initialising_leaves_running_statistics_untouched():
    x = jnp.full((8, 3), 7.0)
    variables = BatchRenorm().init(jax.random.key(0), x, True)
    np.testing.assert_array_equal(variables["batch_stats"]["mean"], 0.0)
    assert int(variables["batch_stats"]["updates"]) == 0


@pytest.mark.parametrize("slow_means", [True, False], ids=["CPU", "accelerator"])
@pytest.mark.parametrize("shape", [(6, 5), (6, 3, 4, 5)])
def test_layer_norm_is_flaxs_with_its_gradients(shape, slow_means, monkeypatch):
    """Ours sums gradients over a feature map in two stages; values and derivatives of every kind stay the same."""
    monkeypatch.setattr(norms, "short_means_are_slow", lambda: slow_means)
    # A function of its own for each case: what jax has traced once, it does not trace again.
    text = str(jax.make_jaxpr(functools.partial(norms.mean_of_features))(jnp.zeros(shape)))
    assert ("dot_general" in text) == (slow_means and len(shape) > 2)
    x = 3.0 * jax.random.normal(jax.random.key(0), shape) + 1.0
    weights = jax.random.normal(jax.random.key(1), shape)
    params = nn.LayerNorm(use_fast_variance=False).init(jax.random.key(2), x)
    params = jax.tree.map(lambda p: p + jax.random.normal(jax.random.key(3), p.shape), params)

    def derivatives(module):
        def loss(params, x):
            return jnp.sum(weights * jnp.sin(module.apply(params, x)))

        first = jax.grad(loss, argnums=(0, 1))(params, x)
        forwards = jax.jvp(lambda p: loss(p, x), (params,), (params,))
        second = jax.jvp(lambda p: jax.grad(loss)(p, x), (params,), (params,))
        return module.apply(params, x), first, forwards, second

    jax.tree.map(
        lambda ours, flaxs: np.testing.assert_allclose(ours, flaxs, rtol=1e-4, atol=1e-4),
        derivatives(LayerNorm()),
        derivatives(nn.LayerNorm(use_fast_variance=False)),
    )


def test_every_torso_of_the_config_exists():
    annotation = get_type_hints(NetworkConfig)["torso"]
    assert set(get_args(annotation)) == set(TORSOS)
