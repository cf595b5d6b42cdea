"""Networks over sequences, with one signature for every kind, and the Q-network.

Inputs and outputs are time-major, [T, B, M, ...]. A feed-forward network has the empty carry `()` and treats time as
one more batch axis. Callers treat both kinds alike.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.networks import pixels, torsos
from pqn.networks.heads import Head
from pqn.networks.memory import CELLS
from pqn.networks.norms import Norm, in_front_of
from pqn.networks.torsos import Torso
from pqn.options import NetworkConfig
from pqn.types import Array, Inputs, PyTree

TORSOS = torsos.TORSOS | pixels.TORSOS
"""The torso of each name in `NetworkConfig.torso`."""


def initial_carry(config: NetworkConfig, *batch: int) -> PyTree:
    """Recurrent state at the start of an episode, with leading axes `batch`: one entry per memory layer."""
    if config.memory == "none":
        return ()
    return tuple(CELLS[config.memory].initial_carry(config.memory_size, *batch) for _ in range(config.memory_layers))


class SequenceNetwork(nn.Module):
    """Observation → (input norm) → torso → (memory) → features. A subclass adds its head."""

    config: NetworkConfig
    num_actions: int

    def initial_carry(self, *batch: int) -> PyTree:
        """Recurrent state at the start of an episode, with leading axes `batch`."""
        return initial_carry(self.config, *batch)

    def features(self, carry: PyTree, inputs: Inputs, train: bool) -> tuple[PyTree, Array]:
        """The carry after the last step, and features [T·B·M, F]; to be called from a compact method."""
        config = self.config
        steps, envs, agents = inputs.obs.shape[:3]
        x = inputs.obs.reshape(-1, *inputs.obs.shape[3:])
        x = pixels.image(x, config.dtype) if config.torso in pixels.TORSOS else x.astype(config.dtype)
        x = _with_agent_id(x, agents) if config.agent_id else x
        torso = self._torso()
        x = in_front_of(torso.first_norm, Norm, train)(config.norm_input, name="input_norm")(x, train)
        x = torso(x, train)
        x = jnp.concatenate([x, *self._past(inputs)], axis=-1)
        x, first = x.reshape(steps, envs * agents, -1), inputs.first.reshape(steps, envs * agents)
        after = []
        for layer, before in enumerate(carry):
            cell = CELLS[config.memory](config.memory_size, config.dtype, name=f"memory_{layer}")
            # All agents share the parameters, so each agent is one more sequence of the batch.
            merged = jax.tree.map(lambda c: c.reshape(envs * agents, -1), before)
            state, x = cell(merged, x, first, train)
            after.append(jax.tree.map(lambda c: c.reshape(envs, agents, -1), state))
        return tuple(after), x.reshape(steps * envs * agents, -1)

    def _past(self, inputs: Inputs) -> list[Array]:
        """Last action (one-hot) and last reward, both zero where there is no past, as features [T·B·M, …]."""
        started = ~inputs.first.reshape(-1, 1)
        features = []
        if inputs.last_action is not None:
            features.append(jax.nn.one_hot(inputs.last_action.reshape(-1), self.num_actions) * started)
        if inputs.last_reward is not None:
            features.append(inputs.last_reward.reshape(-1, 1) * started)
        return [feature.astype(self.config.dtype) for feature in features]

    def _torso(self) -> Torso:
        config = self.config
        kind = TORSOS[config.torso]
        return kind(config.hidden, config.norm, config.init, config.conv, config.dtype, config.activation, name="torso")


class QNetwork(SequenceNetwork):
    """Features → head → Q-values."""

    @nn.compact
    def __call__(self, carry: PyTree, inputs: Inputs, train: bool = False) -> tuple[PyTree, Array]:
        """Returns the carry after the last step and Q-values [T, B, M, A].

        Args:
          carry: recurrent state before the first step, [B, M, ...].
          inputs: what the agents saw, [T, B, M, ...].
          train: use and update batch statistics instead of running ones; matters for batch norms only.
        """
        after, x = self.features(carry, inputs, train)
        q = Head(self.config.head, self.num_actions, name="head")(x)
        return after, q.reshape(*inputs.obs.shape[:3], self.num_actions)


def _with_agent_id(x: Array, agents: int) -> Array:
    """Appends the agent's number, one-hot, along the last axis of [T·B·M, ..., F]: to images as constant planes."""
    rows = x.shape[0]  # not len(x): an export has a batch of any size
    ids = jnp.tile(jnp.eye(agents, dtype=x.dtype), (rows // agents, 1))
    ids = ids.reshape(rows, *(1,) * (x.ndim - 2), agents)
    return jnp.concatenate([x, jnp.broadcast_to(ids, (*x.shape[:-1], agents))], axis=-1)


def kernel_norms(params: PyTree) -> tuple[Array, Array]:
    """½‖w‖² of the output layer's kernels and ½‖M‖² of all the others: the two terms of the theory's regulariser."""
    final, inner = jnp.zeros(()), jnp.zeros(())
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if path[-1].key not in ("kernel", "recurrent"):
            continue
        half = 0.5 * jnp.sum(jnp.square(leaf))
        if path[0].key == "head":
            final = final + half
        else:
            inner = inner + half
    return final, inner
