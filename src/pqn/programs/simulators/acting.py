"""The compiled functions that choose the actions of a group, for one seed."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from pqn.algorithms.base import Actor, Algorithm, Hyper, LearnerState
from pqn.programs import rollout
from pqn.programs.simulators.groups import Group, Layout
from pqn.programs.simulators.records import Acted, Draws, Observed
from pqn.types import Array, Draw, Note, Policy, PyTree

Act = Callable[[Policy, Observed, Array, Array, Array], Acted]  # see `act_of`; of one seed, or of S


def act_of(actor: Actor, group: Group) -> Act:
    """A function that acts on what a group observed.

    Its arguments are the policy, the observation, the draws of the rollout [T, n, M], ε [n, 1] and the number t of the
    step.
    """

    def act(policy: Policy, observed: Observed, uniform: Array, epsilon: Array) -> tuple[PyTree, Array, Note]:
        return actor.act(policy, observed.carry, observed.seen(actor), Draw(uniform, epsilon))

    def act_on_both(policy: Policy, observed: Observed, uniform: Array, epsilon: Array, t: Array) -> Acted:
        kept = observed.kept()
        given = (observed._replace(obs=kept.obs), uniform[t], epsilon)
        # Two calls, since the rounding of a matrix product may depend on its number of rows: training is the same to
        # the bit with and without greedy environments.
        kinds = [slice(0, group.num_train), slice(group.num_train, group.size)]
        outs = [act(policy, *jax.tree.map(lambda x, k=k: x[k], given)) for k in kinds if k.stop > k.start]
        carry, action, note = jax.tree.map(lambda *x: jnp.concatenate(x), *outs)
        # The barrier makes what is kept a new array, which does not share memory with the simulator.
        return Acted(carry, action, note, jax.lax.optimization_barrier(kept))

    return act_on_both


def draw_one(
    algorithm: Algorithm, layout: Layout, greedy_epsilon: float, key: Array, state: LearnerState, hyper: Hyper
) -> Draws:
    """The random numbers of a rollout; those of training do not depend on the greedy environments."""
    steps, agents, groups = layout.steps, layout.num_agents, layout.groups
    train = rollout.exploration_draws(algorithm.config, key, layout.num_train, agents)
    train = train.reshape(steps, layout.num_train, agents)
    greedy = jax.random.uniform(jax.random.fold_in(key, 1), (steps, layout.num_greedy, agents))
    epsilon = jnp.broadcast_to(algorithm.epsilon(state, hyper), (layout.num_train, 1))
    epsilon_of_greedy = jnp.full((layout.num_greedy, 1), greedy_epsilon)
    return Draws(
        tuple(jnp.concatenate([train[:, g.train], greedy[:, g.greedy]], axis=1) for g in groups),
        tuple(jnp.concatenate([epsilon[g.train], epsilon_of_greedy[g.greedy]]) for g in groups),
    )
