"""Parallelised Q-Networks, Algorithm 1 of the paper: λ-targets from the last rollout, and a squared error.

There is no replay buffer and no target network. Nothing here knows whether the network is recurrent, how many agents
there are or where the data came from: a rollout comes in segments of length L, and L = 1 is the feed-forward case.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pqn.algorithms.acting import QActor
from pqn.algorithms.base import Hyper, Metrics
from pqn.algorithms.descent import OnPolicy
from pqn.algorithms.segments import Segments, counted, mean, segmented
from pqn.networks.qnetwork import kernel_norms
from pqn.options import LearnerConfig
from pqn.returns import lambda_returns
from pqn.types import Array, PyTree, Rollout


class PQN(OnPolicy):
    """Acting is ε-greedy (`QActor`), the gradient steps are those of `OnPolicy`; here are targets and loss."""

    @property
    def actor(self) -> QActor:
        return QActor(self.config, self.spec)

    def segments(self, rollout: Rollout, hyper: Hyper) -> tuple[Segments, Metrics]:
        """λ-returns of the whole rollout, from the values the network acted on, and the pieces to learn from."""
        next_values = jnp.concatenate([rollout.value[1:], rollout.last_value[None]])
        targets = lambda_returns(rollout.reward, rollout.discount, next_values, hyper.lam)
        segments = segmented(rollout, targets, next_values, self.config.segment_length)
        return segments, {"target": mean(targets, rollout.valid)}

    def loss(
        self, params: PyTree, stats: PyTree, batch: PyTree, hyper: Hyper, fixed: PyTree = ()
    ) -> tuple[Array, tuple[PyTree, Metrics]]:
        """½ (R_t − Q(s_t, a_t))², averaged over the minibatch, plus the optional ℓ2 terms; new statistics and metrics.

        The targets are constants: no gradient flows through them (semi-gradient), and there is no target network.
        """
        (_, q), mutated = self.actor.network.apply(
            {"params": params, "batch_stats": stats}, batch.carry, batch.inputs, train=True, mutable=["batch_stats"]
        )
        whole, q_whole = batch, q[self.config.learner.burn_in :]
        batch, q = (batch.head(), q_whole[:-1]) if self.config.joint_statistics else (batch, q_whole)
        chosen = self.actor.mix(params, taken(q, batch), batch.world)  # [L, B]
        fresh = self.config.learner.targets == "minibatch"
        target = self.fresh_targets(params, q_whole, whole, hyper) if fresh else batch.target
        counts = counted(batch, chosen)
        penalty = l2_penalty(self.config.learner, params, hyper)

        def total(values: Array) -> Array:
            return 0.5 * mean(jnp.square(target - values), counts) + penalty

        # Sums for the record are taken of a copy. Otherwise the compiler lets one kernel compute them and the error of
        # each sample, on one multiprocessor, and everything after it waits for that.
        copy = jax.lax.stop_gradient(jax.lax.optimization_barrier(chosen))
        metrics = {"loss": total(copy), "q": mean(copy, counts)}
        return total(chosen), (mutated.get("batch_stats", {}), metrics)

    def fresh_targets(self, params: PyTree, q: Array, batch: Segments, hyper: Hyper) -> Array:
        """λ-returns [L, B] from the present network's own values of the segment; constants for the gradient."""
        values = jax.lax.stop_gradient(self.actor.joint_value(params, q, batch.avail, batch.world))
        # With joint statistics, `values` has what follows the segment as well.
        next_values = values[1:] if self.config.joint_statistics else jnp.concatenate([values[1:], batch.after])
        return lambda_returns(batch.reward, batch.discount, next_values, hyper.lam)


def l2_penalty(config: LearnerConfig, params: PyTree, hyper: Hyper) -> Array | float:
    """The ℓ2 terms: ½‖w‖² of the output layer's kernel and ½‖M‖² of the others, with their coefficients."""
    if not (config.l2_final or config.l2_inner):  # static: the terms cost a pass over the weights
        return 0.0
    final, inner = kernel_norms(params)
    return hyper.l2_final * final + hyper.l2_inner * inner


def taken(q: Array, batch: PyTree) -> Array:
    """Q(s_t, a_t) of each agent [L, B, M]; 0 for one that has no legal action, as in the target."""
    is_taken = jnp.arange(q.shape[-1]) == batch.action[..., None]  # not an index: its gradient would be a scatter
    chosen = jnp.sum(jnp.where(is_taken, q, 0.0), axis=-1)
    return chosen if batch.avail is None else jnp.where(jnp.any(batch.avail, axis=-1), chosen, 0.0)


ALGORITHM = PQN
