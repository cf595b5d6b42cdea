"""What a measurement of stability says: the records that `pqn.theory.stability` fills and `explain` puts into words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from pqn.theory.regulariser import Regulariser


class Setting(NamedTuple):
    """What the learner already has, so that advice does not name it again; None where it is not known."""

    norm: str | None = None
    """Normalisation of the hidden layers: "layer", "batch", "batch_renorm" or "none" (also: no hidden layer)."""
    l2: Regulariser = Regulariser(0.0, 0.0)
    """Its ℓ2 coefficients."""
    epsilon: float | None = None
    """ε of the policy that collected the data."""


@dataclass(frozen=True)
class Direction:
    """One unit vector v and what the criterion says along it: value = off_policy + nonlinear + regulariser."""

    value: float
    """vᵀJv (λ when v is an eigenvector): positive means the update pushes away along v."""
    off_policy: float
    """C_OffPolicy(v)."""
    nonlinear: float
    """C_Nonlinear(v)."""
    regulariser: float = 0.0
    """−(ℓ2 coefficients)·v²."""
    final_share: float | None = None
    """‖v_w‖²: how much of v lies in the final layer (None where it was not named)."""
    residual: float = 0.0
    """‖(J+Jᵀ)v/2 − λv‖: an eigenvalue lies within this of `value`."""


@dataclass(frozen=True)
class StabilityReport:
    """What the TD stability criterion says about one network on one set of transitions."""

    parameters: int
    transitions: int
    gamma: float
    """Largest discount in the batch; enters the regulariser."""
    td_rms: float
    """Root mean square TD error."""
    update_norm: float
    """‖δ(φ)‖."""
    largest: Direction
    """Top eigenvector of (J+Jᵀ)/2: the worst direction."""
    smallest: float
    """Lowest eigenvalue: the fastest contraction, the scale to judge `largest` by."""
    update: Direction
    """Along the current expected update δ(φ)/‖δ(φ)‖: where the parameters are actually going."""
    regularised: Direction
    """Top eigenvector with the regulariser subtracted."""
    regulariser: Regulariser
    """The ℓ2 coefficients `regularised` was computed with."""
    final: Direction | None = None
    """Worst direction inside the final layer alone."""
    inner: Direction | None = None
    """Worst direction inside all other parameters alone."""
    setting: Setting = field(default_factory=Setting)
    """What the learner has already; only the words depend on it."""

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready dictionary."""
        setting = self.setting._asdict() | {"l2": self.setting.l2._asdict()}
        return asdict(self) | {"regulariser": self.regulariser._asdict(), "setting": setting}

    def row(self) -> dict[str, float]:
        """The few numbers worth a curve: the criterion, its split, and the scale to judge them by."""
        return {
            "largest": self.largest.value,
            "off_policy": self.largest.off_policy,
            "nonlinear": self.largest.nonlinear,
            "regularised": self.regularised.value,
            "smallest": self.smallest,
            "td_rms": self.td_rms,
        }
