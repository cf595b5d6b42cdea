"""The matrix-free terms against an explicit Jacobian, and the eigenvalues whose sign is known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pqn.theory.critic import CriticParams, critic_fn, init_critic
from pqn.theory.explain import explain
from pqn.theory.jacobian import Transitions, jacobian_terms, td_update
from pqn.theory.mdps import Chain, baird_chain, expected_batch, stationary
from pqn.theory.regulariser import Regulariser, final_layer_mask, theory_regulariser
from pqn.theory.stability import make_meter, stability

A = 2


def _mlp(rng):
    params = {
        "hidden": {"kernel": rng.normal(size=(3, 4)), "bias": rng.normal(size=4)},
        "head": {"kernel": rng.normal(size=(4, A)), "bias": rng.normal(size=A)},
    }

    def q_fn(params, x):
        h = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
        return h @ params["head"]["kernel"] + params["head"]["bias"]

    return q_fn, params, lambda b: rng.normal(size=(b, 3))


def _cnn(rng):
    params = {"conv": rng.normal(size=(2, 2, 1, 2)), "head": {"kernel": rng.normal(size=(8, A))}}

    def q_fn(params, x):
        h = jax.lax.conv_general_dilated(x, params["conv"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = h.reshape(h.shape[0], -1)
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        return jax.nn.gelu(h) @ params["head"]["kernel"]

    return q_fn, params, lambda b: rng.normal(size=(b, 3, 3, 1))


def _rnn(rng):
    params = {"in": rng.normal(size=(2, 3)), "rec": rng.normal(size=(3, 3)) / 3, "head": rng.normal(size=(3, A))}

    def q_fn(params, x):  # x [T+1, N, 2] -> [T+1, N, A]
        def step(carry, x_t):
            carry = jnp.tanh(x_t @ params["in"] + carry @ params["rec"])
            return carry, carry @ params["head"]

        return jax.lax.scan(step, jnp.zeros((x.shape[1], 3), x.dtype), x)[1]

    return q_fn, params, lambda b: rng.normal(size=(4, b // 3, 2))


def _batch(rng, observe, greedy: bool, sequence: bool = False, size: int = 6) -> Transitions:
    policy = rng.dirichlet(np.ones(A), size)
    return Transitions(
        obs=jnp.asarray(observe(size)),
        action=jnp.asarray(rng.integers(0, A, size)),
        reward=jnp.asarray(rng.normal(size=size)),
        discount=jnp.asarray(0.9 * (rng.random(size) > 0.2)),
        next_obs=None if sequence else jnp.asarray(observe(size)),
        next_policy=None if greedy else jnp.asarray(policy),
        weight=jnp.asarray(rng.dirichlet(np.ones(size))),
    )


def _explicit(q_fn, params, batch):
    """J's off-policy and nonlinear parts as d×d matrices, from the definition, one transition at a time."""
    flat, unravel = ravel_pytree(params)
    size = batch.action.shape[0]

    def value(phi, i):
        out = q_fn(unravel(phi), batch.obs)
        out = out[:-1] if batch.next_obs is None else out
        return out.reshape(-1, A)[i, batch.action[i]]

    def bootstrap(phi, i):
        out = q_fn(unravel(phi), batch.obs)[1:] if batch.next_obs is None else q_fn(unravel(phi), batch.next_obs)
        row = out.reshape(-1, A)[i]
        return row.max() if batch.next_policy is None else (batch.next_policy[i] * row).sum()

    def parts(i):
        g, g_next = jax.grad(value)(flat, i), jax.grad(bootstrap)(flat, i)
        error = batch.reward[i] + batch.discount[i] * bootstrap(flat, i) - value(flat, i)
        off_policy = jnp.outer(g, batch.discount[i] * g_next - g)
        return batch.weight[i] * off_policy, batch.weight[i] * error * jax.hessian(value)(flat, i)

    off_policy, nonlinear = jax.jit(jax.vmap(parts))(jnp.arange(size))
    return np.asarray(off_policy.sum(0)), np.asarray(nonlinear.sum(0))


@pytest.mark.parametrize(("make", "greedy"), [(_mlp, True), (_mlp, False), (_cnn, True), (_rnn, False)])
def test_terms_and_eigenvalues_equal_the_explicit_jacobian(make, greedy):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        q_fn, params, observe = make(rng)
        params = jax.tree.map(jnp.asarray, params)
        batch = _batch(rng, observe, greedy, sequence=make is _rnn)
        off_policy, nonlinear = _explicit(q_fn, params, batch)
        flat, unravel = ravel_pytree(params)
        measure = jax.jit(lambda v: jacobian_terms(q_fn, params, unravel(v), batch))
        for _ in range(3):
            v = rng.normal(size=flat.shape)
            terms = measure(jnp.asarray(v))
            np.testing.assert_allclose(terms.off_policy, v @ off_policy @ v, atol=1e-5, rtol=1e-9)
            np.testing.assert_allclose(terms.nonlinear, v @ nonlinear @ v, atol=1e-5, rtol=1e-9)

        penalty = Regulariser(final=0.3, inner=0.1)
        report = stability(q_fn, params, batch, final="head", iterations=flat.size, regulariser=penalty)
        symmetric = (off_policy + off_policy.T + nonlinear + nonlinear.T) / 2
        mask = final_layer_mask(params, ("head",))
        marks = np.asarray(ravel_pytree(jax.tree.map(jnp.full_like, params, mask))[0]) > 0
        spectrum = np.linalg.eigvalsh(symmetric)
        np.testing.assert_allclose(report.largest.value, spectrum[-1], atol=1e-5)
        np.testing.assert_allclose(report.smallest, spectrum[0], atol=1e-5)
        np.testing.assert_allclose(report.largest.off_policy + report.largest.nonlinear, spectrum[-1], atol=1e-5)
        shifted = np.linalg.eigvalsh(symmetric - np.diag(np.where(marks, 0.3, 0.1)))
        np.testing.assert_allclose(report.regularised.value, shifted[-1], atol=1e-5)
        assert report.final is not None
        assert report.inner is not None
        np.testing.assert_allclose(report.final.value, np.linalg.eigvalsh(symmetric[marks][:, marks])[-1], atol=1e-5)
        np.testing.assert_allclose(report.inner.value, np.linalg.eigvalsh(symmetric[~marks][:, ~marks])[-1], atol=1e-5)


def test_the_two_terms_sum_to_the_jacobian_of_the_update():
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        q_fn, params, observe = _mlp(rng)
        params = jax.tree.map(jnp.asarray, params)
        batch = _batch(rng, observe, greedy=True)
        v = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), params)
        _, along = jax.jvp(lambda p: td_update(q_fn, p, batch), (params,), (v,))
        quadratic = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(v), jax.tree.leaves(along), strict=True))
        np.testing.assert_allclose(jacobian_terms(q_fn, params, v, batch).total, quadratic, rtol=1e-12)


def test_several_batches_average_to_their_union():
    rng = np.random.default_rng(2)
    q_fn, params, observe = _mlp(rng)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), params)
    parts = [_batch(rng, observe, greedy=True)._replace(weight=None) for _ in range(3)]
    union = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    split, together = (stability(q_fn, params, b, final="head", iterations=26) for b in (parts, union))
    assert split.transitions == together.transitions == 18
    for name in ("largest", "regularised", "update", "final", "inner"):
        np.testing.assert_allclose(getattr(split, name).value, getattr(together, name).value, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(split.td_rms, together.td_rms, rtol=1e-5)


def _linear(params, x):
    return (x @ params["w"])[:, None]


def test_linear_td_on_policy_is_stable():
    """Tsitsiklis & Van Roy: on-policy linear TD contracts, for any features of full column rank."""
    rng = np.random.default_rng(3)
    transition = jnp.asarray(rng.dirichlet(np.ones(5), 5))
    x = jnp.asarray(rng.normal(size=(5, 3)))
    chain = Chain(x, transition, jnp.asarray(rng.normal(size=5)), stationary(transition))
    report = stability(_linear, {"w": jnp.ones(3)}, expected_batch(chain, 0.99), iterations=3)
    assert report.largest.value < 0
    assert report.largest.nonlinear == 0
    assert explain(report).startswith("STABLE")


def test_linear_td_on_baird_is_unstable():
    meter = make_meter(_linear, iterations=8)  # made once, as an option that logs during training would
    batch = expected_batch(baird_chain(), 0.99)
    report = stability(_linear, {"w": jnp.ones(8)}, batch, meter=meter)
    assert stability(_linear, {"w": -jnp.ones(8)}, batch, meter=meter).largest.value == report.largest.value
    x = np.asarray(baird_chain().features)
    by_hand = x.T @ (0.99 * x[[6] * 7] - x) / 7
    np.testing.assert_allclose(report.largest.value, np.linalg.eigvalsh((by_hand + by_hand.T) / 2)[-1], rtol=1e-4)
    assert report.largest.value > 1.0
    words = explain(report)
    assert words.startswith("UNSTABLE")
    assert "off-policy data" in words


def test_layer_norm_and_l2_make_baird_stable_at_sufficient_width():
    batch = expected_batch(baird_chain(), 0.99)
    params = init_critic(jax.random.key(0), 1024, 8, weight_norm=1.0)
    mask = CriticParams(w=True, M=False)  # pyright: ignore[reportArgumentType]
    reports = {
        norm: stability(critic_fn(norm, "tanh", "identity"), params, batch, final=mask, eta=1.1, iterations=25)
        for norm in ("layer", "none")
    }
    assert reports["layer"].regulariser == theory_regulariser(1.1, reports["layer"].gamma)
    assert reports["layer"].largest.value > 0  # LayerNorm alone leaves the final-layer residual
    assert reports["layer"].final.value < (0.99 / 2) ** 2
    assert reports["layer"].regularised.value < -0.01
    assert reports["none"].regularised.value > 1
    assert "final layer" in explain(reports["layer"])


def test_actions_that_are_not_available_are_not_bootstrapped_from():
    rng = np.random.default_rng(4)
    q_fn, params, observe = _mlp(rng)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), params)
    batch = _batch(rng, observe, greedy=True)
    only_first = batch._replace(next_avail=jnp.tile(jnp.asarray([True, False]), (6, 1)))
    as_policy = batch._replace(next_policy=jnp.tile(jnp.asarray([1.0, 0.0]), (6, 1)))
    v = jax.tree.map(jnp.ones_like, params)
    masked, fixed = (jax.jit(lambda v, b=b: jacobian_terms(q_fn, params, v, b))(v) for b in (only_first, as_policy))
    np.testing.assert_allclose(masked, fixed, rtol=1e-5)


def test_bad_input_gets_one_sentence():
    batch = expected_batch(baird_chain(), 0.99)
    empty = jax.tree.map(lambda x: x[:0], batch)
    with pytest.raises(ValueError, match="params is empty"):
        stability(_linear, {}, batch)
    with pytest.raises(ValueError, match="holds no transitions"):
        stability(_linear, {"w": jnp.ones(8)}, empty)
    with pytest.raises(ValueError, match="no batch was given"):
        stability(_linear, {"w": jnp.ones(8)}, [])
    with pytest.raises(ValueError, match="different shapes"):
        stability(_linear, {"w": jnp.ones(8)}, [batch, jax.tree.map(lambda x: x[:3], batch)])
    with pytest.raises(ValueError, match="matches no parameter: name components of w"):
        stability(_linear, {"w": jnp.ones(8)}, batch, final=("head",))
    with pytest.raises(ValueError, match="eta > 1"):
        stability(_linear, {"w": jnp.ones(8)}, batch, eta=1.0)
