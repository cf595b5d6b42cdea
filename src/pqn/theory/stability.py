"""The TD stability criterion for any Q-network, without ever forming a d×d matrix.

The expected semi-gradient TD update and its Jacobian (paper, "Analysis of Regularised TD"):

    δ(φ)  = E[ (r + γ Q(x') − Q(x)) ∇Q(x) ]
    J(φ)  = ∇δ(φ) = E[ γ ∇Q(x') ∇Q(x)ᵀ − ∇Q(x) ∇Q(x)ᵀ ] + E[ (r + γ Q(x') − Q(x)) ∇²Q(x) ]
    vᵀJv  = C_OffPolicy(v) + C_Nonlinear(v)

    C_OffPolicy(v)  = E[ γ (vᵀ∇Q(x')) (vᵀ∇Q(x)) − (vᵀ∇Q(x))² ]
    C_Nonlinear(v)  = E[ (r + γ Q(x') − Q(x)) vᵀ∇²Q(x) v ]

TD is stable where vᵀJv < 0 for every v ≠ 0, that is where the largest eigenvalue of (J + Jᵀ)/2 is negative.
With G = ∂Q(x)/∂φ and G' = ∂Q(x')/∂φ known through Jacobian-vector products, one product with (J + Jᵀ)/2 costs one
jvp and one vjp through both forward passes, and one Hessian-vector product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from pqn.errors import ConfigError
from pqn.theory.lanczos import lanczos

Params = Any
QFn = Callable[[Params, Any], Array]


class Transitions(NamedTuple):
    """A batch of B transitions, and how they bootstrap.

    `obs` and `next_obs` are whatever `q_fn` takes; its output is flattened to [B, A]. For a recurrent network the
    inputs are whole sequences. With `next_obs = None` the output of q_fn(params, obs) is time-major, [T+1, ..., A],
    and step t bootstraps from step t+1 of the same unroll.
    """

    obs: Any
    action: Array  # [B] int
    reward: Array  # [B]
    discount: Array  # [B]: γ, or 0 where the episode terminated
    next_obs: Any = None
    next_policy: Array | None = None  # [B, A]: bootstrap Σ_a π(a|s')Q(s',a); None: the greedy max_a Q(s',a)
    next_avail: Array | None = None  # [B, A] bool: actions the max may choose; None: all
    weight: Array | None = None  # [B]: probability of each transition; None: uniform


class Regulariser(NamedTuple):
    """Coefficients of the ℓ2 terms subtracted from the update: δ_reg = δ − (final·w, inner·M)."""

    final: float
    inner: float


class Setting(NamedTuple):
    """What the learner already has, so that advice does not name it again; None where nobody said."""

    norm: str | None = None
    """Normalisation of the hidden layers: "layer", "batch", "batch_renorm" or "none" (also: no hidden layer)."""
    l2: Regulariser = Regulariser(0.0, 0.0)
    """Its ℓ2 coefficients."""
    epsilon: float | None = None
    """ε of the policy that collected the data."""


def theory_regulariser(eta: float, gamma: float, lipschitz: float = 1.0) -> Regulariser:
    """Eq. (regularised TD): η(γL/2)² on the final-layer weights w, η−1 on the inner weights M, η > 1."""
    if eta <= 1:
        raise ConfigError(f"eta is {eta}: the regularised update needs eta > 1, for example 1.01.")
    return Regulariser(final=eta * (gamma * lipschitz / 2) ** 2, inner=eta - 1)


def final_layer_mask(params: Params, names: Sequence[str]) -> Params:
    """True on every leaf whose path has a component in `names` (for example ("head",)), as a tree like `params`.

    Raises ConfigError when nothing or everything matches, and names the components there are.
    """

    def component(entry: Any) -> str:
        for attribute in ("key", "name", "idx"):
            if hasattr(entry, attribute):
                return str(getattr(entry, attribute))
        return str(entry)

    paths = [tuple(component(e) for e in path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    hits = [any(part in names for part in path) for path in paths]
    if not any(hits) or all(hits):
        known = sorted({"/".join(path) for path in paths})
        some = "every parameter" if any(hits) else "no parameter"
        raise ConfigError(f"final layer {tuple(names)} matches {some}: name components of {', '.join(known)}.")
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(params), hits)


def check_inputs(params: Params, batch: Transitions) -> None:
    """Raises ConfigError for a network without parameters or a batch without transitions."""
    if sum(np.size(leaf) for leaf in jax.tree.leaves(params)) == 0:
        raise ConfigError("params is empty: the stability meter needs the parameters of a trained or fresh network.")
    if np.size(batch.action) == 0:
        raise ConfigError("the batch holds no transitions: collect at least one step before measuring stability.")


def values(q_fn: QFn, params: Params, batch: Transitions) -> tuple[Array, Array]:
    """Q(x) and the bootstrap value Q(x') of every transition, each [B]; differentiable in `params`.

    The greedy action is held fixed, which is the derivative of max wherever it has one.
    """
    out = q_fn(params, batch.obs)
    if batch.next_obs is None:
        out, out_next = out[:-1], out[1:]
    else:
        out_next = q_fn(params, batch.next_obs)
    q = out.reshape(-1, out.shape[-1])  # [B, A]
    q_next = out_next.reshape(-1, out.shape[-1])  # [B, A]
    q_taken = jnp.take_along_axis(q, batch.action.reshape(-1, 1), axis=1)[:, 0]
    if batch.next_policy is not None:
        return q_taken, (batch.next_policy * q_next).sum(1)
    legal = q_next if batch.next_avail is None else jnp.where(batch.next_avail, q_next, -jnp.inf)
    greedy = jax.lax.stop_gradient(legal).argmax(1)
    return q_taken, jnp.take_along_axis(q_next, greedy[:, None], axis=1)[:, 0]


class Operator(NamedTuple):
    """(J + Jᵀ)/2 of one batch at one φ, as functions of a flat vector v [d]."""

    off_policy: Callable[[Array], Array]  # v -> product with the off-policy part
    nonlinear: Callable[[Array], Array]  # v -> product with the nonlinear part, E[td ∇²Q]
    terms: Callable[[Array], Array]  # v -> [C_OffPolicy(v), C_Nonlinear(v)]
    update: Array  # [d] δ(φ)
    squared_error: Array  # [] E[(r + γQ(x') − Q(x))²]


def make_operator(q_fn: QFn, params: Params, batch: Transitions) -> Operator:
    """Linearises the batch's values around `params` once; every product afterwards reuses that."""
    flat, unravel = ravel_pytree(params)

    def flat_values(phi: Array) -> tuple[Array, Array]:
        return values(q_fn, unravel(phi), batch)

    (q, q_next), jvp = jax.linearize(flat_values, flat)  # jvp(v) = (Gv, G'v)
    transpose = jax.linear_transpose(jvp, flat)  # transpose((a, b)) = Gᵀa + G'ᵀb
    reward, discount = batch.reward.reshape(-1), batch.discount.reshape(-1)
    weight = jnp.full_like(q, 1 / q.shape[0]) if batch.weight is None else batch.weight / batch.weight.sum()
    td_error = reward + discount * q_next - q
    error = weight * td_error

    def off_policy(v: Array) -> Array:
        # ½[Gᵀ W(γG'v − Gv) + (γG' − G)ᵀ W Gv], both halves in one transposed pass.
        gv, gv_next = jvp(v)
        return transpose((weight * (0.5 * discount * gv_next - gv), 0.5 * weight * discount * gv))[0]

    def nonlinear(v: Array) -> Array:
        gradient = jax.grad(lambda phi: error @ flat_values(phi)[0])
        return jax.jvp(gradient, (flat,), (v,))[1]

    def terms(v: Array) -> Array:
        gv, gv_next = jvp(v)
        return jnp.stack([weight @ (discount * gv_next * gv - gv * gv), v @ nonlinear(v)])

    update = transpose((error, jnp.zeros_like(error)))[0]
    return Operator(off_policy, nonlinear, terms, update, error @ td_error)


def td_update(q_fn: QFn, params: Params, batch: Transitions) -> Params:
    """δ(φ) = E[(r + γQ(x') − Q(x)) ∇Q(x)], as a tree like `params`."""
    check_inputs(params, batch)
    return ravel_pytree(params)[1](make_operator(q_fn, params, batch).update)


class Terms(NamedTuple):
    """C_OffPolicy(v), C_Nonlinear(v) and their sum vᵀJv, all scalars."""

    off_policy: Array
    nonlinear: Array

    @property
    def total(self) -> Array:
        """vᵀJ(φ)v."""
        return self.off_policy + self.nonlinear


def jacobian_terms(q_fn: QFn, params: Params, vector: Params, batch: Transitions) -> Terms:
    """The two stability terms along `vector`, a tree like `params` (any length; the terms scale with ‖v‖²)."""
    check_inputs(params, batch)
    off_policy, nonlinear = make_operator(q_fn, params, batch).terms(ravel_pytree(vector)[0])
    return Terms(off_policy, nonlinear)


def _stack(batches: Sequence[Transitions]) -> Transitions:
    shapes = {tuple(np.shape(leaf) for leaf in jax.tree.leaves(batch)) for batch in batches}
    if len(shapes) > 1:
        raise ConfigError("batches have different shapes: cut them to one size before averaging over them.")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)


def _mean_operator(q_fn: QFn, params: Params, batches: Transitions) -> Operator:
    """The operator averaged over stacked batches [K, ...]; with K = 1 it is linearised once, outside any loop."""
    count = batches.action.shape[0]
    if count == 1:
        return make_operator(q_fn, params, jax.tree.map(lambda x: x[0], batches))

    def mean_of(pick: Callable[[Operator], Array]) -> Array:
        def body(total: Array, batch: Transitions):
            return total + pick(make_operator(q_fn, params, batch)) / count, None

        shape = jax.eval_shape(lambda b: pick(make_operator(q_fn, params, b)), jax.tree.map(lambda x: x[0], batches))
        return jax.lax.scan(body, jnp.zeros(shape.shape, shape.dtype), batches)[0]

    # Recomputing the forward pass per batch keeps memory at one batch, however many there are.
    return Operator(
        off_policy=lambda v: mean_of(lambda op: op.off_policy(v)),
        nonlinear=lambda v: mean_of(lambda op: op.nonlinear(v)),
        terms=lambda v: mean_of(lambda op: op.terms(v)),
        update=mean_of(lambda op: op.update),
        squared_error=mean_of(lambda op: op.squared_error),
    )


def _direction(op: Operator, v: Array, penalty: Array, final: Array) -> dict[str, Array]:
    off_policy, nonlinear = op.terms(v)
    return {
        "off_policy": off_policy,
        "nonlinear": nonlinear,
        "regulariser": -jnp.sum(penalty * v * v),
        "final_share": jnp.sum(final * v * v),
    }


def make_meter(q_fn: QFn, *, final: Params | None = None, iterations: int = 40) -> Callable[..., dict[str, Any]]:
    """A jitted meter(params, batches [K, ...], coefficients [2], key) -> numbers, for repeated use during training.

    `final` marks the final-layer leaves (see `final_layer_mask`); without it there is no split by layer.
    Cost: 2·iterations products with the symmetrised Jacobian (4·iterations with `final`), each about as much as five
    gradient steps on the batches; memory: iterations × d numbers. `bench/theory.py` measures it.
    """

    @jax.jit
    def meter(params: Params, batches: Transitions, coefficients: Array, key: Array) -> dict[str, Any]:
        op = _mean_operator(q_fn, params, batches)
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
        step = op.update / jnp.maximum(jnp.linalg.norm(op.update), jnp.finfo(flat.dtype).tiny)
        return {name: jax.tree.map(lambda x, i=i: x[i], found) for i, name in enumerate(names)} | {
            "update": _direction(op, step, jnp.zeros_like(flat), marks),
            "update_norm": jnp.linalg.norm(op.update),
            "td_rms": jnp.sqrt(op.squared_error),
        }

    return meter


def _flat_mask(params: Params, final: Params) -> Array:
    marked = jax.tree.map(lambda leaf, mark: jnp.full(jnp.shape(leaf), mark, leaf.dtype), params, final)
    return ravel_pytree(marked)[0]


@dataclass(frozen=True)
class Direction:
    """One unit vector v and what the criterion says along it: value = off_policy + nonlinear + regulariser."""

    value: float
    """vᵀJv (λ when v is an eigenvector): positive means the update pushes away along v."""
    off_policy: float
    """C_OffPolicy(v)."""
    nonlinear: float
    """C_Nonlinear(v)."""
    regulariser: float = 0.0
    """−(ℓ2 coefficients)·v²."""
    final_share: float | None = None
    """‖v_w‖²: how much of v lies in the final layer (None where it was not named)."""
    residual: float = 0.0
    """‖(J+Jᵀ)v/2 − λv‖: an eigenvalue lies within this of `value`."""


@dataclass(frozen=True)
class StabilityReport:
    """What the TD stability criterion says about one network on one set of transitions."""

    parameters: int
    transitions: int
    gamma: float
    """Largest discount in the batch; enters the regulariser."""
    td_rms: float
    """Root mean square TD error."""
    update_norm: float
    """‖δ(φ)‖."""
    largest: Direction
    """Top eigenvector of (J+Jᵀ)/2: the worst direction."""
    smallest: float
    """Lowest eigenvalue: the fastest contraction, the scale to judge `largest` by."""
    update: Direction
    """Along the current expected update δ(φ)/‖δ(φ)‖: where the parameters are actually going."""
    regularised: Direction
    """Top eigenvector with the regulariser subtracted."""
    regulariser: Regulariser
    """The ℓ2 coefficients `regularised` was computed with."""
    final: Direction | None = None
    """Worst direction inside the final layer alone."""
    inner: Direction | None = None
    """Worst direction inside all other parameters alone."""
    setting: Setting = field(default_factory=Setting)
    """What the learner has already; only the words depend on it."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary."""
        setting = self.setting._asdict() | {"l2": self.setting.l2._asdict()}
        return asdict(self) | {"regulariser": self.regulariser._asdict(), "setting": setting}

    def row(self) -> dict[str, float]:
        """The few numbers worth a curve: the criterion, its split, and the scale to judge them by."""
        return {
            "largest": self.largest.value,
            "off_policy": self.largest.off_policy,
            "nonlinear": self.largest.nonlinear,
            "regularised": self.regularised.value,
            "smallest": self.smallest,
            "td_rms": self.td_rms,
        }


def stability(
    q_fn: QFn,
    params: Params,
    batch: Transitions | Sequence[Transitions],
    *,
    final: Params | str | Sequence[str] | None = None,
    regulariser: Regulariser | None = None,
    eta: float = 1.01,
    lipschitz: float = 1.0,
    iterations: int = 40,
    key: Array | None = None,
    meter: Callable[..., dict[str, Any]] | None = None,
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
    raw = jax.device_get(meter(params, _stack(batches), jnp.asarray(regulariser), key))
    sizes = (sum(np.size(leaf) for leaf in jax.tree.leaves(params)), sum(np.size(each.action) for each in batches))
    return replace(_to_report(raw, sizes, gamma, regulariser), setting=Setting() if setting is None else setting)


def _as_mask(params: Params, final: Any) -> Params | None:
    """`final` as a tree of bools: names are looked up, a tree passes through."""
    names = (final,) if isinstance(final, str) else final
    if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
        return final_layer_mask(params, names)
    return final


def _to_report(raw: dict[str, Any], sizes: tuple[int, int], gamma: float, regulariser: Regulariser) -> StabilityReport:
    split = "final" in raw
    direction = partial(_to_direction, split=split)
    return StabilityReport(
        parameters=int(sizes[0]),
        transitions=int(sizes[1]),
        gamma=gamma,
        td_rms=float(raw["td_rms"]),
        update_norm=float(raw["update_norm"]),
        largest=direction(raw["largest"]),
        smallest=float(raw["largest"]["smallest"]),
        update=direction(raw["update"]),
        regularised=direction(raw["regularised"]),
        regulariser=regulariser,
        final=direction(raw["final"]) if split else None,
        inner=direction(raw["inner"]) if split else None,
    )


def _to_direction(raw: dict[str, Any], split: bool) -> Direction:
    parts = {name: float(raw[name]) for name in ("off_policy", "nonlinear", "regulariser")}
    return Direction(
        value=float(raw.get("value", sum(parts.values()))),
        final_share=float(raw["final_share"]) if split else None,
        residual=float(raw.get("residual", 0.0)),
        **parts,
    )
