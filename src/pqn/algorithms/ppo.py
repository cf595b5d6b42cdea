"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347), with generalised advantage estimation.

    Â_t = Σ_k (γλ)ᵏ δ_{t+k} = R_t^λ − V(s_t),    δ_t = r_t + γ V(s_{t+1}) − V(s_t)        (arXiv 1506.02438)
    L   = −E[min(ρ Â, clip(ρ, 1 − c, 1 + c) Â)] + w ½ E[(R^λ − V)²] − h E[H(π)],    ρ = π(a|s) / π_old(a|s)

R^λ is the λ-return of `returns`. A truncated episode bootstraps from its true last observation, as everywhere here.

Several agents share the network. With `ppo.critic` `shared` or `separate` each agent has its own value and advantage,
from the team's reward (IPPO, arXiv 2011.09533). With `world` the team has one value of the global state, and all agents
its advantage (MAPPO, arXiv 2103.01955). An agent without a legal action has no part in the loss.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn import shards
from pqn.algorithms.base import Hyper, LearnerState, Metrics
from pqn.algorithms.descent import OnPolicy
from pqn.algorithms.sampling import PolicyActor, distribution
from pqn.algorithms.segments import Segments, counted, mean, segmented
from pqn.arrays import expand
from pqn.returns import lambda_returns
from pqn.types import Array, PyTree, Rollout


class Noted(NamedTuple):
    """What was true of each step when it was taken."""

    log_probability: Array  # [T, N, M] of the action
    value: Array  # [T, N] or [T, N, M]
    advantage: Array  # the same


class PPO(OnPolicy):
    """Acting is by `PolicyActor`, the gradient steps are those of `OnPolicy`; here are advantages and loss."""

    @property
    def statistics(self) -> tuple[str, ...]:
        return ()

    @property
    def actor(self) -> PolicyActor:
        return PolicyActor(self.config, self.spec)

    def epsilon(self, state: LearnerState, hyper: Hyper) -> Array:
        """Every action is drawn from the policy."""
        return jnp.float32(1.0)

    def schedules(self, update: int) -> dict[str, float]:
        return {"lr": super().schedules(update)["lr"]}

    def segments(self, rollout: Rollout, hyper: Hyper) -> tuple[Segments, Metrics]:
        """λ-returns, advantages, and the pieces to learn from."""
        next_values = jnp.concatenate([rollout.value[1:], rollout.last_value[None]])
        targets = lambda_returns(rollout.reward, rollout.discount, next_values, hyper.lam)
        noted = Noted(rollout.extra, rollout.value, targets - rollout.value)
        segments = segmented(rollout._replace(extra=noted), targets, next_values, self.config.segment_length)
        return segments, {"target": mean(targets, rollout.valid)}

    def loss(
        self, params: PyTree, stats: PyTree, batch: PyTree, hyper: Hyper, fixed: PyTree = ()
    ) -> tuple[Array, tuple[PyTree, Metrics]]:
        """The clipped objective, the error of the values, and the entropy; new statistics and metrics."""
        noted: Noted = batch.extra
        (_, logits, values), mutated = self.actor.network.apply(
            {"params": params, "batch_stats": stats},
            batch.carry,
            batch.inputs,
            batch.world,
            train=True,
            mutable=["batch_stats"],
        )
        burn_in = self.config.learner.burn_in
        values = self.actor.shaped(values[burn_in:])
        now = distribution(logits[burn_in:], batch.avail, batch.action)
        agents = counted(batch, batch.action)
        advantage = self.normalized(noted.advantage, batch)
        ratio = jnp.exp(now.log_probability - noted.log_probability)
        policy = mean(clipped(ratio, expand(advantage, ratio), hyper.ppo_clip), agents)
        value = mean(self.value_error(values, batch, noted, hyper), counted(batch, values))
        entropy = mean(now.entropy, agents)
        loss = policy + hyper.ppo_value_weight * value - hyper.ppo_entropy * entropy
        metrics = {
            "loss": loss,
            "policy_loss": policy,
            "value_loss": value,
            "entropy": entropy,
            # An estimate of KL(π_old ‖ π) that is never negative: E[ρ − 1 − log ρ].
            "kl": mean(ratio - 1.0 - (now.log_probability - noted.log_probability), agents),
            "clipped": mean((jnp.abs(ratio - 1.0) > hyper.ppo_clip).astype(jnp.float32), agents),
        }
        return loss, (mutated.get("batch_stats", {}), jax.lax.stop_gradient(metrics))

    def normalized(self, advantage: Array, batch: Segments) -> Array:
        if not self.config.ppo.normalize:
            return advantage
        counts = counted(batch, advantage)
        centred = advantage - shards.mean(mean(advantage, counts))
        return centred / (jnp.sqrt(shards.mean(mean(jnp.square(centred), counts))) + 1e-8)

    def value_error(self, values: Array, batch: Segments, noted: Noted, hyper: Hyper) -> Array:
        """½ (R − V)², or the larger one of that and the same for a V that has moved by at most the clip."""
        error = jnp.square(batch.target - values)
        if self.config.ppo.clip_value:
            near = noted.value + jnp.clip(values - noted.value, -hyper.ppo_clip, hyper.ppo_clip)
            error = jnp.maximum(error, jnp.square(batch.target - near))
        return 0.5 * error


def clipped(ratio: Array, advantage: Array, clip: Array | float) -> Array:
    """−min(ρ Â, clip(ρ, 1 − c, 1 + c) Â): no gradient beyond the clip in the direction that the advantage favours."""
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


ALGORITHM = PPO
