"""Atari: Pong, ten games, 57 games, and the ablations on ten."""

from __future__ import annotations

from collections.abc import Mapping

from pqn.envs.catalog import ATARI_10, ATARI_57, ATARI_TITLES
from pqn.experiments.paper.base import Arm, Experiment, Published
from pqn.report.atari import REFERENCE

MINUTES = 100.0  # of 50M steps of three seeds
ENDS_AT = "Final scores are whole greedy games of the last weights, not the best ones over time."
AT_400M = "The paper's scores of single games are after 400M frames, which are 100M steps."


def _arms(
    prefix: str, method: str, games: tuple[str, ...] = ATARI_10, options: Mapping[str, object] | None = None,
    preset: str = "atari-{}-paper", algorithm: str = "pqn", minutes: float = MINUTES, paper: bool = False,
) -> tuple[Arm, ...]:  # fmt: skip
    """One method on several games."""
    return tuple(
        Arm(
            f"{prefix}-{game}", method, ATARI_TITLES[game], preset.format(game), algorithm, options or {},
            paper=REFERENCE[game].pqn if paper else None, minutes=minutes, gigabytes=0.5,
        )
        for game in games
    )  # fmt: skip


PONG = Experiment(
    "pong",
    "Atari Pong",
    "appendix, further results, figure atari_app",
    "return",
    "score",
    3,
    (
        Arm("pqn", "PQN", "Pong", "atari-pong-paper", options={"total_steps": 10_000_000}, minutes=25.0, gigabytes=0.5),
        Arm(
            "pqn-ours",
            "PQN (our preset)",
            "Pong",
            "atari-pong",
            options={"total_steps": 10_000_000},
            minutes=25.0,
            gigabytes=0.5,
        ),
        Arm("dqn", "DQN", "Pong", "dqn-atari-pong", "dqn", {"total_steps": 10_000_000}, minutes=400.0, gigabytes=30.0),
    ),
    "PQN reaches a score of 20 in less than four minutes, DQN needs almost six hours.",
    (Published("20 in less than 4 minutes", "caption of figure atari_app"),),
    notes=(ENDS_AT, "The budget of 1e7 steps is the public configuration's."),
)

ATARI_TEN = Experiment(
    "atari-10",
    "Atari-10",
    "section Atari, figure atari-10; appendix, table ale_scores, figure atari-10-all",
    "return",
    "score",
    3,
    (
        *_arms("pqn", "PQN", paper=True),
        *_arms("ppo", "PPO", preset="ppo-atari-{}", algorithm="ppo", minutes=2 * MINUTES),
        *_arms("dqn", "DQN", preset="dqn-atari-{}", algorithm="dqn", minutes=6 * MINUTES),
    ),
    "PQN is above PPO in sample efficiency, final score and training time.",
    (
        Published("Atari-10 score of PQN 191 after 200M frames, 243 after 400M", "table ale_scores"),
        Published("Atari-10 score of PPO 165 after 200M frames, of Rainbow 239", "table ale_scores"),
    ),
    aggregate="human",
    notes=(ENDS_AT, AT_400M, "50M steps are 200M frames."),
)

ATARI_ALL = Experiment(
    "atari-57",
    "Atari-57",
    "section Atari, figures atari-57; appendix, table scores, figure pqn_over_rainbow",
    "return",
    "score",
    3,
    _arms("pqn", "PQN", ATARI_57, {"total_steps": 100_000_000}, minutes=2 * MINUTES, paper=True),
    "PQN reaches the median of Rainbow and is above human in 40 of 57 games after 400M frames.",
    (Published("median 245, mean 1440, 40 games above human", "table ale_scores"),),
    aggregate="human",
    notes=(ENDS_AT,),
)

ATARI_LAMBDA = Experiment(
    "atari-lambda",
    "λ in Atari-10",
    "section Ablations, figure qlambda_atar",
    "return",
    "score",
    3,
    tuple(
        arm
        for lam in (0.0, 0.35, 0.65, 0.95)
        for arm in _arms(f"lambda-{lam:g}", f"λ = {lam:g}", options={"learner.lam": lam})
    ),
    "λ = 0.65 is best by a clear margin, and far above λ = 0.",
    aggregate="human",
    notes=(ENDS_AT, "The text names λ = 0 and 0.65; the other values of the figure are our choice."),
)

_CROSSQ = {
    "network.norm": "batch_renorm",
    "learner.targets": "minibatch",
    "learner.batch_statistics": "joint",
    "learner.segment_length": 32,  # all of a rollout, or λ would reach less far than in the other arms
}

ATARI_NORM = Experiment(
    "atari-norm",
    "Normalisation in Atari-10",
    "section Ablations, figure atari_normalisatin",
    "return",
    "score",
    3,
    (
        *_arms("layer", "LayerNorm"),
        *_arms("none", "no norm", options={"network.norm": "none"}),
        *_arms("batch", "BatchNorm", options={"network.norm": "batch"}),
        *_arms("renorm", "batch renormalisation", options={"network.norm": "batch_renorm"}),
        *_arms("crossq", "batch renormalisation, joint statistics (CrossQ)", options=_CROSSQ),
    ),
    "LayerNorm helps much, BatchNorm throughout the network can hurt, and CrossQ's further steps hurt more.",
    aggregate="human",
    notes=(
        ENDS_AT,
        "Of CrossQ we have batch renormalisation, and statistics of states and successors together. Its other steps, "
        "two critics and wide layers, are not there.",
        "The targets of the arm `crossq` are those of each minibatch, so these are whole sequences of a rollout.",
    ),
)

ATARI_OFF_POLICY = Experiment(
    "atari-offpolicy",
    "Nearly random data in Atari-10",
    "appendix, figure atari10-off-policy",
    "return",
    "score",
    3,
    (
        *_arms("greedy", "ε from 1 to 0.001"),
        *_arms("random", "ε from 1 to 0.7", options={"learner.eps_finish": 0.7, "learner.eps_decay": 1.0}),
    ),
    "PQN learns a policy from data of a nearly random one, though a worse one than with more exploitation.",
    aggregate="human",
    notes=(ENDS_AT,),
)

DOPAMINE = Experiment(
    "atari-dopamine",
    "Dopamine's protocol",
    "appendix, figure pqn_dopamine",
    "return",
    "score",
    3,
    _arms(
        "pqn",
        "PQN",
        options={"total_steps": 200_000_000, "env.kwargs.protocol": "dopamine"},
        minutes=4 * MINUTES,
    ),
    "With sticky actions and whole games PQN needs 800M frames to surpass Rainbow.",
    aggregate="human",
    notes=(ENDS_AT, "The paper does not say which games its IQM is over; we take Atari-10."),
)

EXPERIMENTS = (PONG, ATARI_TEN, ATARI_ALL, ATARI_LAMBDA, ATARI_NORM, ATARI_OFF_POLICY, DOPAMINE)
