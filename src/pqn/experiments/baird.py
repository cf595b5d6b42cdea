"""Baird's counterexample: seven states, no reward, true values 0, and off-policy TD that diverges from them.

The target policy always takes the solid action (to the lower state); the behaviour takes it with probability 1/7 and
otherwise goes to one of the six upper states, so it visits all seven equally often. Two kinds of updates:

    expected   φ ← φ + α Σ_s ⅐ (γ V(s₇) − V(s)) ∇V(s)              − α (c_w w, c_M M)
    sampled    φ ← φ + α ρ_t (γ V(s_{t+1}) − V(s_t)) ∇V(s_t)       − α (c_w w, c_M M),   ρ_t = π(a_t|s_t)/μ(a_t|s_t)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pqn.experiments import record
from pqn.experiments.configs import BairdConfig
from pqn.experiments.figures import COLOUR, GREY, LABELS, band
from pqn.report.style import figure_file
from pqn.theory.critic import LIPSCHITZ, CriticParams, critic, init_critic
from pqn.theory.mdps import baird_features
from pqn.theory.regulariser import Regulariser, theory_regulariser

BLOW_UP = 1e8  # beyond this norm a run is lost: its parameters are frozen and this is what is recorded
DIVERGED, CONVERGED = 100.0, 1e-2  # growth of the norm; root-mean-square value error

Carry = tuple[CriticParams, Array]
"""The parameters, and the state that the behaviour is in."""


@dataclass(frozen=True)
class BairdCurves:
    """One learner under one kind of update, over seeds S and recorded points R."""

    norm: np.ndarray  # [S, R]  ‖φ‖
    error: np.ndarray  # [S, R]  √(mean_s V(s)²): the true values are 0

    def summary(self) -> dict[str, object]:
        """How many seeds grew more than 100×, how many ended with a value error under 0.01, and the medians."""
        growth = self.norm.max(1) / self.norm[:, 0]
        return {
            "seeds": len(growth),
            "diverged": int((growth > DIVERGED).sum()),
            "converged": int((self.error[:, -1] < CONVERGED).sum()),
            "growth_median": float(np.median(growth)),
            "growth_max": float(growth.max()),
            "final_error_median": float(np.median(self.error[:, -1])),
            "final_error_max": float(self.error[:, -1].max()),
        }


@dataclass(frozen=True)
class BairdResult:
    """Curves by kind of update ("expected", "sampled") and arm."""

    config: BairdConfig
    curves: dict[str, dict[str, BairdCurves]]
    seconds: float

    def summary(self) -> dict[str, object]:
        """`BairdCurves.summary` of every curve."""
        return {kind: {arm: c.summary() for arm, c in arms.items()} for kind, arms in self.curves.items()}

    def updates(self) -> np.ndarray:
        """The update number of each recorded point, [R]."""
        return np.arange(self.config.records) * (self.config.updates // self.config.records)

    def save(self, directory: str | Path, command: str = "pqn theory baird") -> list[Path]:
        """Writes baird.json and baird.png into `directory`, and returns their paths."""
        directory = Path(directory)
        curves = {k: {arm: asdict(c) for arm, c in arms.items()} for k, arms in self.curves.items()}
        content = {
            "provenance": record.made_by(command, self.seconds),
            "config": asdict(self.config),
            "regulariser": regulariser(self.config)._asdict(),
            "summary": self.summary(),
            "updates": self.updates(),
            "curves": curves,
        }
        return [record.write_json(directory / "baird.json", content), draw(self, directory / "baird.png")]


def regulariser(config: BairdConfig) -> Regulariser:
    """The ℓ2 coefficients of the "+l2" arms: the theory's for η, unless overridden."""
    theory = theory_regulariser(config.eta, config.gamma, LIPSCHITZ[config.post])
    return Regulariser(
        final=theory.final if config.l2_final is None else config.l2_final,
        inner=theory.inner if config.l2_inner is None else config.l2_inner,
    )


def initial_params(key: Array, arm: str, config: BairdConfig) -> CriticParams:
    """Random weights; a linear learner has M fixed to nothing and starts near Sutton & Barto's (1,1,1,1,1,1,10,1)."""
    if arm.startswith("linear"):
        start = jnp.ones(8).at[6].set(10.0)
        return CriticParams(w=start + 0.1 * jax.random.normal(key, (8,)), M=jnp.zeros((0, 8)))
    return init_critic(key, config.width, 8)


def state_values(params: CriticParams, arm: str, config: BairdConfig) -> Array:
    """V(s) of all seven states, [7]. BatchNorm's statistics are those of the states μ visits, each with weight 1/7."""
    x = jnp.asarray(baird_features(), params.w.dtype)
    if arm.startswith("linear"):
        return x @ params.w
    norm = {"none": "none", "l2": "none", "layer": "layer", "layer+l2": "layer", "batch": "batch"}[arm]
    return critic(params, x, norm, config.pre, config.post)


def sample(key: Array, state: Array) -> tuple[Array, Array, Array]:
    """One behaviour step: the weights of each state's TD error [7], the successor, and the next state."""
    key_a, key_s = jax.random.split(key)
    solid = jax.random.bernoulli(key_a, 1 / 7)
    after = jnp.where(solid, 6, jax.random.randint(key_s, (), 0, 6))
    ratio = jnp.where(solid, 7.0, 0.0)  # π(a|s)/μ(a|s): the dashed action is never the target policy's
    return ratio * jax.nn.one_hot(state, 7), after, after


def run_one(key: Array, arm: str, kind: str, config: BairdConfig) -> tuple[CriticParams, tuple[Array, Array]]:
    """One seed: the parameters after the last update, and norm [R] and error [R] before every R-th part of them."""
    key_init, key_state, key_steps = jax.random.split(key, 3)
    penalty = regulariser(config) if arm.endswith("l2") else Regulariser(0.0, 0.0)
    values_of = partial(state_values, arm=arm, config=config)

    def expectation(state: Array) -> tuple[Array, Array, Array]:
        return jnp.full(7, 1 / 7), jnp.asarray(6), state

    def step(carry: Carry, key_step: Array) -> tuple[Carry, None]:
        params, state = carry
        weight, after, state = expectation(state) if kind == "expected" else sample(key_step, state)
        values, pullback = jax.vjp(values_of, params)
        (delta,) = pullback(weight * (config.gamma * values[after] - values))
        moved = CriticParams(
            w=params.w + config.learning_rate * (delta.w - penalty.final * params.w),
            M=params.M + config.learning_rate * (delta.M - penalty.inner * params.M),
        )
        finite = _norm(params) < BLOW_UP
        return (jax.tree.map(lambda new, old: jnp.where(finite, new, old), moved, params), state), None

    def record_point(carry: Carry, keys: Array) -> tuple[Carry, tuple[Array, Array]]:
        params = carry[0]
        error = jnp.sqrt(jnp.mean(jnp.square(values_of(params))))
        point = (_capped(_norm(params)), _capped(error))
        return jax.lax.scan(step, carry, keys)[0], point

    keys = jax.random.split(key_steps, (config.records, config.updates // config.records))
    start = (initial_params(key_init, arm, config), jax.random.randint(key_state, (), 0, 7))
    (params, _), points = jax.lax.scan(record_point, start, keys)
    return params, points


def _capped(number: Array) -> Array:
    return jnp.where(number < BLOW_UP, number, BLOW_UP)  # NaN compares false: lost as well


def _norm(params: CriticParams) -> Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in params))


def run(config: BairdConfig | None = None, progress: Callable[[str], None] | None = None) -> BairdResult:
    """Runs every arm with expected and with sampled updates, all seeds of an arm in one compiled program.

    `progress` is told one line before each of them.
    """
    config = BairdConfig() if config is None else config
    config.validate()
    began = time.perf_counter()
    keys = jax.vmap(jax.random.key)(config.seed + jnp.arange(config.seeds))
    curves: dict[str, dict[str, BairdCurves]] = {}
    for kind in config.kinds:
        curves[kind] = {}
        for arm in config.arms:
            if progress is not None:
                progress(f"{kind} updates, {arm}: {config.updates} updates of {config.seeds} seeds")
            _, (norm, error) = jax.jit(jax.vmap(partial(run_one, arm=arm, kind=kind, config=config)))(keys)
            curves[kind][arm] = BairdCurves(np.asarray(norm), np.asarray(error))
    return BairdResult(replace(config), curves, time.perf_counter() - began)


def draw(result: BairdResult, path: Path) -> Path:
    """Parameter norm and value error over updates, for expected and sampled updates."""
    rows = len(result.curves)
    with figure_file(path, (9.5, 3.1 * rows)) as figure:
        axes = figure.subplots(rows, 2, sharex=True, squeeze=False)
        for (left, right), (kind, arms) in zip(axes, result.curves.items(), strict=True):
            for arm, curves in arms.items():
                growth = curves.norm / curves.norm[:, :1]
                # A run counts as lost at 1e8; drawing it further would only flatten everything else.
                style = "--" if arm.endswith("l2") else "-"
                band(left, result.updates(), np.minimum(growth, 1e6), COLOUR[arm], LABELS[arm], style)
                band(right, result.updates(), np.clip(curves.error, 1e-10, 1e6), COLOUR[arm], LABELS[arm], style)
            left.set(yscale="log", ylim=(5e-3, 2e6), ylabel=f"{kind} updates\n‖φ‖ / initial ‖φ‖")
            right.set(yscale="log", ylim=(1e-6, 1e4), ylabel="value error (rms)")
            left.axhline(DIVERGED, color=GREY, linestyle=":", linewidth=1)
            right.axhline(CONVERGED, color=GREY, linestyle=":", linewidth=1)
        for each in axes[-1]:
            each.set_xlabel("updates")
        figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside right center")
        figure.suptitle(f"Baird's counterexample, {result.config.seeds} seeds (median, interquartile range)")
    return path
