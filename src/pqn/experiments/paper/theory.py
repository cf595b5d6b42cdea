"""Experiments that are not trainings: Baird's counterexample, the LayerNorm lemma, DeepSea."""

from __future__ import annotations

from pqn.experiments.configs import BAIRD_ARMS, DEEPSEA_NORMS, LEMMA_NORMS
from pqn.experiments.figures import LABELS
from pqn.experiments.paper.base import Arm, Experiment

BAIRD = Experiment(
    "baird",
    "Baird's counterexample",
    "section Confirming Theoretical Results, figure bairds_main; appendix, figure baird",
    "converged",
    "seeds with a value error below 0.01",
    10,
    tuple(
        Arm(
            f"{kind}-{arm.replace('+', '-')}",
            LABELS[arm],
            f"{kind} updates",
            "baird",
            "td",
            minutes=0.3,
            options={"arms": (arm,), "kinds": (kind,)},
            program="baird",
        )
        for kind in ("expected", "sampled")
        for arm in BAIRD_ARMS
    ),
    "LayerNorm and ℓ2 together stabilise TD. LayerNorm does most of it; ℓ2 alone does little.",
    shown="count",
    curve="log10_error",
    curve_axis="updates",
)

LEMMA = Experiment(
    "lemma",
    "The LayerNorm lemma",
    "section Stabilising TD With LayerNorm + ℓ2, lemma layernorm_lemma",
    "regularised",
    "largest eigenvalue with ℓ2 at the largest width; below 0 is stable",
    5,
    tuple(
        Arm(
            norm.replace("_", "-"),
            LABELS[norm],
            "random chains",
            "lemma",
            "td",
            minutes=1.5,
            options={"norms": (norm,)},
            program="lemma",
        )
        for norm in LEMMA_NORMS
    ),
    "With LayerNorm the off-policy term is bounded by (γL/2)² on the last layer and the others vanish with the width, "
    "so a small ℓ2 makes TD stable.",
    digits=3,
    curve="log10_nonlinear",
    curve_axis="width",
    lower_is_better=True,
)

DEEPSEA = Experiment(
    "deepsea",
    "DeepSea",
    "appendix, further results, figures deepsea_20, deepsea_30, deepsea_40",
    "solved_episode",
    "episodes until solved",
    10,
    tuple(
        Arm(
            f"{norm}-{depth}",
            LABELS[norm],
            f"depth {depth}",
            "deepsea",
            "boot-dqn",
            minutes=2.0 * depth / 20,
            options={"depth": depth, "norms": (norm,)},
            program="deepsea",
        )
        for depth in (20, 30, 40)
        for norm in DEEPSEA_NORMS
    ),
    "LayerNorm solves greater depths without target networks.",
    digits=0,
    curve="bad_episodes",
    curve_axis="episodes",
    lower_is_better=True,
    notes=("A seed that is not solved counts as all the episodes that it was given.",),
)

EXPERIMENTS = (BAIRD, LEMMA, DEEPSEA)
