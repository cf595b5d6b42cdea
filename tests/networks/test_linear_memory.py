"""Memories that are linear in their state: all steps at once is one step after the other, whatever comes between."""

from __future__ import annotations

import functools
import math
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqn.networks import linear_memory
from pqn.networks.linear_memory import LRU, MinGRU, Steps, remember
from pqn.networks.memory import CELLS
from pqn.networks.qnetwork import QNetwork
from pqn.options import NetworkConfig
from pqn.types import Inputs

LINEAR = {"mingru": MinGRU, "lru": LRU}
B, F, H = 3, 4, 5
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # to compile


@pytest.fixture(params=[True, False], ids=["rounds", "loop"])
def way(request, monkeypatch):
    """How an accelerator computes all steps, and how a CPU does."""
    monkeypatch.setattr(linear_memory, "scans_in_parallel", lambda: request.param)


def step_by_step(a, b, first, start):
    """The definition, in float64 or complex128."""
    h, states = start, []
    for t in range(len(b)):
        h = np.where(first[t][:, None], 0.0, h)
        h = a[t] * h + b[t]
        states.append(h)
    return np.stack(states)


def pull_back(a, first, start, states, to_states):
    """The derivative of that, in the same manner, for a loss whose derivative is `to_states`."""
    before = np.concatenate([start[None], states[:-1]]) * ~first[..., None]
    later, to_a, to_b = np.zeros_like(start), [], []
    for t in reversed(range(len(states))):
        delta = to_states[t] + later
        to_b.append(delta)
        to_a.append(delta * np.conj(before[t]))
        later = np.conj(a[t]) * delta * ~first[t][:, None]
    return np.stack(to_a[::-1]), np.stack(to_b[::-1]), later


def halves(x, parts):
    return tuple(jnp.asarray(part, jnp.float32) for part in (x.real, x.imag)[:parts])


def whole(number):
    together = np.zeros(number[0].shape, np.complex128)
    together.real = number[0]
    together.imag = number[1] if len(number) == 2 else 0.0
    return together


def draw(seed, length, parts, share, shared):
    """aₜ in the unit disc, bₜ, starts of episodes, the state before, and weights of a loss; with digits of float32."""
    luck = np.random.default_rng(seed)

    def numbers(*shape):
        x = luck.normal(size=shape) + 1j * luck.normal(size=shape) * (parts == 2)
        return x.astype(np.complex64).astype(np.complex128)

    a = numbers(length, 1 if shared else B, H)
    a = a / np.maximum(1.0, np.abs(a)) * luck.choice([1.0, 0.999, 0.5, 0.0], a.shape, p=[0.4, 0.4, 0.1, 0.1])
    a = a.astype(np.complex64).astype(np.complex128)
    return a, numbers(length, B, H), luck.random((length, B)) < share, numbers(B, H), numbers(length, B, H)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    parts=st.sampled_from([1, 2]),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    rounds=st.booleans(),
)
def test_all_steps_at_once_are_one_step_after_the_other(seed, parts, share, rounds):
    """States and gradients, of real and of complex memories, with starts of episodes anywhere, against numpy."""
    shared = parts == 2  # as in LRU
    a, b, first, start, weights = draw(seed, 13, parts, share, shared)
    expected = step_by_step(a, b, first, start)
    given_steps = Steps(halves(a, parts), halves(b, parts), jnp.asarray(first))
    states, pull = compiled(rounds)(given_steps, halves(start, parts), halves(weights, parts))
    close = {"rtol": 1e-6, "atol": 2e-6 * max(1.0, np.abs(expected).max())}
    np.testing.assert_allclose(whole(states), expected, **close)
    to_a, to_b, to_start = pull_back(a, first, start, expected, weights)
    if shared:
        to_a = to_a.sum(axis=1, keepdims=True)
    for ours, theirs in zip(pull, (to_a, to_b, to_start), strict=True):
        np.testing.assert_allclose(whole(ours), theirs, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(theirs).max()))


@functools.cache
def compiled(rounds):
    """All states, and the gradients by a, b and the first state of a loss that weighs them."""

    def gradients(steps, start, weights):
        def loss(kept, taken, start):
            states = remember(Steps(kept, taken, steps.first), start, train=True)[1]
            return sum(jnp.sum(x * y) for x, y in zip(states, weights, strict=True)), states

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear_memory, "scans_in_parallel", lambda: rounds)
            (_, states), pull = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*steps[:2], start)
        return states, pull

    return jax.jit(gradients, compiler_options=QUICK)


def quick(function, *args):
    """The results of a function, compiled in little time."""
    return jax.jit(function, compiler_options=QUICK)(*args)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_long_sequence_keeps_its_digits(way, parts):
    """Two thousand steps of a memory that keeps nearly everything: an error must not grow with the length."""
    a, b, first, start, _ = draw(1, 2048, parts, 0.0, True)
    a = np.full_like(a, np.float32(0.9995)) * (np.exp(0.1j) if parts == 2 else 1.0)
    a = a.astype(np.complex64).astype(np.complex128)
    given_steps = Steps(halves(a, parts), halves(b, parts), jnp.asarray(first))
    _, states = quick(lambda *args: remember(*args, train=False), given_steps, halves(start, parts))
    expected = step_by_step(a, b, first, start)
    assert np.abs(whole(states) - expected).max() < 3e-5 * np.abs(expected).max()


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("train", [False, True])
def test_what_is_not_finite_ends_with_its_episode(way, parts, train):
    """Neither through the states nor through the gradients, neither from the state before nor from within."""
    a, b, _, start, weights = draw(2, 16, parts, 0.0, False)
    first = np.zeros((16, B), bool)
    first[0, 0] = first[9] = True  # the first sequence starts with an episode
    expected = step_by_step(a, b, first, start)
    bad_start, bad_b = start.copy(), b.copy()
    bad_start[0], bad_b[3, 1], bad_b[3, 2] = np.nan, np.nan, np.inf
    steps, bad_start = Steps(halves(a, parts), halves(bad_b, parts), jnp.asarray(first)), halves(bad_start, parts)

    def loss(kept, taken, start):
        states = remember(Steps(kept, taken, steps.first), start, train)[1]
        later = [jnp.sum(x[9:] * y[9:]) for x, y in zip(states, halves(weights, parts), strict=True)]
        return sum(later), states

    gradients = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)
    (_, states), pull = quick(gradients, *steps[:2], bad_start)
    assert not np.isfinite(whole(states)[3:9, 1:]).any()
    np.testing.assert_allclose(whole(states)[9:], expected[9:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(whole(states)[:, 0], expected[:, 0], rtol=1e-5, atol=1e-5)
    to_a, to_b, _ = pull_back(a, first, start, expected, np.where(np.arange(16)[:, None, None] < 9, 0.0, weights))
    np.testing.assert_allclose(whole(pull[0])[9:], to_a[9:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(whole(pull[0])[:, 0], to_a[:, 0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(whole(pull[1])[9:], to_b[9:], rtol=1e-5, atol=1e-5)
    if train:
        np.testing.assert_allclose(whole(pull[1]), to_b, rtol=1e-5, atol=1e-5)


def layer(kind, dtype="float32", length=12):
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (length, B, F))
    first = jax.random.bernoulli(keys[1], 0.2, (length, B))
    module = LINEAR[kind](H, dtype)
    carry = jax.tree.map(lambda c: c + 0.3, module.initial_carry(H, B))
    return module, module.init(keys[2], carry, x, first), carry, x, first


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_acting_step_by_step_is_training_all_at_once(way, kind, dtype):
    """A layer with its projections; also in bfloat16, whose states are float32 in both."""
    module, params, carry, x, first = layer(kind, dtype)
    end, outputs = quick(lambda *args: module.apply(*args, True), params, carry, x, first)
    state, stepped = carry, []
    act = jax.jit(module.apply, compiler_options=QUICK)
    for t in range(len(x)):
        state, out = act(params, state, x[t : t + 1], first[t : t + 1])
        stepped.append(out)
    assert {leaf.dtype for leaf in jax.tree.leaves((end, state, outputs))} == {jnp.dtype("float32")}
    close = {"rtol": 2e-6, "atol": 2e-6} if dtype == "float32" else {"rtol": 1e-2, "atol": 1e-2}
    np.testing.assert_allclose(jnp.concatenate(stepped), outputs, **close)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6), state, end)


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_of_training_is_that_of_acting(way, kind, dtype):
    """Through parameters, inputs and carry, from outputs and the last carry."""
    module, params, carry, x, first = layer(kind, dtype)
    weights = jax.random.normal(jax.random.key(2), (len(x), B, H))

    def loss(params, carry, x, train):
        after, outputs = module.apply(params, carry, x, first, train)
        return jnp.sum(outputs * weights) + sum(jnp.sum(jnp.sin(c)) for c in jax.tree.leaves(after))

    plain, ours = quick(
        lambda *args: [jax.grad(loss, (0, 1, 2))(*args, way) for way in (False, True)], params, carry, x
    )
    tolerance = 1e-5 if dtype == "float32" else 0.05
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), plain, ours)
    assert all(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(ours))


def test_forward_mode_passes_through_a_network_that_acts(way):
    """The theory of stability needs it."""
    for kind in LINEAR:
        module, params, carry, x, first = layer(kind)
        act = functools.partial(lambda module, *args: module.apply(*args)[1], module, params, carry)
        _, change = quick(lambda x, act=act, first=first: jax.jvp(lambda x: act(x, first), (x,), (x,)), x)
        assert np.isfinite(change).all() and np.abs(change).max() > 1e-3


def test_mingru_is_its_equations():
    module, params, carry, x, first = layer("mingru")
    params = jax.tree.map(lambda p: np.asarray(p, np.float64), params["params"]["input"])
    gate, candidate = np.split(np.asarray(x, np.float64) @ params["kernel"] + params["bias"], 2, axis=-1)
    z = 1 / (1 + np.exp(-gate))
    g = np.where(candidate >= 0, candidate + 0.5, 1 / (1 + np.exp(-candidate)))
    assert (candidate < 0).any() and (candidate > 0).any()
    h = np.asarray(carry, np.float64)
    _, outputs = module.apply({"params": {"input": params}}, carry, x, first)
    for t in range(len(x)):
        h = np.where(first[t][:, None], 0.0, h)
        h = (1 - z[t]) * h + z[t] * g[t]
        np.testing.assert_allclose(outputs[t], h, rtol=1e-5, atol=1e-6)


def test_lru_is_its_equations():
    """In complex numbers, which our layer does not use."""
    module, params, carry, x, first = layer("lru")
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params["params"])
    eigenvalue = np.exp(-np.exp(p["decay"]) + 1j * np.exp(p["phase"]))
    real, imaginary = np.split(p["input"]["kernel"], 2, axis=1)
    taken = np.exp(p["gain"]) * (np.asarray(x, np.float64) @ (real + 1j * imaginary))
    real, imaginary = np.split(p["output"]["kernel"], 2, axis=0)
    h = whole(carry)
    _, outputs = module.apply(params, carry, x, first)
    for t in range(len(x)):
        h = eigenvalue * np.where(first[t][:, None], 0.0, h) + taken[t]
        y = (h @ (real - 1j * imaginary)).real + np.asarray(x[t]) @ p["skip"]["kernel"] + p["skip"]["bias"]
        np.testing.assert_allclose(outputs[t], jax.nn.gelu(y), rtol=1e-4, atol=1e-5)


def test_a_fresh_lru_has_its_ring_and_states_as_large_as_its_inputs():
    size, steps = 256, 4096
    module = LRU(size)
    x = jax.random.normal(jax.random.key(0), (steps, 1, 16))
    first = jnp.zeros((steps, 1), bool)
    params = module.init(jax.random.key(1), LRU.initial_carry(size, 1), x[:1], first[:1])
    length = np.exp(-np.exp(np.asarray(params["params"]["decay"])))
    assert 0.9 <= length.min() < 0.91 and 0.998 < length.max() <= 0.9991
    # Even over the area of the ring: half of it lies outside of this radius.
    assert abs(np.mean(length > math.sqrt((0.9**2 + 0.999**2) / 2)) - 0.5) < 0.1
    angle = np.exp(np.asarray(params["params"]["phase"]))
    np.testing.assert_allclose(np.quantile(angle, [0.25, 0.5, 0.75]) / (2 * math.pi), [0.25, 0.5, 0.75], atol=0.1)
    gain = np.exp(np.asarray(params["params"]["gain"]))
    np.testing.assert_allclose(gain, np.sqrt(1 - length**2), rtol=1e-4)
    kept = whole((length * np.cos(angle), length * np.sin(angle)))
    kernel = np.asarray(params["params"]["input"]["kernel"])
    taken = gain * (np.asarray(x[:, 0]) @ (kernel[:, :size] + 1j * kernel[:, size:]))
    states = step_by_step(kept[None].repeat(steps, 0)[:, None], taken[:, None], np.asarray(first), np.zeros((1, size)))
    assert abs(np.mean(np.abs(states[1000:]) ** 2) - 1.0) < 0.2


def test_units_of_a_fresh_mingru_forget_after_one_to_a_thousand_steps():
    bias = np.asarray(linear_memory.lasting(jax.random.key(0), (2 * 512,)))
    times = np.exp(-bias[:512])
    assert 1.0 <= times.min() < 1.2 and 850 < times.max() <= 1000.0
    np.testing.assert_allclose(np.median(times), math.sqrt(1000.0), rtol=0.3)
    assert not bias[512:].any()


@pytest.mark.parametrize("kind", LINEAR)
def test_agents_and_layers_each_have_a_memory(kind):
    """Three agents and two layers: what one agent sees does not change another's memory."""
    net = QNetwork(NetworkConfig(hidden=(6,), memory=kind, memory_size=H, memory_layers=2), 2)
    obs = jax.random.normal(jax.random.key(0), (6, 2, 3, F))
    inputs, carry = Inputs(obs, jnp.zeros((6, 2, 3), bool)), net.initial_carry(2, 3)
    variables = net.init(jax.random.key(1), carry, inputs)
    after, q = net.apply(variables, carry, inputs)
    other_after, other = net.apply(variables, carry, inputs._replace(obs=obs.at[:2, :, 1].add(1.0)))
    assert jax.tree.structure(after) == jax.tree.structure(carry) and len(after) == 2
    changed = np.any(np.asarray(q != other), axis=(1, 3))
    assert changed[2:, 1].all() and not changed[:, [0, 2]].any()
    for mine, yours in zip(*map(jax.tree.leaves, (after, other_after)), strict=True):
        assert np.array_equal(mine[:, [0, 2]], yours[:, [0, 2]]) and not np.allclose(mine[:, 1], yours[:, 1])


def test_saturated_gates_have_finite_gradients(way):
    """Gates that are 0 or 1 in float32, as after long training or with inputs that were not scaled."""
    module, params, carry, x, first = layer("mingru")
    gradient = jax.grad(lambda p, scale: jnp.sum(module.apply(p, carry, scale * x, first, True)[1] / scale))
    for scale in (1e3, -1e3, 1e30):
        grads = quick(gradient, params, scale)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_every_memory_has_a_name():
    assert {"none", *CELLS} == set(typing.get_args(typing.get_type_hints(NetworkConfig)["memory"]))
