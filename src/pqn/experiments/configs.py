"""Options of the theory experiments. Plain dataclasses: importing this file does not import JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pqn.config import MOST, Seed
from pqn.errors import ConfigError
from pqn.fields import Within
from pqn.theory.choices import ACTIVATIONS, Activation

# Bounds of what a program can count and hold; `validate` says what is too small to make sense.
Size = Annotated[int, Within(0, 2**16)]
Count = Annotated[int, Within(0, MOST)]

BairdArm = Literal["linear", "linear+l2", "none", "l2", "layer", "layer+l2", "batch"]
BairdUpdates = Literal["expected", "sampled"]
DeepSeaNorm = Literal["none", "layer", "batch"]
LemmaNorm = Literal["none", "scale", "layer", "layer_unscaled"]

BAIRD_ARMS: tuple[BairdArm, ...] = get_args(BairdArm)
BAIRD_UPDATES: tuple[BairdUpdates, ...] = get_args(BairdUpdates)
DEEPSEA_NORMS: tuple[DeepSeaNorm, ...] = get_args(DeepSeaNorm)
LEMMA_NORMS: tuple[LemmaNorm, ...] = get_args(LemmaNorm)


def check(condition: bool, sentence: str) -> None:
    """Raises ConfigError(sentence) unless `condition` holds."""
    if not condition:
        raise ConfigError(sentence)


def check_choices(option: str, values: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    """Raises ConfigError when `values` is empty or holds something not in `allowed`."""
    check(len(values) > 0, f"{option} is empty: name at least one of {', '.join(allowed)}.")
    for value in values:
        check(value in allowed, f"{option} has the unknown value '{value}': choose from {', '.join(allowed)}.")


@dataclass(frozen=True)
class BairdConfig:
    """Baird's counterexample under semi-gradient off-policy TD(0)."""

    arms: tuple[BairdArm, ...] = BAIRD_ARMS
    """Which learners to run. "linear" is wᵀx on Baird's own features; the others have one hidden layer."""
    kinds: tuple[BairdUpdates, ...] = BAIRD_UPDATES
    """Exact expected updates, and updates sampled along the behaviour's trajectory."""
    width: Size = 16
    """Hidden units (the paper's 16)."""
    pre: Activation = "identity"
    """σ_pre, before the normalisation. The paper does not name it; identity meets the lemma's conditions."""
    post: Activation = "identity"
    """σ_post, after the normalisation. The lemma asks for C², Lipschitz and σ_post(0) = 0, which ReLU is not."""
    gamma: float = 0.99
    """Discount (Sutton & Barto, section 11.2)."""
    learning_rate: float = 0.01
    """Step size α (Sutton & Barto, section 11.2)."""
    updates: Count = 20_000
    """Updates per run."""
    eta: float = 1.01
    """η > 1 of the regularised TD update: η(γL/2)² on the final layer, η−1 on the inner weights."""
    l2_final: float | None = None
    """Overrides the coefficient on the final-layer weights w; by default η(γL/2)²."""
    l2_inner: float | None = None
    """Overrides the coefficient on the inner weights M; by default η−1."""
    seeds: Size = 10
    """Independent initialisations (and trajectories, where updates are sampled)."""
    records: Count = 100
    """Points kept on each curve."""
    seed: Seed = 0
    """Seed of the first run."""

    def validate(self) -> None:
        """Raises ConfigError with one sentence on the first option that cannot work."""
        check_choices("arms", self.arms, BAIRD_ARMS)
        check_choices("kinds", self.kinds, BAIRD_UPDATES)
        check_choices("pre", (self.pre,), ACTIVATIONS)
        check_choices("post", (self.post,), ACTIVATIONS)
        check(self.width >= 2, f"width is {self.width}: LayerNorm needs at least 2 hidden units.")
        check(0.0 <= self.gamma < 1.0, f"gamma is {self.gamma}: choose a discount in [0, 1).")
        check(self.learning_rate > 0, f"learning_rate is {self.learning_rate}: choose a positive step size.")
        check(self.eta > 1, f"eta is {self.eta}: the regularised update needs eta > 1, for example 1.01.")
        check(self.seeds >= 1, f"seeds is {self.seeds}: run at least one.")
        check(1 <= self.records <= self.updates, f"records is {self.records}: choose between 1 and updates.")
        check(self.updates % self.records == 0, f"updates ({self.updates}) must be a multiple of records.")


@dataclass(frozen=True)
class LemmaConfig:
    """The bounds of the LayerNorm lemma, measured against width, discount and off-policiness."""

    widths: tuple[Size, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    """Widths k of the hidden layer."""
    norms: tuple[LemmaNorm, ...] = LEMMA_NORMS
    """none; scale: only the lemma's 1/√k; layer: the lemma's LayerNorm; layer_unscaled: LayerNorm as in libraries."""
    pre: Activation = "tanh"
    """σ_pre."""
    post: Activation = "identity"
    """σ_post."""
    gamma: float = 0.99
    """Discount of the width sweep."""
    gammas: tuple[float, ...] = (0.5, 0.9, 0.99)
    """Discounts of the off-policiness sweep."""
    shifts: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Off-policiness ρ: data come from (1−ρ) d^π + ρ d^other."""
    sweep_width: Size = 256
    """Width of the γ and off-policiness sweep."""
    states: Size = 10
    """States of a random MDP."""
    features: Size = 8
    """Input features of a random MDP."""
    weight_norm: float = 1.0
    """‖w‖; the lemma assumes it bounded, so it does not grow with the width."""
    eta: float = 1.1
    """η of the regularised update."""
    iterations: Size = 40
    """Lanczos iterations per eigenvalue."""
    seeds: Size = 5
    """Random MDPs and initialisations."""
    fit_from: Size = 64
    """Smallest width that enters the log-log slope: the bounds are asymptotic."""
    seed: Seed = 0
    """Seed of the first run."""

    def validate(self) -> None:
        """Raises ConfigError with one sentence on the first option that cannot work."""
        check_choices("norms", self.norms, LEMMA_NORMS)
        check_choices("pre", (self.pre,), ACTIVATIONS)
        check_choices("post", (self.post,), ACTIVATIONS)
        check(all(k >= 2 for k in self.widths), "widths holds a value below 2: LayerNorm needs at least 2 units.")
        fitted = [k for k in self.widths if k >= self.fit_from]
        check(len(fitted) >= 2, f"a slope needs two widths of at least fit_from = {self.fit_from}: add wider networks.")
        for gamma in (self.gamma, *self.gammas):
            check(0.0 <= gamma < 1.0, f"gamma is {gamma}: choose a discount in [0, 1).")
        check(all(0.0 <= r <= 1.0 for r in self.shifts), "shifts holds a value outside [0, 1].")
        check(self.eta > 1, f"eta is {self.eta}: the regularised update needs eta > 1, for example 1.1.")
        check(self.seeds >= 1, f"seeds is {self.seeds}: run at least one.")
        check(self.states >= 2, f"states is {self.states}: a random MDP needs at least 2.")
        check(self.iterations >= 2, f"iterations is {self.iterations}: Lanczos needs at least 2.")


@dataclass(frozen=True)
class DeepSeaConfig:
    """A simplified Bootstrapped DQN (no target network) on DeepSea.

    Numbers marked [b] are those of bsuite's TensorFlow agent (tf/boot_dqn/agent.py, `default_agent`), the older of its
    two; the paper names no version. Its run script differs in a buffer of 100 000 and in ε = 0. We take ε = 0 from
    there, since with ε > 0 part of the exploration would be random. The JAX agent is `prior_scale` 5 and
    `mask_probability` 1.
    """

    depth: Annotated[int, Within(0, 1000)] = 20
    """Side N of the grid; an episode lasts N steps and one of 2^N action sequences finds the treasure."""
    norms: tuple[DeepSeaNorm, ...] = DEEPSEA_NORMS
    """Normalisation of the hidden layers of the learned network."""
    ensemble: Size = 20
    """Members; one, drawn anew for every episode, acts greedily [b]."""
    hidden: tuple[Size, ...] = (50, 50)
    """Hidden layers [b]; each is followed by the norm and a ReLU."""
    prior_scale: float = 3.0
    """Weight of the fixed random prior network added to every member [b]; 0 leaves it out."""
    learning_rate: float = 1e-3
    """Adam's step size [b]."""
    batch_size: Count = 128
    """Transitions per update, the same ones for the whole ensemble [b]."""
    replay_capacity: Count = 10_000
    """Transitions kept in the shared buffer [b]."""
    min_replay: Count = 128
    """Updates start once the buffer holds this many [b]."""
    sgd_period: Count = 1
    """Environment steps per update [b]."""
    mask_probability: float = 0.5
    """Probability with which a transition belongs to a member's bootstrap sample [b]."""
    gamma: float = 0.99
    """Discount [b]."""
    move_cost: float = 0.01
    """Total cost of always going right, spread over the N steps [b]."""
    batch_norm_momentum: float = 0.9
    """Momentum of BatchNorm's running statistics, which acting and targets use."""
    episodes: Count = 10_000
    """Episodes per seed [b]."""
    chunk: Count = 100
    """Episodes per compiled call; between calls the host looks whether every seed is done."""
    stop_when_solved: bool = True
    """Stop early once every seed is solved by bsuite's criterion."""
    seeds: Size = 10
    """Seeds; each has its own action mapping, ensemble and buffer."""
    seed: Seed = 0
    """Seed of the first run."""

    def validate(self) -> None:
        """Raises ConfigError with one sentence on the first option that cannot work."""
        check_choices("norms", self.norms, DEEPSEA_NORMS)
        check(self.depth >= 2, f"depth is {self.depth}: DeepSea needs at least 2 rows.")
        check(self.ensemble >= 1, f"ensemble is {self.ensemble}: it needs at least one member.")
        check(len(self.hidden) >= 1, "hidden is empty: name at least one hidden layer, for example 50 50.")
        check(self.batch_size >= 1, f"batch_size is {self.batch_size}: sample at least one transition.")
        check(self.batch_size <= self.replay_capacity, "batch_size is larger than replay_capacity: lower it.")
        check(1 <= self.min_replay <= self.replay_capacity, "min_replay must lie between 1 and replay_capacity.")
        check(self.sgd_period >= 1, f"sgd_period is {self.sgd_period}: choose 1 or more steps per update.")
        check(0 < self.mask_probability <= 1, "mask_probability must lie in (0, 1].")
        check(0.0 <= self.gamma <= 1.0, f"gamma is {self.gamma}: choose a discount in [0, 1].")
        check(self.seeds >= 1, f"seeds is {self.seeds}: run at least one.")
        check(self.chunk >= 1, f"chunk is {self.chunk}: run at least one episode per call.")
        check(self.episodes >= 1, f"episodes is {self.episodes}: run at least one.")
        check(self.episodes % self.chunk == 0, f"episodes ({self.episodes}) must be a multiple of chunk.")


DEEPSEA_PRESETS: dict[str, DeepSeaConfig] = {
    "deepsea-20": DeepSeaConfig(depth=20),
    "deepsea-30": DeepSeaConfig(depth=30),
    "deepsea-40": DeepSeaConfig(depth=40),
}
"""The three depths of the paper's appendix figure."""
