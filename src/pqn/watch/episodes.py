"""Playing episodes step by step, so that each step can be drawn: the rule of evaluation, with its pictures.

The first full episode of each environment is played, from the same random keys as in `pqn eval`: with the same seed and
the same number of episodes, the same games are played, and their returns are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.base import Actor
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import JaxEnv
from pqn.programs import rollout
from pqn.programs.evaluation import Evaluation, score
from pqn.types import Array, Draw, Policy, PyTree
from pqn.watch.painters import draws_itself
from pqn.watch.view import View


class Player(NamedTuple):
    """Who plays, and from which random key."""

    actor: Actor
    policy: Policy  # of one seed
    key: Array
    epsilon: float
    max_steps: int


class Moment(NamedTuple):
    """A step of all E episodes: how it was before it, what the agents chose, how it stood after it."""

    views: list[View]
    scores: np.ndarray  # [E, M, A] what the actions were ranked by
    avail: np.ndarray | None  # [E, M, A]
    action: np.ndarray  # [E, M]
    playing: np.ndarray  # [E] bool, before the step
    result: Evaluation  # [E] after the step
    after: list[View] | None  # the true successors; None where an environment does not show them


def play(env: JaxEnv, player: Player) -> Iterator[Moment]:
    """The steps of the first episode of each environment, until all have ended or the limit is reached."""
    actor, epsilon = player.actor, player.epsilon
    reset_key, explore_key = jax.random.split(player.key)

    @jax.jit
    def begin(key: Array) -> tuple[rollout.Stream, Evaluation]:
        stream = rollout.start(env, actor, key)
        zeros = jnp.zeros(env.num_envs)
        info = rollout.none_finished(env, stream).info
        return stream, Evaluation(zeros, zeros, jnp.zeros(env.num_envs, bool), info)

    @jax.jit
    def step(policy: Policy, stream: rollout.Stream, result: Evaluation, t: Array) -> tuple[PyTree, PyTree]:
        uniform = jax.random.uniform(jax.random.fold_in(explore_key, t), stream.inputs.first.shape)
        _, scores = actor.scores(policy, stream.carry, stream.inputs)
        carry, action, _ = actor.act(policy, stream.carry, stream.seen, Draw(uniform, epsilon))
        after = env.outcome(stream.env, action) if isinstance(env, Autoreset) else None
        state, timestep = env.step(stream.env, action)
        seen = rollout.observe(actor, timestep, action)
        following = stream._replace(env=state, **seen._asdict(), carry=carry)
        shown = (_shown(env, stream.env), stream.inputs.obs, scores, stream.avail, action, after)
        shown = jax.tree.map(_plain, shown)
        return (following, score(result, timestep, ~result.finished)), shown

    stream, result = begin(reset_key)
    for t in range(player.max_steps):
        playing = ~np.asarray(result.finished)
        (stream, result), shown = step(player.policy, stream, result, np.int32(t))
        state, obs, scores, avail, action, after = jax.device_get(shown)
        yield Moment(
            _views(env, state, obs, action),
            scores,
            avail,
            action,
            playing,
            jax.device_get(result),
            None if after is None else _views(env, after[0], after[1], None),
        )
        if np.all(result.finished):
            return


def _shown(env: JaxEnv, state: PyTree) -> PyTree:
    """What is drawn of the state: that of the environments, without the keys and clocks of `Autoreset`."""
    return state.inner if isinstance(env, Autoreset) else state


def _plain(x: Array) -> Array:
    """A random key as the numbers that it is made of, which the host can hold."""
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def _views(env: JaxEnv, state: PyTree, obs: np.ndarray, action: np.ndarray | None) -> list[View]:
    acts = [None] * len(obs) if action is None else list(action)
    if draws_itself(env):
        drawn = list(cast(PyTree, env).render(state))
    else:
        drawn = [jax.tree.map(lambda x, i=i: x[i], state) for i in range(len(obs))]
    return [View(*parts) for parts in zip(drawn, obs, acts, strict=True)]
