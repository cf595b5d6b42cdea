"""What a preset is: a configuration with its source, and every way in which the two differ."""

from __future__ import annotations

import dataclasses

from pqn.config import Config


@dataclasses.dataclass(frozen=True)
class Preset:
    """A configuration, what it is for, and where its numbers come from."""

    config: Config
    description: str
    source: str
    deviations: tuple[str, ...] = ()
    """What differs from the source, one clause each: by choice in tuned presets, by necessity in `-paper` presets."""
    group: str = ""
    """Presets that differ in a name only have a group, and are listed as one."""

    @property
    def origin(self) -> str:
        """The source and the deviations from it, as text."""
        if not self.deviations:
            return f"numbers from {self.source}"
        return f"numbers from {self.source}; different from it: {'; '.join(self.deviations)}"


# Deviations that several families share.
BOOTSTRAPS = (
    "an episode cut by the time limit bootstraps from its true last observation (there: the limit counts as an end)"
)
TRUE_LAMBDA = (
    "λ-returns are those of Algorithm 1 (the public script bootstraps the last step but one from Q(s_T) instead of "
    "Q(s_{T−1}))"
)
# RAdam does not see the scale of a gradient: clip(2g, c) = 2 clip(g, c/2), and 2g moves the parameters as far as g.
HALF_CLIP = (
    "max_grad_norm is half the published one, which is the same clipping: the loss has a factor ½ that the public "
    "multi-agent scripts leave out, so gradients are half as long (what remains is RAdam's first five steps, which are "
    "not normalised and half as long, and its ε)"
)
FULL_CLIP = (
    "max_grad_norm is the published number, but the loss has a factor ½ that the public multi-agent scripts leave out: "
    "gradients are clipped at twice the published length (`-paper` has the equivalent)"
)
TARGETS_ONCE = "targets are computed once per rollout (there: anew in every minibatch)"
WINDOW = (
    "the memory window of four steps only refreshes the memory, and every step of a rollout has a loss (there: the "
    "window has one, too, and the last step of a rollout only as part of the next window)"
)
NO_PAST_ACTION = "the first step of an episode shows no last action (there: the one that ended the episode before)"
RENORM = (
    "batch renormalisation starts after 100 gradient steps, with running statistics that are plain means at first "
    "(there: after 1000, with exponential averages that start at 0 and 1)"
)
