"""What an experiment of the paper is, as data: its arms, its budget, its metric, and what the paper says of it.

An experiment has tasks (Breakout, Freeway, …) and methods (PQN, PPO, …); an arm is one method on one task. No JAX here:
`pqn reproduce --list` starts at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from pqn.config import Config
from pqn.presets import PRESETS, preset

Program = Literal["training", "baird", "lemma", "deepsea"]


@dataclasses.dataclass(frozen=True)
class Published:
    """A figure of the paper, and where it stands there."""

    text: str
    where: str


@dataclasses.dataclass(frozen=True)
class Arm:
    """One method on one task."""

    name: str
    """Unique in its experiment; also the name of its folder."""
    method: str
    """As tables and legends show it."""
    task: str
    preset: str
    """The training's preset; of other programs, the name of the program."""
    algorithm: str = "pqn"
    """Of an arm whose preset exists, what the preset says."""
    options: Mapping[str, object] = dataclasses.field(default_factory=dict, hash=False)
    """What differs from the preset, by the names of the command line."""
    paper: float | None = None
    """The paper's value of the metric for this arm, at its full budget."""
    public: str | None = None
    """The name of this task in results/public, where the paper's own code was run."""
    minutes: float = 1.0
    """Estimate for all seeds of the experiment and its whole budget, on one H200."""
    gigabytes: float = 0.1
    """Estimate of device memory for one seed, compiling included."""
    program: Program = "training"
    experiment: str = ""
    """Filled in by `Experiment`."""

    def __post_init__(self) -> None:
        if self.program == "training" and self.preset in PRESETS:
            object.__setattr__(self, "algorithm", PRESETS[self.preset].config.algorithm)

    @property
    def known(self) -> bool:
        """Whether its preset exists."""
        return self.program != "training" or self.preset in PRESETS

    def config(self, seeds: int = 1, share: float = 1.0) -> Config:
        """The configuration of a training. A share of the budget keeps the schedules of the whole.

        Raises:
          ConfigError: there is no such preset or option.
        """
        config = preset(self.preset, self.options, seeds=seeds)
        if share == 1.0:
            return config
        steps = max(int(config.total_steps * share), config.steps_per_update)
        full = config.learner.schedule_steps or config.total_steps
        return config.replace({"total_steps": steps, "learner.schedule_steps": full})


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    name: str
    title: str
    where: str
    """Its place in the paper: section, figure, table."""
    metric: str
    """What is compared: "return", one of the environment's own such as "win", or a quantity of another program."""
    unit: str
    """What the metric is called in tables."""
    seeds: int
    arms: tuple[Arm, ...]
    claim: str = ""
    """What the paper concludes."""
    published: tuple[Published, ...] = ()
    """Figures of the paper that belong to no single arm."""
    scale: float = 1.0
    """Values are multiplied by this in tables."""
    digits: int = 1
    """Digits behind the point in tables."""
    shown: Literal["iqm", "count"] = "iqm"
    """Tables show the interquartile mean, or of how many seeds the metric is 1."""
    curve: str = ""
    """The metric of the figure, where it is another one."""
    curve_axis: str = "environment steps"
    aggregate: Literal["none", "mean", "per_maximum", "human"] = "none"
    """How tasks are put together: not at all, as they are, by the best mean of a task, or human-normalised."""
    lower_is_better: bool = False
    notes: tuple[str, ...] = ()
    """What a reader must know to compare the numbers."""
    in_paper: bool = True

    def __post_init__(self) -> None:
        arms = tuple(dataclasses.replace(arm, experiment=self.name) for arm in self.arms)
        object.__setattr__(self, "arms", arms)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.task for arm in self.arms))

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.method for arm in self.arms))

    def minutes(self, share: float = 1.0, seeds: int | None = None) -> float:
        """Estimated minutes of all arms on one H200."""
        return sum(estimate(arm, self, share, seeds or self.seeds) for arm in self.arms)


COMPILING = 0.5  # minutes, on an H200


def estimate(arm: Arm, experiment: Experiment, share: float, seeds: int) -> float:
    """Estimated minutes of an arm on one H200. Seeds train side by side, so few take nearly as long as many."""
    fraction = 0.3 + 0.7 * seeds / experiment.seeds
    return COMPILING + max(arm.minutes - COMPILING, 0.1) * share * fraction
