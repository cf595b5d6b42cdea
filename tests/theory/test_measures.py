"""What the lemma measures against dense matrices, and which actions the monitor bootstraps over."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny
from jax.flatten_util import ravel_pytree

from pqn.experiments import lemma
from pqn.experiments.configs import LemmaConfig
from pqn.theory.critic import critic, init_critic
from pqn.theory.jacobian import Transitions, jacobian_terms
from pqn.theory.mdps import random_chain
from pqn.theory.monitor import Monitor


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_the_lemmas_quantities_are_eigenvalues_of_the_jacobian(norm):
    """J by differentiating the expected update, a sum over all transitions; every block and penalty written out."""
    gamma, eta = 0.9, 1.5
    config = LemmaConfig(norms=("none", "layer"), iterations=60, eta=eta)
    key, chain = jax.random.key(0), random_chain(jax.random.key(1), 4, 3)
    params = init_critic(jax.random.split(key)[0], 5, 3, config.weight_norm)
    flat, unravel = ravel_pytree(params)

    def values(phi):
        return critic(unravel(phi), chain.features, norm, config.pre, config.post)

    def update(phi, frozen):
        """E[(r + γ V(s') − V(s)) ∇V(s)]; with the errors `frozen` at flat, only the curvature depends on φ."""
        v = values(flat if frozen else phi)
        error = chain.reward[:, None] + gamma * v[None, :] - v[:, None]
        weight = chain.sampling[:, None] * chain.transition
        return jax.vjp(values, phi)[1]((weight * error).sum(1))[0]

    jacobian, curvature = (np.asarray(jax.jacobian(lambda phi, f=f: update(phi, f))(flat)) for f in (False, True))
    off_policy = jacobian - curvature
    symmetric = {name: (m + m.T) / 2 for name, m in (("all", jacobian), ("off", off_policy), ("curved", curvature))}
    final = np.asarray(ravel_pytree(params._replace(w=jnp.ones(5), M=jnp.zeros((5, 3))))[0]) > 0
    penalty = np.where(final, eta * (gamma / 2) ** 2, eta - 1)

    def ends(matrix):
        return np.linalg.eigvalsh(matrix)[[0, -1]]

    expected = {
        "off_w": ends(symmetric["off"][np.ix_(final, final)])[1],
        "off_M": np.abs(ends(symmetric["off"][np.ix_(~final, ~final)])).max(),
        "nonlinear": np.abs(ends(symmetric["curved"])).max(),
        "largest": ends(symmetric["all"])[1],
        "regularised": ends(symmetric["all"] - np.diag(penalty))[1],
    }
    index = jnp.asarray(config.norms.index(norm))
    found = jax.jit(lambda key: lemma.measure(key, chain, index, gamma, 5, config))(key)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_the_monitor_bootstraps_over_the_actions_of_the_successor():
    """Each state of the probe has its own legal actions."""
    program = build(tiny({"env.name": "probe:masked"}))
    state = jax.tree.map(lambda x: x[0], run_updates(program, 1))
    batch = Monitor(program, transitions=64).next_batch(state)
    env = program.env.env
    seen = np.asarray(batch.obs[2].obs)[1:, :, 0]  # [T, B, ...] successors, or starts where an episode ended
    where = (seen[:, :, None] == env.observations).all(-1).argmax(-1)
    np.testing.assert_array_equal(np.asarray(batch.next_avail), env.legal[where.ravel()])
    assert len(np.unique(env.legal[where.ravel()], axis=0)) > 1


def test_the_criterion_bootstraps_from_the_best_legal_action():
    """Which is never the best of all: that one is forbidden everywhere."""
    rng = np.random.default_rng(0)
    weights, v = ({"w": jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)} for _ in range(2))
    obs, next_obs = jnp.asarray(rng.normal(size=(2, 8, 4)), jnp.float32)
    q_next = np.asarray(next_obs @ weights["w"])
    legal = q_next < q_next.max(1, keepdims=True)
    best = np.where(legal, q_next, -np.inf).argmax(1)
    action, reward = jnp.asarray(rng.integers(0, 3, 8)), jnp.asarray(rng.normal(size=8), jnp.float32)
    batch = Transitions(obs, action, reward, jnp.full(8, 0.9), next_obs)

    def terms(batch):
        return np.asarray(jacobian_terms(lambda p, x: jnp.tanh(x @ p["w"]), weights, v, batch))

    found = terms(batch._replace(next_avail=jnp.asarray(legal)))
    np.testing.assert_allclose(found, terms(batch._replace(next_policy=jnp.eye(3)[best])), rtol=1e-5)
    assert np.abs(found - terms(batch)).max() > 0.1
