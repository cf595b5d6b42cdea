"""What is exported: one function with named inputs and outputs, from what an agent sees to what it does.

Inputs and outputs are those of `Agent`: a batch of any size B in front, the agents' axis M only where there are
several. A recurrent network takes its memory and gives it back. The caller keeps it, starts with zeros, and says with
`first` where an episode starts, which clears it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms import make_algorithm
from pqn.algorithms.base import Actor
from pqn.config import Config
from pqn.exploration import masked
from pqn.types import Array, EnvSpec, Inputs, Policy

MEMORY = "memory_"  # and its number: the inputs and outputs that hold recurrent state


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or an output. Its first axis is the batch, of any size."""

    name: str
    shape: tuple[int, ...]
    """Without the batch."""
    dtype: np.dtype
    meaning: str

    def spec(self, batch: object) -> jax.ShapeDtypeStruct:
        """For tracing with a batch of this size, a number or a symbol."""
        return jax.ShapeDtypeStruct((batch, *self.shape), self.dtype)


class Model:
    """The policy of one seed as a function of arrays.

    Attributes:
      inputs: what the function takes, in order.
      outputs: what it gives, in order.
    """

    def __init__(self, config: Config, spec: EnvSpec, policy: Policy):
        # Kernels written for one kind of GPU stay here: the other ways to convolve have the same parameters.
        portable = config.replace({"network.conv": "matmul"}) if config.network.conv == "fused" else config
        self.config, self.spec, self.policy = config, spec, policy
        self._actor: Actor = make_algorithm(portable, spec).actor
        self._agents = (spec.num_agents,) if spec.num_agents > 1 else ()
        memory = jax.eval_shape(lambda: self._actor.initial_carry(1, spec.num_agents))
        leaves, self._structure = jax.tree.flatten(memory)
        self.memory = [
            Tensor(f"{MEMORY}{i}", (*self._agents, *leaf.shape[2:]), np.dtype(leaf.dtype), "memory; zeros at first")
            for i, leaf in enumerate(leaves)
        ]
        self.inputs, self.outputs = self._inputs(), self._outputs()

    def _inputs(self) -> list[Tensor]:
        spec, network, agents = self.spec, self.config.network, self._agents
        found = [Tensor("obs", (*agents, *spec.obs_shape), np.dtype(spec.obs_dtype), "what the agent observes")]
        if self.memory or network.last_action or network.last_reward:
            found.append(Tensor("first", agents, np.dtype(bool), "the observation starts an episode"))
        if network.last_action:
            found.append(Tensor("last_action", agents, np.dtype(np.int32), "the action before; any number at first"))
        if network.last_reward:
            found.append(Tensor("last_reward", (), np.dtype(np.float32), "the reward that came with `obs`"))
        if spec.masked:
            found.append(Tensor("avail", (*agents, spec.num_actions), np.dtype(bool), "which actions are legal"))
        return [*found, *self.memory]

    def _outputs(self) -> list[Tensor]:
        agents, actions = self._agents, self.spec.num_actions
        action = Tensor("action", agents, np.dtype(np.int32), "the greedy action")
        return [
            action,
            Tensor("scores", (*agents, actions), np.dtype(np.float32), f"{self._actor.scores_are} of the actions"),
            # A graph cannot call an input and an output the same.
            *(
                dataclasses.replace(tensor, name=f"{tensor.name}_after", meaning="memory, an input of the next call")
                for tensor in self.memory
            ),
        ]

    @property
    def output_names(self) -> list[str]:
        return [tensor.name for tensor in self.outputs]

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The outputs for inputs with a batch axis."""
        given = dict(zip((tensor.name for tensor in self.inputs), arrays, strict=True))
        obs, agents = given["obs"], self.spec.num_agents
        obs = obs if self._agents else obs[:, None]
        first = self._with_agents(given["first"]) if "first" in given else jnp.zeros(obs.shape[:2], bool)
        last_action = self._with_agents(given["last_action"]) if "last_action" in given else None
        last_reward = given.get("last_reward")
        if last_reward is not None:
            last_reward = jnp.broadcast_to(last_reward[:, None], obs.shape[:2])
        carry = [self._with_agents(given[tensor.name]) for tensor in self.memory]
        inputs = Inputs(obs, first, last_action, last_reward)
        after, scores = self._actor.scores(self.policy, jax.tree.unflatten(self._structure, carry), inputs)
        avail = self._with_agents(given["avail"]) if "avail" in given else None
        action = jnp.argmax(masked(scores, avail), axis=-1).astype(jnp.int32)
        results = (action, scores.astype(jnp.float32), *jax.tree.leaves(after))
        return tuple(result if agents > 1 else result[:, 0] for result in results)

    def _with_agents(self, array: Array) -> Array:
        return array if self._agents else array[:, None]


def example(tensors: Sequence[Tensor], batch: int, num_actions: int, seed: int = 0) -> list[np.ndarray]:
    """Inputs to try a model with. Every mask has a legal action."""
    generator, found = np.random.default_rng(seed), []
    for tensor in tensors:
        shape = (batch, *tensor.shape)
        if tensor.dtype.kind == "b":
            array = generator.random(shape) < 0.5
            if tensor.name == "avail":
                array[..., 0] = True
        elif tensor.dtype.kind in "iu":
            most = num_actions if tensor.name == "last_action" else min(255, np.iinfo(tensor.dtype).max)
            array = generator.integers(0, most, shape)
        else:
            array = generator.standard_normal(shape)
        found.append(array.astype(tensor.dtype))
    return found


def largest_difference(model: Model, run: Callable[[list[np.ndarray]], Sequence[np.ndarray]]) -> float:
    """By how much another implementation's scores and memory differ from the model's, at most, on some examples.

    The difference is relative to the largest number of an output, where that is above 1. The action is compared through
    the scores: where two are equal but for rounding, either is right.
    """
    worst = 0.0
    for batch in (1, 3):
        inputs = example(model.inputs, batch, model.spec.num_actions, seed=batch)
        ours, theirs = jax.device_get(jax.jit(model)(*inputs)), run(inputs)
        for tensor, mine, other in zip(model.outputs, ours, theirs, strict=True):
            if tuple(np.shape(other)) != mine.shape:
                return float("inf")
            if tensor.name != "action":
                difference = np.max(np.abs(mine - np.asarray(other))) / max(1.0, np.max(np.abs(mine)))
                worst = max(worst, float(difference))
    return worst
