"""The values of truncated episodes: V(final_obs), computed after a rollout for all of its truncated steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.base import Actor
from pqn.device import over_seeds
from pqn.programs.simulators.groups import Group, Layout
from pqn.programs.simulators.records import Observed, TruncatedStep, from_host
from pqn.types import Array, Policy, PyTree, TimeStep


def truncated_steps(t: int, group: Group, timestep: TimeStep, action: np.ndarray, carry: PyTree) -> list[TruncatedStep]:
    """The training environments of a group that were truncated at step t. Where none was, no array is read."""
    truncated = np.asarray(timestep.truncated)[:, : group.num_train]
    if not truncated.any():
        return []
    assert timestep.final_obs is not None  # the contract of an environment that truncates
    final = Observed(
        timestep.final_obs,
        timestep.final_avail,
        timestep.final_world,
        first=from_host(np.zeros(timestep.first.shape, bool)),
        last_action=from_host(action),
        last_reward=timestep.reward,
        carry=jax.tree.map(np.asarray, carry),
    )
    return [
        TruncatedStep(int(s), t, group.train.start + int(i), jax.tree.map(lambda x, s=s, i=i: np.array(x[s, i]), final))
        for s, i in np.argwhere(truncated)
    ]


class FinalValues:
    """V(final_obs) of the truncated steps of a rollout."""

    def __init__(self, actor: Actor, layout: Layout):
        self.actor, self.layout = actor, layout
        self.none = jnp.zeros((layout.num_seeds, *self._shape))  # where no step was truncated
        self._values = jax.jit(over_seeds(self.values_one, layout.num_seeds))

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.layout.steps, self.layout.num_train, *self.actor.value_shape)

    def values_one(self, policy: Policy, final: Observed, step: Array, env: Array) -> Array:
        """V of P final observations of one seed, each at its place in [T, N]; a place outside of it is padding."""
        values = self.actor.value(policy, final.carry, final.seen(self.actor))
        return jnp.zeros(self._shape).at[step, env].set(values, mode="drop")

    def of(self, policy: Policy, truncated: list[TruncatedStep]) -> Array | None:
        """[S, T, N], zero where a step was not truncated; None if the layout does not bootstrap."""
        layout = self.layout
        if not layout.bootstraps:
            return None
        if not truncated:
            return self.none
        by_seed: list[list[TruncatedStep]] = [[] for _ in range(layout.num_seeds)]
        for one in truncated:
            by_seed[one.seed].append(one)
        # Padded to N, 2N, 4N, …: a few compiled sizes serve every number of truncations.
        size = layout.num_train
        while size < max(map(len, by_seed)):
            size *= 2
        padding = truncated[0]._replace(step=layout.steps)
        padded = [[*some, *[padding] * (size - len(some))] for some in by_seed]

        def stack(*x: np.ndarray) -> np.ndarray:
            return np.stack(x).reshape(layout.num_seeds, size, *x[0].shape)

        final = jax.tree.map(stack, *[one.final for some in padded for one in some])
        step, env = (
            np.array([[getattr(one, n) for one in some] for some in padded], np.int32) for n in ("step", "env")
        )
        return self._values(policy, final, step, env)
