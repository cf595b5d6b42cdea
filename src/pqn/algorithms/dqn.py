"""Deep Q-networks (Mnih et al. 2015): a buffer of past steps and a target network.

    y_t = r_t + γ r_{t+1} + … + γⁿ V⁻(s_{t+n}),    loss ½ (y_t − Q(s_t, a_t))² or its Huber form

V⁻ is that of the target network Q⁻: max_a Q⁻(s, a) or, with `target.double`, Q⁻(s, argmax_a Q(s, a)) (van Hasselt et
al. 2016). Dueling networks (Wang et al. 2016) are `network.head`. Recurrent networks learn from sequences whose memory
starts empty, after `learner.burn_in` steps that refresh it (Kapturowski et al. 2019). Several agents have a mixer, as
everywhere here: with `vdn` and `qmix` this is VDN and QMIX as they were published, with replay and target networks.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from pqn.algorithms.base import Hyper, LearnerState, Work
from pqn.algorithms.replay import Replay, Sequences
from pqn.exploration import masked
from pqn.returns import n_step_returns
from pqn.types import Array, Policy, PyTree


class DQN(Replay):
    """Sampling and loss are those of `Replay`; here are the target network and what it says."""

    @property
    def lookahead(self) -> int:
        return self.config.target.n_step

    def init(self, key: Array) -> LearnerState:
        state = super().init(key)
        # A copy: the same array twice in a state could not be donated.
        return state._replace(target=jax.tree.map(jnp.copy, self.policy(state)))

    def work(self, state: LearnerState, data: PyTree, key: Array, hyper: Hyper) -> Work:
        """The target network moves first, every `target.interval` updates."""
        work = super().work(state, data, key, hyper)
        rate = jnp.where(state.updates % self.config.target.interval == 0, hyper.target_rate, 0.0)

        def moved(old: Array, new: Array) -> Array:
            # A copy is exact, which the sum of a difference is not. Counters of batch norms are copied as well.
            whole = rate == 1.0 if jnp.issubdtype(old.dtype, jnp.floating) else rate > 0.0
            return jnp.where(whole, new, (old + rate * (new - old)).astype(old.dtype))

        target = jax.tree.map(moved, state.target, self.policy(state))
        return work._replace(fixed=target)

    def values(self, params: PyTree, q: Array, batch: Sequences, fixed: PyTree) -> Array:
        target: Policy = fixed
        variables = {"params": target.params, "batch_stats": target.stats}
        out: PyTree = self.actor.network.apply(variables, batch.carry, batch.inputs)
        says = out[1][self.config.learner.burn_in :]
        if not self.config.target.double:
            return self.actor.joint_value(target.params, says, batch.avail, batch.world)
        best = jnp.argmax(masked(q, batch.avail), axis=-1, keepdims=True)
        chosen = jnp.take_along_axis(says, best, axis=-1)[..., 0]
        if batch.avail is not None:
            chosen = jnp.where(jnp.any(batch.avail, axis=-1), chosen, 0.0)
        return self.actor.mix(target.params, chosen, batch.world)

    def targets(self, rewards: Array, discounts: Array, values: Array, hyper: Hyper) -> Array:
        return n_step_returns(rewards[:-1], discounts[:-1], values[1:], self.lookahead)

    def error(self, difference: Array) -> Array:
        if self.config.target.loss == "squared":
            return super().error(difference)
        return optax.huber_loss(difference)


ALGORITHM = DQN
