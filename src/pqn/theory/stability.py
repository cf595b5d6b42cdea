"""The TD stability criterion for any Q-network.

TD is stable where vᵀJv < 0 for every v ≠ 0, that is where the largest eigenvalue of (J + Jᵀ)/2 is negative. J is the
Jacobian of the expected TD update; `pqn.theory.jacobian` has the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from pqn.errors import ConfigError
from pqn.theory.jacobian import Operator, QFunction, Transitions, check_inputs, mean_operator, stack_batches
from pqn.theory.lanczos import lanczos
from pqn.theory.regulariser import Regulariser, final_layer_mask, theory_regulariser
from pqn.theory.stability_report import Direction, Setting, StabilityReport
from pqn.types import PyTree


class Measurement(NamedTuple):
    """The numbers of one measurement, on the device."""

    directions: dict[
        str, dict[str, Array]
    ]  # by name: "largest", "regularised", "update", and "final", "inner" if split
    update_norm: Array  # []
    td_rms: Array  # []


Meter = Callable[[PyTree, Transitions, Array, Array], Measurement]
"""(parameters, batches [K, ...], ℓ2 coefficients [2], key) -> numbers."""


def make_meter(q_fn: QFunction, *, final: PyTree | None = None, iterations: int = 40) -> Meter:
    """A jitted meter, for repeated use during training.

    `final` marks the final-layer leaves (see `final_layer_mask`); without it there is no split by layer.
    Cost: 2·iterations products with the symmetrised Jacobian (4·iterations with `final`), each about as much as five
    gradient steps on the batches; memory: iterations × d numbers. `bench/theory.py` measures it.
    """

    @jax.jit
    def meter(params: PyTree, batches: Transitions, coefficients: Array, key: Array) -> Measurement:
        op = mean_operator(q_fn, params, batches)
        flat, _ = ravel_pytree(params)
        marks = jnp.zeros_like(flat) if final is None else _flat_mask(params, final)
        penalty = coefficients[0] * marks + coefficients[1] * (1 - marks)
        start = jax.random.normal(key, flat.shape, flat.dtype)

        def run(which: Array) -> dict[str, Array]:
            diagonal = jnp.where(which == 1, penalty, 0.0)
            mask = jnp.where(which == 2, marks, jnp.where(which == 3, 1 - marks, 1.0))
            pairs = lanczos(lambda v: op.off_policy(v) + op.nonlinear(v) - diagonal * v, start, iterations, key, mask)
            found = _direction(op, pairs.largest_vector, diagonal, marks)
            return found | {"value": pairs.largest, "residual": pairs.largest_residual, "smallest": pairs.smallest}

        # The four questions differ only in data, so Lanczos is compiled once and run in turn.
        names = ("largest", "regularised") if final is None else ("largest", "regularised", "final", "inner")
        found = jax.lax.map(run, jnp.arange(len(names)))
        norm = jnp.linalg.norm(op.update)
        step = op.update / jnp.maximum(norm, jnp.finfo(flat.dtype).tiny)
        directions = {name: jax.tree.map(lambda x, i=i: x[i], found) for i, name in enumerate(names)}
        directions["update"] = _direction(op, step, jnp.zeros_like(flat), marks)
        return Measurement(directions, norm, jnp.sqrt(op.squared_error))

    return meter


def _direction(op: Operator, v: Array, penalty: Array, final: Array) -> dict[str, Array]:
    off_policy, nonlinear = op.terms(v)
    return {
        "off_policy": off_policy,
        "nonlinear": nonlinear,
        "regulariser": -jnp.sum(penalty * v * v),
        "final_share": jnp.sum(final * v * v),
    }


def _flat_mask(params: PyTree, final: PyTree) -> Array:
    marked = jax.tree.map(lambda leaf, mark: jnp.full(jnp.shape(leaf), mark, leaf.dtype), params, final)
    return ravel_pytree(marked)[0]


def stability(
    q_fn: QFunction,
    params: PyTree,
    batch: Transitions | Sequence[Transitions],
    *,
    final: PyTree | str | Sequence[str] | None = None,
    regulariser: Regulariser | None = None,
    eta: float = 1.01,
    lipschitz: float = 1.0,
    iterations: int = 40,
    key: Array | None = None,
    meter: Meter | None = None,
    setting: Setting | None = None,
) -> StabilityReport:
    """Measures the TD stability criterion of q_fn(params, ·) on one batch, or on the average of several.

    Args:
      q_fn: q_fn(params, obs) -> Q-values whose last axis is the action.
      params: the network's parameters φ.
      batch: transitions with their bootstrap rule, or a sequence of equally shaped ones.
      final: the final layer, as a tree of bools like `params` or as path names such as ("head",).
      regulariser: ℓ2 coefficients to judge; by default those of the theory for `eta`, `lipschitz` and the batch's γ.
      iterations: Lanczos iterations; the reported residuals say whether they sufficed.
      meter: a meter made earlier with `make_meter`, to skip compilation.
      setting: what the learner already has, for `explain`.

    Raises:
      ConfigError: no parameters, no transitions, unequal batches, eta ≤ 1, or a final layer that names nothing.
    """
    batches = [batch] if isinstance(batch, Transitions) else list(batch)
    if not batches:
        raise ConfigError("no batch was given: collect at least one batch of transitions before measuring stability.")
    for each in batches:
        check_inputs(params, each)
    mask = _as_mask(params, final)
    gamma = float(max(np.max(each.discount) for each in batches))
    if regulariser is None:
        regulariser = theory_regulariser(eta, gamma, lipschitz)
        if mask is None:  # without a named final layer there is one coefficient for all: the larger is the safe one
            regulariser = Regulariser(max(regulariser), max(regulariser))
    meter = make_meter(q_fn, final=mask, iterations=iterations) if meter is None else meter
    key = jax.random.key(0) if key is None else key
    measured = jax.device_get(meter(params, stack_batches(batches), jnp.asarray(regulariser), key))
    split = "final" in measured.directions
    directions = {name: _to_direction(found, split) for name, found in measured.directions.items()}
    return StabilityReport(
        parameters=sum(int(np.size(leaf)) for leaf in jax.tree.leaves(params)),
        transitions=sum(int(np.size(each.action)) for each in batches),
        gamma=gamma,
        td_rms=float(measured.td_rms),
        update_norm=float(measured.update_norm),
        smallest=float(measured.directions["largest"]["smallest"]),
        regulariser=regulariser,
        setting=Setting() if setting is None else setting,
        **directions,
    )


def _as_mask(params: PyTree, final: PyTree | str | Sequence[str] | None) -> PyTree | None:
    """`final` as a tree of bools: names are looked up, a tree passes through."""
    names = (final,) if isinstance(final, str) else final
    if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
        return final_layer_mask(params, names)
    return final


def _to_direction(found: dict[str, Array], split: bool) -> Direction:
    terms = {name: float(found[name]) for name in ("off_policy", "nonlinear", "regulariser")}
    return Direction(
        value=float(found.get("value", sum(terms.values()))),
        final_share=float(found["final_share"]) if split else None,
        residual=float(found.get("residual", 0.0)),
        **terms,
    )
