"""The expected TD update and its Jacobian, for any Q-network, without ever forming a d×d matrix.

(Paper, "Analysis of Regularised TD".)

    δ(φ)  = E[ (r + γ Q(x') − Q(x)) ∇Q(x) ]
    J(φ)  = ∇δ(φ) = E[ γ ∇Q(x') ∇Q(x)ᵀ − ∇Q(x) ∇Q(x)ᵀ ] + E[ (r + γ Q(x') − Q(x)) ∇²Q(x) ]
    vᵀJv  = C_OffPolicy(v) + C_Nonlinear(v)

    C_OffPolicy(v)  = E[ γ (vᵀ∇Q(x')) (vᵀ∇Q(x)) − (vᵀ∇Q(x))² ]
    C_Nonlinear(v)  = E[ (r + γ Q(x') − Q(x)) vᵀ∇²Q(x) v ]

With G = ∂Q(x)/∂φ and G' = ∂Q(x')/∂φ known through Jacobian-vector products, one product with (J + Jᵀ)/2 costs one
jvp and one vjp through both forward passes, and one Hessian-vector product.
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
from pqn.types import PyTree

QFunction = Callable[[PyTree, PyTree], Array]
"""(parameters, observations) -> Q-values whose last axis is the action."""


class Transitions(NamedTuple):
    """A batch of B transitions, and how they bootstrap.

    `obs` and `next_obs` are whatever `q_fn` takes; its output is flattened to [B, A]. For a recurrent network the
    inputs are whole sequences. With `next_obs = None` the output of q_fn(params, obs) is time-major, [T+1, ..., A],
    and step t bootstraps from step t+1 of the same unroll.
    """

    obs: PyTree
    action: Array  # [B] int
    reward: Array  # [B]
    discount: Array  # [B]: γ, or 0 where the episode terminated
    next_obs: PyTree = None
    next_policy: Array | None = None  # [B, A]: bootstrap Σ_a π(a|s')Q(s',a); None: the greedy max_a Q(s',a)
    next_avail: Array | None = None  # [B, A] bool: actions the max may choose; None: all
    weight: Array | None = None  # [B]: probability of each transition; None: uniform


def check_inputs(params: PyTree, batch: Transitions) -> None:
    """Raises ConfigError for a network without parameters or a batch without transitions."""
    if sum(np.size(leaf) for leaf in jax.tree.leaves(params)) == 0:
        raise ConfigError("params is empty: the stability meter needs the parameters of a trained or fresh network.")
    if np.size(batch.action) == 0:
        raise ConfigError("the batch holds no transitions: collect at least one step before measuring stability.")


def values(q_fn: QFunction, params: PyTree, batch: Transitions) -> tuple[Array, Array]:
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


def make_operator(q_fn: QFunction, params: PyTree, batch: Transitions) -> Operator:
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


def td_update(q_fn: QFunction, params: PyTree, batch: Transitions) -> PyTree:
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


def jacobian_terms(q_fn: QFunction, params: PyTree, vector: PyTree, batch: Transitions) -> Terms:
    """The two stability terms along `vector`, a tree like `params` (any length; the terms scale with ‖v‖²)."""
    check_inputs(params, batch)
    off_policy, nonlinear = make_operator(q_fn, params, batch).terms(ravel_pytree(vector)[0])
    return Terms(off_policy, nonlinear)


def stack_batches(batches: Sequence[Transitions]) -> Transitions:
    shapes = {tuple(np.shape(leaf) for leaf in jax.tree.leaves(batch)) for batch in batches}
    if len(shapes) > 1:
        raise ConfigError("batches have different shapes: cut them to one size before averaging over them.")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)


def mean_operator(q_fn: QFunction, params: PyTree, batches: Transitions) -> Operator:
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
