"""An environment in which learning diverges."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from pqn.envs.contract import Outcome
from pqn.types import EnvSpec


class Explosive:
    """Pays 1 until step 20 of an episode, then a number so large that its square, the loss, is infinite."""

    spec = EnvSpec("explosive", (1,), np.dtype("float32"), 2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, key, state, action):
        reward = jnp.where(state >= 20, 1e30, 1.0)
        return Outcome(state + 1, jnp.zeros(1), reward, jnp.zeros((), bool))
