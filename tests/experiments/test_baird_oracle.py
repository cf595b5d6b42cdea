"""Baird's counterexample against a plain float64 re-implementation, written from Sutton & Barto and the paper.

Gradients here are complex steps, so nothing is differentiated by hand or by JAX. From JAX come the random draws only:
initial weights, and along the trajectory which state was visited next.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from pqn.experiments import baird
from pqn.experiments.configs import BAIRD_ARMS, BairdConfig

UPDATES = 30
STEP = 1e-30  # of the complex step: the derivative is exact for any step this small


def features() -> np.ndarray:
    """Upper state i: 2 in place i, 1 in place 8. Lower state: 1 in place 7, 2 in place 8."""
    rows = [[2.0 if j == i else 0.0 for j in range(7)] + [1.0] for i in range(6)]
    return np.array([*rows, [0, 0, 0, 0, 0, 0, 1.0, 2.0]])


def values(phi: np.ndarray, arm: str, width: int, pre: str) -> np.ndarray:
    """V of the seven states."""
    if arm.startswith("linear"):
        return features() @ phi
    w, M = phi[:width], phi[width:].reshape(width, 8)
    h = features() @ M.T
    h = np.tanh(h) if pre == "tanh" else h
    if arm.startswith("layer"):
        centred = h - h.mean(1, keepdims=True)
        h = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) / np.sqrt(width)
    elif arm == "batch":
        h = (h - h.mean(0)) / np.sqrt(((h - h.mean(0)) ** 2).mean(0) + 1e-5)
    return h @ w


def gradients(phi: np.ndarray, arm: str, width: int, pre: str) -> np.ndarray:
    """∂V(s)/∂φ, [7, d]."""
    columns = []
    for i in range(len(phi)):
        shifted = phi.astype(complex)
        shifted[i] += 1j * STEP
        columns.append(values(shifted, arm, width, pre).imag / STEP)
    return np.stack(columns, axis=1)


def update(phi: np.ndarray, arm: str, config: BairdConfig, step: tuple[int, int] | None) -> np.ndarray:
    """One update: the expected one, or of one step (state, successor) of the behaviour policy."""
    v, g = values(phi, arm, config.width, config.pre), gradients(phi, arm, config.width, config.pre)
    if step is None:  # the behaviour visits all states equally often; the target policy always moves to the lower one
        delta = sum((config.gamma * v[6] - v[s]) * g[s] / 7 for s in range(7))
    else:
        state, after = step
        went_down = after == 6  # solid, which the target policy always does, and the behaviour with probability 1/7
        ratio = 1.0 / (1.0 / 7.0) if went_down else 0.0 / (6.0 / 7.0)
        delta = ratio * (config.gamma * v[after] - v[state]) * g[state]
    penalty = np.zeros(len(phi))
    if arm.endswith("l2"):
        final = len(phi) if arm.startswith("linear") else config.width
        penalty[:final] = 1.01 * (0.99 / 2) ** 2
        penalty[final:] = 1.01 - 1
    return phi + config.learning_rate * (delta - penalty * phi)


def trajectory(key, updates: int) -> list[tuple[int, int]]:
    """(state, successor) of every behaviour step: only the draws, by the keys that the experiment uses."""
    _, key_state, key_steps = jax.random.split(key, 3)
    state, draw = int(jax.random.randint(key_state, (), 0, 7)), jax.jit(baird.sample)
    steps = []
    for each in jax.random.split(key_steps, (updates, 1))[:, 0]:
        after = int(draw(each, state)[1])
        steps.append((state, after))
        state = after
    return steps


@pytest.mark.parametrize("kind", ["expected", "sampled"])
@pytest.mark.parametrize("arm", BAIRD_ARMS)
def test_parameters_norms_and_errors_after_every_update(arm, kind):
    pre = "tanh" if arm in ("l2", "layer+l2") else "identity"
    config = BairdConfig(width=4, updates=UPDATES, records=UPDATES, pre=pre)
    with jax.enable_x64(True):
        key = jax.random.key(3)
        found, (norms, errors) = jax.jit(lambda key: baird.run_one(key, arm, kind, config))(key)
        start = baird.initial_params(jax.random.split(key, 3)[0], arm, config)
        steps = trajectory(key, UPDATES) if kind == "sampled" else [None] * UPDATES
    phi = np.concatenate([np.ravel(start.w), np.ravel(start.M)]).astype(float)
    wanted_norms, wanted_errors = [], []
    for step in steps:
        wanted_norms.append(np.sqrt((phi**2).sum()))
        wanted_errors.append(np.sqrt((values(phi, arm, config.width, pre) ** 2).mean()))
        phi = update(phi, arm, config, step)
    np.testing.assert_allclose(np.concatenate([np.ravel(found.w), np.ravel(found.M)]), phi, rtol=1e-9)
    np.testing.assert_allclose(norms, wanted_norms, rtol=1e-9)
    np.testing.assert_allclose(errors, wanted_errors, rtol=1e-9)
    if kind == "sampled":  # otherwise no ratio was ever at work
        assert {step[1] == 6 for step in steps if step is not None} == {True, False}


def test_the_behaviour_goes_down_once_in_seven_and_up_to_six_states_alike():
    keys = jax.random.split(jax.random.key(0), 14_000)
    _, after, following = jax.vmap(lambda key: baird.sample(key, 2))(keys)
    counts = np.bincount(np.asarray(after), minlength=7)
    np.testing.assert_allclose(counts / 14_000, 1 / 7, atol=0.012)  # four standard deviations
    np.testing.assert_array_equal(after, following)


def test_a_run_that_blows_up_is_frozen_and_recorded_at_the_cap():
    config = BairdConfig(arms=("linear",), kinds=("expected",), updates=400, records=40, seeds=1, learning_rate=0.5)
    curve = baird.run(config).curves["expected"]["linear"]
    assert np.isfinite(curve.norm).all() and curve.norm[0, -1] == baird.BLOW_UP
    assert baird.run(config).summary()["expected"]["linear"]["diverged"] == 1
