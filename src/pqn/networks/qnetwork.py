"""The Q-network: one signature for every kind, over sequences.

Inputs and outputs are time-major, [T, B, M, ...]. A feed-forward network has the empty carry `()` and treats time as
one more batch axis, so that callers never ask which kind they hold.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.config import NetworkConfig
from pqn.networks.heads import Head
from pqn.networks.torsos import MLP, MinAtarCNN
from pqn.types import Array, Inputs, PyTree


class QNetwork(nn.Module):
    """Observation → (input norm) → torso → head."""

    config: NetworkConfig
    num_actions: int

    def initial_carry(self, *batch: int) -> PyTree:
        """Recurrent state at the start of an episode, with leading axes `batch`."""
        del batch
        return ()

    @nn.compact
    def __call__(self, carry: PyTree, inputs: Inputs, train: bool = False) -> tuple[PyTree, Array]:
        """Returns the carry after the last step and Q-values [T, B, M, A].

        Args:
          carry: recurrent state before the first step, [B, M, ...].
          inputs: what the agents saw, [T, B, M, ...].
          train: use and update batch statistics instead of running ones (only `batch` norms care).
        """
        config = self.config
        batch = inputs.obs.shape[:3]
        x = inputs.obs.reshape(-1, *inputs.obs.shape[3:]).astype(config.dtype)
        if config.norm_input:
            x = nn.BatchNorm(use_running_average=not train, name="input_norm", dtype=x.dtype)(x)
        x = self._torso()(x, train)
        q = Head(config.head, self.num_actions, name="head")(x)
        return carry, q.reshape(*batch, self.num_actions)

    def _torso(self) -> nn.Module:
        config = self.config
        if config.torso == "minatar":
            return MinAtarCNN(config.hidden, config.norm, config.init, config.conv, config.dtype, name="torso")
        return MLP(config.hidden, config.norm, config.init, config.dtype, name="torso")


def kernel_norms(params: PyTree) -> tuple[Array, Array]:
    """½‖w‖² of the output layer's kernels and ½‖M‖² of all the others: the two terms of the theory's regulariser."""
    final, inner = jnp.zeros(()), jnp.zeros(())
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if path[-1].key != "kernel":
            continue
        half = 0.5 * jnp.sum(jnp.square(leaf))
        if path[0].key == "head":
            final = final + half
        else:
            inner = inner + half
    return final, inner
