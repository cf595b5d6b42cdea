"""The network of an actor-critic: what each agent would do, and how good the state is.

Its signature is that of the Q-network with one more input, the global state, and one more output, the values.
"""

from __future__ import annotations

import dataclasses

import flax.linen as nn
import jax.numpy as jnp

from pqn.networks.products import dot_general
from pqn.networks.qnetwork import SequenceNetwork, initial_carry
from pqn.options import NetworkConfig
from pqn.types import Array, Inputs, PyTree

POLICY_GAIN = 0.01  # a small one: the first policy is nearly uniform (Andrychowicz et al. 2021)


class Outputs(SequenceNetwork):
    """Features → one linear layer for each of `heads`, of a width and a gain."""

    heads: tuple[tuple[str, int, float], ...] = ()

    @nn.compact
    def __call__(self, carry: PyTree, inputs: Inputs, train: bool = False) -> tuple[PyTree, dict[str, Array]]:
        """Returns the carry after the last step and what each head says, [T, B, M, width]."""
        after, x = self.features(carry, inputs, train)
        x, shape = x.astype(jnp.float32), inputs.obs.shape[:3]
        outs = {
            name: nn.Dense(width, kernel_init=nn.initializers.orthogonal(gain), name=name, dot_general=dot_general)(
                x
            ).reshape(*shape, width)
            for name, width, gain in self.heads
        }
        return after, outs


class ActorCritic(nn.Module):
    """Logits of the policy and values, from one network (`shared`) or from two (`separate`, `world`)."""

    config: NetworkConfig
    num_actions: int
    critic: str

    def initial_carry(self, *batch: int) -> PyTree:
        """Recurrent state at the start of an episode, of each network, with leading axes `batch`, agents last."""
        if self.config.memory == "none":
            return ()
        critic = {"shared": {}, "separate": {"critic": batch}, "world": {"critic": (*batch[:-1], 1)}}[self.critic]
        return {name: initial_carry(self.config, *shape) for name, shape in ({"actor": batch} | critic).items()}

    @nn.compact
    def __call__(
        self, carry: PyTree, inputs: Inputs, world: Array | None, train: bool = False
    ) -> tuple[PyTree, Array, Array]:
        """Returns the carry after the last step, logits [T, B, M, A] and values [T, B, M], or [T, B, 1] of teams.

        Args:
          carry: recurrent state before the first step.
          inputs: what the agents saw, [T, B, M, ...].
          world: the global state [T, B, W], where the critic reads it.
          train: use and update batch statistics instead of running ones; matters for batch norms only.
        """
        policy, value = ("policy", self.num_actions, POLICY_GAIN), ("value", 1, 1.0)
        alone = self.critic == "shared"
        actor = Outputs(self.config, self.num_actions, (policy, value) if alone else (policy,), name="actor")
        carries = {}
        carries["actor"], outs = actor(carry["actor"] if carry else (), inputs, train)
        if not alone:
            config = self.config
            if self.critic == "world":
                assert world is not None, "this critic reads the global state"
                # The global state is a vector that belongs to no agent: no image, no number, no last action.
                config = dataclasses.replace(config, torso="mlp", agent_id=False)
                inputs = Inputs(world[:, :, None], jnp.any(inputs.first, axis=-1, keepdims=True))
            critic = Outputs(config, self.num_actions, (value,), name="critic")
            carries["critic"], values = critic(carry["critic"] if carry else (), inputs, train)
            outs |= values
        return carries if carry else (), outs["policy"], outs["value"][..., 0]
