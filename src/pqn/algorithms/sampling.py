"""Acting by a stochastic policy: an action is drawn from π(·|s), and its probability is noted beside the value."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pqn.algorithms.acting import NetworkActor, flat_world, one_step
from pqn.errors import ConfigError
from pqn.exploration import masked, sampled
from pqn.networks.actor_critic import ActorCritic
from pqn.options import OWN_NETWORK
from pqn.types import Array, Draw, Inputs, Note, Policy, PyTree, Seen


class PolicyActor(NetworkActor):
    """Samples from the policy of an actor-critic. `Draw.epsilon` is 1 for that, and 0 for its most probable action."""

    @property
    def scores_are(self) -> str:
        return "log-preferences"

    def check(self) -> None:
        learner, network = self.config.learner, self.config.network
        for name, value, default in (
            ("learner.mixer", learner.mixer, "vdn"),
            ("learner.targets", learner.targets, "rollout"),
            ("learner.l2_final", learner.l2_final, 0.0),
            ("learner.l2_inner", learner.l2_inner, 0.0),
            ("network.head", network.head, "linear"),
            ("network.module", network.module, OWN_NETWORK),
        ):
            if value != default:
                raise ConfigError(
                    f"{name} is {value}; it is for Q-values, which algorithm {self.config.algorithm} does not have; "
                    f"leave it {default}"
                )
        if self.config.ppo.critic == "world" and self.config.learner.burn_in:
            raise ConfigError(
                f"learner.burn_in is {self.config.learner.burn_in}; it must be 0 with ppo.critic world, since the "
                "global state of those steps is not kept"
            )
        super().check()

    @property
    def network(self) -> ActorCritic:
        return ActorCritic(self.config.network, self.spec.num_actions, self.config.ppo.critic)

    @property
    def value_shape(self) -> tuple[int, ...]:
        of_team = self.config.ppo.critic == "world" or self.spec.num_agents == 1
        return () if of_team else (self.spec.num_agents,)

    def init(self, key: Array) -> Policy:
        carry, inputs = self.initial_carry(1, self.spec.num_agents), self.blank_inputs(1)
        world = jnp.zeros((1, 1, self.world_size))
        variables: PyTree = self.network.init(key, carry, one_step(inputs), world)
        return Policy(variables["params"], variables.get("batch_stats", {}))

    def initial_carry(self, *shape: int) -> PyTree:
        return self.network.initial_carry(*shape)

    def world(self, obs: Array, world: Array | None) -> Array | None:
        """What the critic reads of the global state; None where it reads what the agents see."""
        return flat_world(obs, world) if self.config.ppo.critic == "world" else None

    def scores(self, policy: Policy, carry: PyTree, inputs: Inputs) -> tuple[PyTree, Array]:
        """Logits of the actions, with the running statistics."""
        # The actor reads no global state, and nobody asks what the critic makes of this one.
        nowhere = jnp.zeros((len(inputs.obs), self.world_size)) if self.config.ppo.critic == "world" else None
        after, logits, _ = self._evaluate(policy, carry, Seen(inputs, world=nowhere))
        return after, logits

    def act(self, policy: Policy, carry: PyTree, seen: Seen, draw: Draw) -> tuple[PyTree, Array, Note]:
        carry, logits, value = self._evaluate(policy, carry, seen)
        action = sampled(draw.uniform, logits, seen.avail, draw.epsilon)
        return carry, action, Note(value, extra=log_probability(logits, seen.avail, action))

    def value(self, policy: Policy, carry: PyTree, seen: Seen) -> Array:
        return self._evaluate(policy, carry, seen)[2]

    def _evaluate(self, policy: Policy, carry: PyTree, seen: Seen) -> tuple[PyTree, Array, Array]:
        """The carry after what was seen, logits [N, M, A] and values [N] or [N, M]."""
        world = None if seen.world is None else seen.world[None]
        variables = {"params": policy.params, "batch_stats": policy.stats}
        out: PyTree = self.network.apply(variables, carry, one_step(seen.inputs), world)
        carry, logits, values = out
        return carry, logits[0], self.shaped(values)[0]

    def shaped(self, values: Array) -> Array:
        """The values [..., M] or, of a team, [..., 1] of the network with the axes of `value_shape`."""
        return values if self.value_shape else values[..., 0]


class Distribution(NamedTuple):
    """What learning needs of a policy at some states."""

    log_probability: Array  # [..., M] of the actions taken
    entropy: Array  # [..., M]


def distribution(logits: Array, avail: Array | None, action: Array) -> Distribution:
    """log π(a|s) and −Σ_a π(a|s) log π(a|s), over legal actions."""
    logs = jax.nn.log_softmax(masked(logits, avail))
    terms = jnp.exp(logs) * logs
    terms = terms if avail is None else jnp.where(avail, terms, 0.0)
    return Distribution(_taken(logs, action), -jnp.sum(terms, axis=-1))


def log_probability(logits: Array, avail: Array | None, action: Array) -> Array:
    return _taken(jax.nn.log_softmax(masked(logits, avail)), action)


def _taken(logs: Array, action: Array) -> Array:
    is_taken = jnp.arange(logs.shape[-1]) == action[..., None]  # not an index: its gradient would be a scatter
    return jnp.sum(jnp.where(is_taken, logs, 0.0), axis=-1)
