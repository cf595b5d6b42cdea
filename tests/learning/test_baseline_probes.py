"""DQN, PQN with a buffer and PPO on tasks whose answer is known: value, policy, credit over time, memory, teams."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tabular

from pqn.config import Config
from pqn.envs.probe import TeamMatch, TwoStepGame
from pqn.programs.evaluation import evaluate
from pqn.types import Inputs, Seen

GAMMA = 0.9
REPLAY = {"replay.size": 2048, "replay.start": 128, "replay.batch": 32}
DQN = {"algorithm": "dqn", "target.interval": 2, **REPLAY}
PQN_REPLAY = {"algorithm": "pqn-replay", **REPLAY}


def check(program, q, wanted, atol):
    env = program.env.env
    rows = env.acting[:, None] & env.legal
    np.testing.assert_allclose(q[rows], np.asarray(wanted)[rows], atol=atol)


# ---- values from a buffer: the same closed forms as PQN's ----


@pytest.mark.parametrize(
    ("env", "options"),
    [
        pytest.param("two-step", DQN | {"target.double": True}, marks=pytest.mark.slow),
        ("masked", PQN_REPLAY | {"replay.share": 0.5}),
    ],
)
def test_values_are_those_of_the_closed_form(env, options):
    program, q = tabular(env, 400, options)
    check(program, q, program.env.env.optimal_q(GAMMA), atol=1e-2)


@pytest.mark.slow
def test_a_cut_step_is_not_learned_and_spoils_no_other():
    program, q = tabular("end-or-truncation", 300, PQN_REPLAY)
    np.testing.assert_allclose(q[[0, 2]], program.env.env.optimal_q(GAMMA)[[0, 2]], atol=1e-2)


def test_n_step_returns_find_the_best_legal_actions():
    """It explores less and less: in the end the values of the best actions are learned."""
    options = DQN | {"target.n_step": 2, "learner.eps_finish": 0.0, "learner.eps_decay": 1.0}
    program, q = tabular("masked", 400, options)
    legal, wanted = program.env.env.legal, program.env.env.optimal_q(GAMMA)
    best = np.where(legal, wanted, -np.inf).argmax(-1)
    assert np.where(legal, q, -np.inf).argmax(-1).tolist() == best.tolist()
    np.testing.assert_allclose(q[[0, 1], best], wanted[[0, 1], best], atol=5e-2)


@pytest.mark.parametrize(
    "options",
    [
        DQN | {"target.n_step": 3},
        pytest.param(PQN_REPLAY | {"learner.segment_length": 4}, marks=pytest.mark.slow),
    ],
)
def test_cut_episodes_are_learned_from_up_to_their_last_step(options):
    """Reward 1 for ever, cut every 5 steps: V = 1/(1 − γ), from steps whose successors are in the buffer."""
    program, q = tabular("endless", 800, {"learner.lam": 0.9, "learner.lr": 0.1} | options)
    check(program, q, program.env.env.optimal_q(GAMMA), atol=0.1)


# ---- policies ----


def trained(env: str, updates: int, options: dict[str, Any]) -> tuple[Any, Any, float]:
    """The program, the state of its learner, and the greedy return."""
    base = {
        "env.name": f"probe:{env}",
        "env.num_envs": 16,
        "network.hidden": (16,),
        "network.norm": "none",
        "learner.rollout_steps": 8,
        "learner.epochs": 2,
        "learner.minibatches": 2,
        "learner.lr": 1e-2,
        "learner.gamma": GAMMA,
        "learner.lam": 0.8,
        "total_steps": updates * 16 * 8,
    }
    program = build(Config().replace(base | options).validate())
    learner = jax.tree.map(lambda x: x[0], run_updates(program, updates).learner)
    played = evaluate(program.eval_env, program.algorithm.actor, learner, jax.random.key(0), 0.0, 8)
    return program, learner, float(played.ret.mean())


PPO = {"algorithm": "ppo", "ppo.entropy": 0.0}


@pytest.mark.parametrize("critic", ["shared", pytest.param("separate", marks=pytest.mark.slow)])
def test_ppo_finds_the_best_legal_actions_and_what_they_are_worth(critic):
    """Of `masked`: first 2, then 0, worth ½ + γ and 1. The illegal actions would pay 10."""
    program, learner, earned = trained("masked", 120, PPO | {"ppo.critic": critic, "learner.reward_scale": 1.0})
    assert earned == 1.5
    env = program.env.env
    obs = jnp.asarray(env.observations)[:, None]
    seen = Seen(Inputs(obs, jnp.zeros(obs.shape[:2], bool)), jnp.asarray(env.legal)[:, None])
    np.testing.assert_allclose(program.algorithm.actor.value(learner, (), seen), [0.5 + GAMMA, 1.0], atol=0.05)


def test_ppo_bootstraps_where_an_episode_is_cut():
    """Reward 1 for ever, cut every 5 steps: V = 1/(1 − γ)."""
    program, learner, _ = trained("endless", 300, PPO | {"learner.lr": 0.1, "network.hidden": ()})
    obs = jnp.asarray(program.env.env.observations)[:, None]
    seen = Seen(Inputs(obs, jnp.zeros(obs.shape[:2], bool)))
    found = np.asarray(program.algorithm.actor.value(learner, (), seen))[program.env.env.acting]
    np.testing.assert_allclose(found, 1 / (1 - GAMMA), atol=0.2)


MEMORY = {"network.memory": "gru", "network.memory_size": 16, "learner.reward_scale": 1.0}


@pytest.mark.parametrize(
    "options",
    [
        PPO | {"ppo.critic": "shared"},
        DQN | {"learner.segment_length": 4, "learner.burn_in": 4, "learner.eps_finish": 0.2, "target.double": True},
    ],
    ids=lambda options: options["algorithm"],
)
def test_only_memory_answers_what_was_shown_three_steps_ago(options):
    updates = 150 if options["algorithm"] == "ppo" else 400
    assert trained("memory", updates, MEMORY | options)[2] == 1.0


# ---- teams ----

UNIFORM = {"learner.eps_finish": 1.0, "learner.lam": 0.0, "learner.lr": 5e-3, "network.hidden": (32,)}


@pytest.mark.parametrize("critic", [pytest.param("separate", marks=pytest.mark.slow), "world"])
def test_ippo_and_mappo_coordinate(critic):
    assert trained("team-match", 80, PPO | {"ppo.critic": critic})[2] == TeamMatch.best


@pytest.mark.parametrize("mixer", [pytest.param("vdn", marks=pytest.mark.slow), "qmix"])
def test_a_payoff_that_is_no_sum_needs_qmix_from_a_buffer_too(mixer):
    """Both learn from uniformly random play; only the mixture can say that 8 is more than 7."""
    options = UNIFORM | DQN | {"learner.mixer": mixer, "replay.batch": 64, "learner.gamma": 0.99}
    best = {"vdn": TwoStepGame.best_sum, "qmix": TwoStepGame.best}[mixer]
    assert trained("two-step-game", 600, options)[2] == best
