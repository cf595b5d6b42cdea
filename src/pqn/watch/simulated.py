"""The same episodes in simulators outside of JAX, drawn by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import jax
import numpy as np

from pqn.envs.contract import HostEnv
from pqn.programs.base import HostFactory
from pqn.programs.evaluation import Evaluation, score
from pqn.programs.simulators.groups import split_into_groups
from pqn.programs.simulators.records import Observed, from_host
from pqn.programs.simulators.seeds import env_seeds
from pqn.programs.simulators.simulators import Simulators
from pqn.types import Array, Draw, Policy, PyTree, TimeStep
from pqn.watch.episodes import Moment, Player
from pqn.watch.painters import draws_itself
from pqn.watch.view import View


def play_simulators(make_env: HostFactory, player: Player, episodes: int) -> Iterator[Moment]:
    """The steps of the first episode of each simulator.

    A simulator resets within the step that ends an episode. So the last picture is the one before that step.
    """
    actor = player.actor
    reset_key, explore_key = jax.random.split(player.key)

    @jax.jit
    def act(policy: Policy, observed: Observed, t: Array) -> tuple[PyTree, Array, Array]:
        seen = observed.seen(actor)
        uniform = jax.random.uniform(jax.random.fold_in(explore_key, t), observed.first.shape)
        _, scores = actor.scores(policy, observed.carry, seen.inputs)
        carry, action, _ = actor.act(policy, observed.carry, seen, Draw(uniform, player.epsilon))
        return carry, action, scores

    simulators = Simulators(
        lambda number: _ready_to_draw(make_env(number)), 1, split_into_groups(episodes, 0, 1), first_seed=0
    )
    try:
        (timestep,) = simulators.reset(env_seeds(reset_key[None], episodes), np.zeros((1, 0), np.int64))
        result = _nothing_played(timestep)
        action = np.zeros((episodes, actor.spec.num_agents), np.int32)
        carry = actor.initial_carry(*action.shape)
        for t in range(player.max_steps):
            playing = ~np.asarray(result.finished)[0]
            now = _of_one_seed(timestep)
            views, avail = _views(simulators.envs[0], now), None if now.avail is None else np.array(now.avail)
            observed = Observed.of(now, from_host(action), carry)
            carry, action, scores = act(player.policy, observed, np.int32(t))
            action = np.asarray(action)
            simulators.send(0, action[None])
            timestep = simulators.recv(0)
            result = score(result, timestep, ~result.finished)
            views = [view._replace(action=action[place]) for place, view in enumerate(views)]
            yield Moment(views, np.asarray(scores), avail, action, playing, _of_one_seed(result), None)
            if np.all(result.finished):
                return
    finally:
        simulators.close()


def _ready_to_draw(env: HostEnv) -> HostEnv:
    getattr(env, "prepare_render", lambda: None)()
    return env


def _nothing_played(timestep: TimeStep) -> Evaluation:
    zeros = from_host(np.zeros(timestep.reward.shape, np.float32))
    return Evaluation(zeros, zeros, from_host(np.zeros(zeros.shape, bool)), dict.fromkeys(timestep.info, zeros))


def _views(env: HostEnv, now: TimeStep) -> list[View]:
    """What the simulators show now; copies, since they may overwrite it."""
    obs = np.array(now.obs)
    drawn = list(cast(PyTree, env).render()) if draws_itself(env) else [None] * len(obs)
    return [View(picture, seen) for picture, seen in zip(drawn, obs, strict=True)]


def _of_one_seed(record: PyTree) -> PyTree:
    return jax.tree.map(lambda x: np.asarray(x)[0], record)
