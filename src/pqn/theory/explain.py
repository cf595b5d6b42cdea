"""A stability report in words: is TD stable here, along which part is it not, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pqn.theory.stability import Direction, StabilityReport

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
    worst = report.largest
    if worst.nonlinear > worst.off_policy:
        advice = (
            "LayerNorm before the last layer, and with it a wider network, makes this term fall like 1/√width; "
            f"it also scales with the TD error (rms {report.td_rms:.3g}), so smaller rewards shrink it"
        )
    elif worst.final_share is not None and worst.final_share >= 0.5:
        need = report.final.value if report.final is not None else worst.value
        advice = (
            f"ℓ2 on the final layer alone with a coefficient above {max(need, 0.0):.2g} removes the final-layer part"
        )
    else:
        advice = "LayerNorm before the last layer bounds it; so does data closer to the greedy policy (a smaller ε)"
    return f"What would help: {advice}. At these parameters ℓ2 of {worst.value:.2g} on all of them would suffice."


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
