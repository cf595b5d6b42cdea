"""Acting by Q-values: from what the agents see to actions, and to the values that learning needs."""

from __future__ import annotations

import abc
import dataclasses
import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.config import Config
from pqn.errors import ConfigError
from pqn.exploration import epsilon_greedy, greedy_value
from pqn.networks.given import check_network, make_network
from pqn.networks.mixers import QMIX, VDN, Independent
from pqn.networks.qnetwork import QNetwork
from pqn.options import OWN_NETWORK
from pqn.types import Array, Draw, EnvSpec, Inputs, Note, Policy, PyTree, Seen

MIXER = "mixer"  # the name of its parameters among those of the network


@dataclasses.dataclass(frozen=True)
class NetworkActor(abc.ABC):
    """What actors have in common, whatever their network says: what it reads, and whether it can."""

    config: Config
    spec: EnvSpec

    @abc.abstractmethod
    def init(self, key: Array) -> Policy: ...

    def check(self) -> None:
        torso = self.config.network.torso
        if torso == "mlp":  # takes anything
            return
        try:
            jax.eval_shape(self.init, jax.random.key(0))
        except Exception as error:  # flax, jax and Python each have their own word for shapes that do not fit
            raise ConfigError(
                f"network.torso {torso} cannot take the observations of {self.spec.name}, of shape "
                f"{self.spec.obs_shape}: it wants images, of height, width and channels, that are large enough; "
                "use network.torso mlp"
            ) from error

    def inputs(self, obs: Array, first: Array, last_action: Array, last_reward: Array) -> Inputs:
        network = self.config.network
        reward = jnp.broadcast_to(last_reward[:, None], first.shape)
        return Inputs(obs, first, last_action if network.last_action else None, reward if network.last_reward else None)

    def blank_inputs(self, envs: int) -> Inputs:
        """Inputs [N, M, ...] of the right shapes, to make parameters or a buffer for."""
        shape = (envs, self.spec.num_agents)
        obs = jnp.zeros((*shape, *self.spec.obs_shape), self.spec.obs_dtype)
        return self.inputs(obs, jnp.ones(shape, bool), jnp.zeros(shape, jnp.int32), jnp.zeros(envs))

    @property
    def world_size(self) -> int:
        """Length of the global state or, where there is none, of all that the agents see."""
        return self.spec.world_size or self.spec.num_agents * math.prod(self.spec.obs_shape)


def flat_world(obs: Array, world: Array | None) -> Array:
    """The global state [N, W] or, where there is none, all that the agents see."""
    return obs.reshape(len(obs), -1).astype(jnp.float32) if world is None else world


class QActor(NetworkActor):
    """ε-greedy on a Q-network; a mixer makes one value of those of several agents."""

    @property
    def scores_are(self) -> str:
        return "Q-values"

    def check(self) -> None:
        if self.config.network.module == OWN_NETWORK:
            super().check()
        else:
            check_network(self.config, self.spec, self.blank_inputs(1))

    @property
    def network(self) -> QNetwork:
        return make_network(self.config, self.spec)

    @property
    def mixer(self) -> nn.Module:
        config = self.config.learner
        if config.mixer == "qmix":
            return QMIX(config.mixer_size)
        # With one agent, `independent` equals VDN: one program for both names.
        return Independent() if config.mixer == "independent" and self.spec.num_agents > 1 else VDN()

    @property
    def value_shape(self) -> tuple[int, ...]:
        return (self.spec.num_agents,) if isinstance(self.mixer, Independent) else ()

    def init(self, key: Array) -> Policy:
        carry, inputs = self.initial_carry(1, self.spec.num_agents), self.blank_inputs(1)
        variables: PyTree = self.network.init(key, carry, one_step(inputs))
        params = variables["params"] | self._init_mixer(jax.random.fold_in(key, 1))
        return Policy(params, variables.get("batch_stats", {}))

    def _init_mixer(self, key: Array) -> dict[str, PyTree]:
        world = jnp.zeros((1, self.world_size))
        params = self.mixer.init(key, jnp.zeros((1, self.spec.num_agents)), world).get("params", {})
        return {MIXER: params} if params else {}

    def initial_carry(self, *shape: int) -> PyTree:
        return self.network.initial_carry(*shape)

    def world(self, obs: Array, world: Array | None) -> Array | None:
        """The global state or, where there is none, all that the agents see; None for mixers that do not read it."""
        return flat_world(obs, world) if self.config.learner.mixer == "qmix" else None

    def scores(self, policy: Policy, carry: PyTree, inputs: Inputs) -> tuple[PyTree, Array]:
        """Q-values, with the running statistics."""
        variables = {"params": policy.params, "batch_stats": policy.stats}
        out: PyTree = self.network.apply(variables, carry, one_step(inputs))
        carry, q = out
        return carry, q[0]

    def act(self, policy: Policy, carry: PyTree, seen: Seen, draw: Draw) -> tuple[PyTree, Array, Note]:
        carry, q = self.scores(policy, carry, seen.inputs)
        action = epsilon_greedy(draw.uniform, q, seen.avail, draw.epsilon)
        return carry, action, Note(self.joint_value(policy.params, q, seen.avail, seen.world))

    def value(self, policy: Policy, carry: PyTree, seen: Seen) -> Array:
        _, q = self.scores(policy, carry, seen.inputs)
        return self.joint_value(policy.params, q, seen.avail, seen.world)

    def joint_value(self, params: PyTree, q: Array, avail: Array | None, world: Array | None) -> Array:
        """V = max_a Q [...], joint over the agents of q [..., M, A]."""
        return self.mix(params, greedy_value(q, avail), world)

    def mix(self, params: PyTree, q: Array, world: Array | None) -> Array:
        """Joint value [...] of the agents' own values [..., M]; as many as agents, [..., M], where none is joint."""
        out: PyTree = self.mixer.apply({"params": params.get(MIXER, {})}, q, world)
        return out


def one_step(inputs: Inputs) -> Inputs:
    """Inputs [B, ...] as a sequence of one step [1, B, ...]."""
    return jax.tree.map(lambda x: x[None], inputs)
