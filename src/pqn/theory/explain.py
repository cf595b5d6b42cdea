"""A stability report in words: is TD stable here, along which part is it not, and what would help."""

from __future__ import annotations

from typing import Literal

from pqn.theory.stability_report import Direction, Setting, StabilityReport

Verdict = Literal["stable", "neutral", "unstable"]


def verdict(direction: Direction, scale: float) -> Verdict:
    """Stable where the top eigenvalue is negative beyond numerical doubt, neutral where it cannot be told from 0."""
    doubt = max(direction.residual, 1e-5 * abs(scale))
    if direction.value < -doubt:
        return "stable"
    return "unstable" if direction.value > doubt else "neutral"


def explain(report: StabilityReport) -> str:
    """The report as a few sentences for a practitioner."""
    judged = verdict(report.largest, report.smallest)
    lines = [_opening(report, judged)]
    if judged == "unstable":
        lines += [_where(report), _help(report)]
    lines += [_regularised(report), _update(report)]
    if report.transitions < report.parameters:
        lines.append(
            f"Note: {report.transitions} transitions cannot pin down {report.parameters} parameters: without ℓ2 some "
            "directions are flat (eigenvalue 0) or mildly positive. Judge the size, not only the sign."
        )
    if report.largest.residual > 0.05 * max(abs(report.largest.value), 1e-12):
        lines.append(
            f"The eigenvalue is only known to ±{report.largest.residual:.1e}: raise iterations for a sharper number."
        )
    return "\n".join(lines)


def _opening(report: StabilityReport, judged: Verdict) -> str:
    value = report.largest.value
    if judged == "stable":
        return f"STABLE: in every direction the expected TD update pulls back (largest eigenvalue {value:.3g} < 0)."
    if judged == "neutral":
        return f"NEUTRAL: no direction grows, but some do not contract either (largest eigenvalue {value:.3g} ≈ 0)."
    ratio = value / max(abs(report.smallest), 1e-30)
    return (
        f"UNSTABLE: along its worst direction the expected TD update pushes away (largest eigenvalue {value:.3g} > 0, "
        f"{ratio:.1%} of the fastest contraction, {report.smallest:.3g}). "
        f"With plain gradient steps of size α it can grow e-fold in no fewer than about {1 / value:.3g}/α updates."
    )


def _where(report: StabilityReport) -> str:
    worst = report.largest
    cause = "off-policy data" if worst.off_policy >= worst.nonlinear else "the network's nonlinearity"
    place = ""
    if worst.final_share is not None:
        part = "the final layer" if worst.final_share >= 0.5 else "the inner layers"
        share = max(worst.final_share, 1 - worst.final_share)
        place = f", and lies mostly in {part} ({share:.0%} of the direction)"
    return f"It comes from {cause} (C_OffPolicy = {worst.off_policy:.3g}, C_Nonlinear = {worst.nonlinear:.3g}){place}."


def _help(report: StabilityReport) -> str:
    """Only what the network and the learner do not have yet: `report.setting` says what they have."""
    worst, setting = report.largest, report.setting
    if worst.nonlinear > worst.off_policy:
        advice = [_layer_norm(setting, "makes this term fall like 1/√width"), "a wider network, once it has LayerNorm"]
        if setting.norm == "layer":
            advice = ["a wider network: with LayerNorm, which it has, this term falls like 1/√width"]
        advice.append(f"smaller rewards, since the term scales with the TD error (rms {report.td_rms:.3g})")
    elif worst.final_share is not None and worst.final_share >= 0.5:
        advice = [_final_l2(report)]
    else:
        advice = [] if setting.norm == "layer" else [_layer_norm(setting, "bounds it")]
        advice += _greedier(setting.epsilon)
    enough = f"At these parameters ℓ2 of {worst.value:.2g} on all of them would suffice"
    have = min(setting.l2)
    enough += f" (there is {have:.2g} already)." if have > 0 else "."
    return f"What would help: {'; '.join(advice)}. {enough}" if advice else enough


def _layer_norm(setting: Setting, effect: str) -> str:
    """How to come by LayerNorm, for a network that is not known to have it."""
    how = {
        "none": "LayerNorm in its hidden layers, which have no norm,",
        "batch": "LayerNorm in place of batch norm",
        "batch_renorm": "LayerNorm in place of batch renorm",
        None: "LayerNorm before the last layer, if there is none yet,",
    }
    return f"{how.get(setting.norm, how[None])} {effect}"


def _final_l2(report: StabilityReport) -> str:
    need = max(report.final.value if report.final is not None else report.largest.value, 0.0)
    have = report.setting.l2.final
    if have > need:
        return f"nothing more on the final layer, whose ℓ2 of {have:.2g} is above the {need:.2g} that removes its part"
    more = f" instead of {have:.2g}" if have > 0 else ""
    return f"ℓ2 on the final layer alone with a coefficient above {need:.2g}{more} removes the final-layer part"


def _greedier(epsilon: float | None) -> list[str]:
    if epsilon is None:
        return ["data closer to the greedy policy (a smaller ε)"]
    return [f"data closer to the greedy policy (ε was {epsilon:.2g})"] if epsilon > 0.01 else []


def _regularised(report: StabilityReport) -> str:
    judged = verdict(report.regularised, report.smallest)
    coefficients = (
        f"ℓ2 of {report.regulariser.final:.3g} on the final layer and {report.regulariser.inner:.3g} elsewhere"
    )
    return f"With {coefficients}: {judged} (largest eigenvalue {report.regularised.value:.3g})."


def _update(report: StabilityReport) -> str:
    moving = "contracts" if report.update.value < 0 else "grows"
    return (
        f"Along the step it is taking right now the update {moving} (vᵀJv = {report.update.value:.3g}: "
        f"off-policy {report.update.off_policy:.3g}, nonlinear {report.update.nonlinear:.3g})."
    )
