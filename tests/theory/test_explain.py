"""The words of a stability report: advice names only what the network and the learner do not have yet."""

from __future__ import annotations

import dataclasses

import pytest

from pqn.theory.explain import explain
from pqn.theory.regulariser import Regulariser
from pqn.theory.stability_report import Direction, Setting, StabilityReport

NORMS = ["layer", "batch", "batch_renorm", "none", None]


def report(off_policy: float, nonlinear: float, final_share: float | None, setting: Setting) -> StabilityReport:
    value = off_policy + nonlinear
    worst = Direction(value, off_policy, nonlinear, final_share=final_share)
    return StabilityReport(
        parameters=10,
        transitions=100,
        gamma=0.99,
        td_rms=0.7,
        update_norm=1.0,
        largest=worst,
        smallest=-2.0,
        update=Direction(-0.1, -0.1, 0.0),
        regularised=Direction(-0.1, -0.1, 0.0),
        regulariser=Regulariser(0.25, 0.01),
        final=worst,
        setting=setting,
    )


CAUSES = {
    "nonlinear": (0.1, 0.4, 0.5),
    "final layer": (0.4, 0.1, 0.9),
    "inner layers": (0.4, 0.1, 0.1),
    "unsplit": (0.4, 0.1, None),
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("norm", NORMS)
def test_nobody_is_told_to_add_what_it_has(norm, cause):
    words = explain(report(*CAUSES[cause], Setting(norm)))
    advice = words[words.index("It comes from") :]
    if norm == "layer":
        assert "LayerNorm in" not in advice and "LayerNorm before" not in advice
    elif cause != "final layer":  # there it is ℓ2 that helps
        wanted = {
            "batch": "LayerNorm in place of batch norm",
            "batch_renorm": "LayerNorm in place of batch renorm",
            "none": "LayerNorm in its hidden layers",
            None: "LayerNorm before the last layer, if there is none yet",
        }
        assert wanted[norm] in advice
    assert ("1/√width" in advice) == (cause == "nonlinear")
    assert "wider network" in advice or cause != "nonlinear"


@pytest.mark.parametrize(
    ("l2", "sentence"),
    [
        (0.0, "with a coefficient above 0.5 removes"),
        (0.01, "with a coefficient above 0.5 instead of 0.01 removes"),
        (0.8, "nothing more on the final layer, whose ℓ2 of 0.8 is above the 0.5"),
    ],
)
def test_l2_that_is_there_is_counted(l2, sentence):
    words = explain(report(*CAUSES["final layer"], Setting("layer", Regulariser(l2, 0.0))))
    assert sentence in words
    assert "there is" not in words  # none on all parameters
    both = explain(report(*CAUSES["final layer"], Setting("layer", Regulariser(l2 + 0.1, 0.03))))
    assert "would suffice (there is 0.03 already)" in both


@pytest.mark.parametrize(("epsilon", "asked"), [(None, True), (0.5, True), (0.001, False), (0.0, False)])
def test_a_greedy_policy_is_not_told_to_be_greedier(epsilon, asked):
    words = explain(report(*CAUSES["inner layers"], Setting("layer", epsilon=epsilon)))
    assert ("closer to the greedy policy" in words) == asked
    assert ("ε was 0.5" in words) == (epsilon == 0.5)
    assert "What would help" in words or not asked


def test_a_stable_network_gets_no_advice():
    stable = dataclasses.replace(report(0.1, 0.1, 0.5, Setting()), largest=Direction(-0.1, -0.1, 0.0))
    words = explain(stable)
    assert words.startswith("STABLE") and "help" not in words and "LayerNorm" not in words
