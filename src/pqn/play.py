"""Trained agents: `pqn.load("runs/…")`, and a run's agents evaluated."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypedDict, cast

import jax
import jax.numpy as jnp
import numpy as np

from pqn.agent import Agent
from pqn.algorithms.base import Actor
from pqn.device import enable_compilation_cache, require_device
from pqn.envs.check import check_quickly, is_ours
from pqn.envs.contract import HostEnv, JaxEnv
from pqn.envs.source import EnvSource, of_run
from pqn.errors import ConfigError, EnvError
from pqn.fields import checked
from pqn.options import Copies, Seed, Share
from pqn.programs import evaluation
from pqn.programs.base import HostFactory
from pqn.programs.evaluation import Evaluation, mean, means, step_limit
from pqn.programs.simulators.player import Player
from pqn.runs.identity import STRUCTURE, spec_difference
from pqn.runs.opened import Which, open_run
from pqn.types import PyTree


def load(
    run: str | os.PathLike[str],
    seed: int | None = None,
    *,
    checkpoint: Which = "last",
    env: object = None,
    network: object = None,
) -> Agent:
    """Loads the agent of a run's checkpoint; a Python warning says so where a damaged one was passed over.

    Args:
      run: a run directory.
      seed: which of the run's seeds; by default the first.
      checkpoint: "last", the newest intact one; "best", that with the highest mean greedy return, over all seeds, of
        those that are kept (`save.best`); or the environment steps that it was trained for.
      env: an environment to compare with the one that the agent was trained in; see `pqn.train`. None is made without.
      network: the network, where the run was trained with one of your own; see `pqn.train`.

    Raises:
      RunError: `run` is no run directory, or did not train `seed`.
      CheckpointError: there is no such checkpoint, it is damaged, or it is from another run or network.
      EnvError: the agent cannot play in `env`.
      DeviceError: JAX has no device to run on.
    """
    require_device()
    opened = open_run(run)
    trained = opened.trained(checkpoint)
    config = trained.config
    index = opened.index_of(seed)
    if env is not None:
        source = opened.source(env, "eval")
        made = source(1)
        getattr(made, "close", lambda: None)()
        opened.compare(trained, source, made.spec, exact=False)
    actor, policies = opened.actor(trained, network, "eval")
    origin = {"path": str(run), "run": opened.id, "checkpoint": trained.path.name, "seed": config.seed + index}
    return Agent(actor, jax.tree.map(lambda x: x[index], policies), trained.step, origin)


def histogram(returns: np.ndarray, most: int = 32) -> dict[str, int] | None:
    """How often each return came, where they are whole numbers and few, such as the scores of a card game.

    Episodes that did not end (NaN) are left out.

    >>> histogram(np.array([[0.0, 24.0], [25.0, 24.0]]))
    {'0': 1, '24': 2, '25': 1}
    """
    returns = np.asarray(returns)
    values, counts = np.unique(returns[~np.isnan(returns)], return_counts=True)
    if not len(values) or len(values) > most or not np.all(values == np.round(values)):
        return None
    return {f"{value:.0f}": int(count) for value, count in zip(values, counts, strict=True)}


class RunReport(TypedDict):
    """What `evaluate` found out.

    An episode that did not end within `max_steps` has NaN for a return, and is in no other number but `unfinished`.
    """

    env: str
    step: int
    seeds: list[int]
    episodes: int
    returns: np.ndarray  # [S, episodes]
    return_mean: np.ndarray  # [S] NaN where no episode ended
    return_std: np.ndarray  # [S]
    mean: float | None  # over seeds; None where no episode ended
    quartiles: np.ndarray | None  # with the lowest and the highest
    histogram: dict[str, int] | None
    unfinished: int
    max_steps: int
    info: dict[str, float | None]  # means of the environment's own numbers


def evaluate(
    run: str | os.PathLike[str] | Agent,
    episodes: int = 128,
    epsilon: float = 0.0,
    seed: int = 0,
    *,
    env: object = None,
    network: object = None,
    checkpoint: Which = "last",
    warn: Callable[[str], None] | None = None,
) -> RunReport:
    """Plays the agents of a run, of all its seeds, or one agent.

    Args:
      run: a run directory, or an agent (`pqn.load`).
      episodes: how many for each seed.
      epsilon: exploration.
      seed: of the episodes.
      env: where to play, if not in the environment that the run records by name: that of a run which was trained in one
        of your own, or any other that the network fits; see `pqn.train`.
      network: the network, where the run was trained with one of your own. An agent has its own.
      checkpoint: which one of a run; see `pqn.load`. An agent is of one already.
      warn: told what the user should know, in a sentence; by default a Python warning.

    Raises:
      PqnError: with a sentence for the user: not a run, no such checkpoint, or not an environment for its agents.
      EnvFailed: the environment failed, or gave a reward that is no number.
    """
    episodes, epsilon = checked("episodes", Copies, episodes), checked("epsilon", Share, epsilon)
    seed = checked("seed", Seed, seed)
    enable_compilation_cache()
    if isinstance(run, Agent):
        if network is not None or checkpoint != "last":
            raise ConfigError(
                "network and checkpoint are for a run; an agent has its own: give them to pqn.load, which makes it"
            )
        source, made = _environment_for(run, env, episodes)
        policies = jax.tree.map(lambda x: jnp.asarray(x)[None], run.policy)
        seeds, step = [int(str(run.origin.get("seed", run.config.seed)))], run.step
        return _evaluate(run.actor, policies, source, made, _Play(seeds, step, episodes, epsilon, seed))
    opened = open_run(run, warn)
    source, trained = opened.source(env, "eval"), opened.trained(checkpoint)
    actor, policies = opened.actor(trained, network, "eval")
    made = source(episodes)
    opened.compare(trained, source, made.spec, exact=False)
    first = trained.config.seed
    seeds = list(range(first, first + trained.config.seeds))
    return _evaluate(actor, policies, source, made, _Play(seeds, trained.step, episodes, epsilon, seed))


evaluate_run = evaluate


def _environment_for(agent: Agent, env: object, episodes: int) -> tuple[EnvSource, JaxEnv | HostEnv]:
    """Where an agent plays: in the environment of its run, if that can be made by name, or in what was given."""
    source = of_run(agent.config, env, f"pqn eval {agent.origin['path']}")
    made = source(episodes)
    difference = spec_difference(made.spec, agent.spec, STRUCTURE)
    if difference:
        raise EnvError(f"{source.name} is not an environment for this agent: {difference}")
    return source, made


class _Play(NamedTuple):
    """What is to be played, and by whom."""

    seeds: list[int]
    step: int
    episodes: int
    epsilon: float
    seed: int


def _evaluate(actor: Actor, policies: PyTree, source: EnvSource, made: JaxEnv | HostEnv, play: _Play) -> RunReport:
    if not is_ours(made):
        check_quickly(made)
    limit = step_limit(actor.config, made.spec)
    keys = jax.random.split(jax.random.key(play.seed), len(play.seeds))
    if isinstance(made, HostEnv):
        made.close()
        player = Player(actor, len(play.seeds), play.epsilon)
        result = player.play(cast(HostFactory, source), policies, keys, play.episodes, limit)
    else:
        one = jax.vmap(lambda policy, key: evaluation.evaluate(made, actor, policy, key, play.epsilon, limit))
        result = jax.device_get(jax.jit(one)(policies, keys))
    return _report(result.check(made.spec.name, play.seeds[0]), source.name, play, limit)


def _report(result: Evaluation, env: str, play: _Play, limit: int) -> RunReport:
    returns = np.asarray(result.ret)
    known = returns[~np.isnan(returns)]
    return {
        "env": env,
        "step": play.step,
        "seeds": play.seeds,
        "episodes": play.episodes,
        "returns": returns,
        "return_mean": means(returns),
        "return_std": np.sqrt(means((returns - means(returns)[:, None]) ** 2)),
        "mean": mean(returns),
        "quartiles": np.quantile(known, [0.0, 0.25, 0.5, 0.75, 1.0]) if known.size else None,
        "histogram": histogram(returns),
        "unfinished": int(result.unfinished.sum()),
        "max_steps": limit,
        "info": {name: mean(value) for name, value in result.info.items()},
    }
