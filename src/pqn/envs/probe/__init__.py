"""Probe environments: tasks so small that their Q-values are known in closed form.

Each one isolates one thing that a learner can get wrong (discounting, bootstrapping at a truncation, action masks,
memory, …), so that a failing probe names the fault. Most are finite Markov decision processes given by their tables,
which a test can hand to value iteration and compare with the closed form in the docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import SingleEnv
from pqn.envs.probe.counter import Counter
from pqn.envs.probe.tasks import (
    ActionMatters,
    Endless,
    EndOrTruncation,
    Gridworld,
    Masked,
    Match,
    Memory,
    ObservedReward,
    OneStep,
    RandomLength,
    TwoStep,
)
from pqn.envs.probe.teams import TeamMatch, TwoStepGame
from pqn.errors import EnvError

TEAMS: dict[str, Callable[..., SingleEnv]] = {"team-match": TeamMatch, "two-step-game": TwoStepGame}
PROBES: dict[str, Callable[..., SingleEnv]] = {
    "one-step": OneStep,
    "observed-reward": ObservedReward,
    "two-step": TwoStep,
    "action-matters": ActionMatters,
    "match": Match,
    "endless": Endless,
    "end-or-truncation": EndOrTruncation,
    "random-length": RandomLength,
    "gridworld": Gridworld,
    "masked": Masked,
    "memory": Memory,
    "counter": Counter,
}


def make(name: str, num_envs: int, **kwargs: object) -> Autoreset:
    """N copies of the probe `name`.

    Raises:
      EnvError: an option that the probe does not have, or a value it cannot use.
    """
    probe = (PROBES | TEAMS)[name]
    options = inspect.signature(probe).parameters
    for key in kwargs:
        if key not in options:
            valid = f"its options are {', '.join(options)}" if options else "it has none"
            raise EnvError(f"probe:{name} has no option {key!r}; {valid}.")
    return Autoreset(probe(**kwargs), num_envs)
