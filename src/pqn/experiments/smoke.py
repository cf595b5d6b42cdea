"""`pqn reproduce smoke`: every experiment, so small that a laptop's CPU runs all of them in minutes.

It shows that the machinery works, from arms to pages; its scores mean nothing. Arms that would compile nearly the same
program are represented by the first: of several games of one method one is run, and of the norms in Craftax one.
Every experiment runs one arm at least, and the configurations of all others are checked. Craftax is run as
Craftax-Classic, which compiles in a fraction of the time.
"""

from __future__ import annotations

from typing import NamedTuple

from pqn.config import Config
from pqn.errors import ConfigError
from pqn.experiments.paper import EXPERIMENTS, Arm
from pqn.fields import hints, is_group

SEEDS = 1
CLASSIC = "Craftax-Classic-Symbolic-v1"
UPDATES = 2
QUICK = ("Breakout",)  # tasks that compile faster than others of their family

# What makes a program small. Options that an algorithm does not have are left out.
SMALL: dict[str, object] = {
    "env.num_envs": 4,
    "network.memory_size": 8,
    "learner.rollout_steps": 4,
    "learner.minibatches": 2,
    "learner.epochs": 1,
    "learner.mixer_size": 4,
    "eval.num_envs": 2,
    "eval.max_steps": 8,
    "log.rows": 2,
    "save.checkpoints": 1,
    "simulators.greedy_envs": 2,
}
THEORY: dict[str, dict[str, object]] = {
    "baird": {"updates": 200, "records": 20},
    "lemma": {
        "widths": (8, 16),
        "fit_from": 8,
        "sweep_width": 8,
        "iterations": 4,
        "gammas": (0.9,),
        "shifts": (0.0, 1.0),
    },
    "deepsea": {"depth": 4, "ensemble": 2, "hidden": (8, 8), "episodes": 200, "min_replay": 16, "batch_size": 16},
}


class Plan(NamedTuple):
    """What the smoke run does with every arm."""

    run: list[Arm]
    represented: dict[Arm, Arm]
    """Arms that are not run, with the one that stands for them."""


def plan(arms: list[Arm] | None = None) -> Plan:
    """Chooses arms such that every program is run once.

    Raises:
      ConfigError: the configuration of an arm is not valid.
    """
    first: dict[tuple[object, ...], Arm] = {}
    represented: dict[Arm, Arm] = {}
    arms = arms or [arm for entry in EXPERIMENTS.values() for arm in entry.arms]
    for arm in sorted(arms, key=lambda arm: arm.task not in QUICK):
        if arm.known and arm.program == "training":
            arm.config().validate()
        stands = first.setdefault(_program(arm), arm)
        if stands is not arm:
            represented[arm] = stands
    run = list(first.values())
    for name in dict.fromkeys(arm.experiment for arm in represented):
        if not any(arm.experiment == name and arm.known for arm in run):
            run.append(next(arm for arm in represented if arm.experiment == name and arm.known))
            del represented[run[-1]]
    return Plan(run, represented)


def overrides(arm: Arm) -> dict[str, object]:
    """The options that make an arm small.

    Raises:
      ConfigError: they do not fit together, which is a mistake in this file.
    """
    if arm.program != "training":
        return dict(THEORY[arm.program])
    config = arm.config()
    known = _options(config)
    options = {name: value for name, value in SMALL.items() if name in known}
    options["network.hidden"] = (8,)
    if config.network.memory == "none" and config.learner.rollout_steps == 1:  # one-step learning stays that
        options |= {"learner.rollout_steps": 1, "learner.minibatches": 1}
    if config.env.name.startswith("Craftax"):
        options |= {"env.name": CLASSIC, "env.kwargs.max_timesteps": 16}
    if config.network.norm in ("batch", "batch_renorm") or config.learner.burn_in:
        options["learner.minibatches"] = 1
    if arm.experiment == "num-envs":
        options["env.num_envs"] = 8
    if config.eval.count:
        options["eval.count"] = 1
    updates = (
        4 * UPDATES if config.replays else UPDATES
    )  # a buffer must hold a whole sequence before it is learned from
    steps = int(str(options["learner.rollout_steps"])) * int(str(options["env.num_envs"])) * updates
    options |= {"total_steps": steps, "learner.schedule_steps": 0}
    options |= _replay(config)
    try:
        config.replace(options).validate()
    except ConfigError as error:
        raise ConfigError(f"{arm.experiment}/{arm.name}: {error}") from error
    return options


def _replay(config: Config) -> dict[str, object]:
    """A small buffer, for algorithms that have one."""
    return {"replay.size": 256, "replay.start": 8, "replay.batch": 4} if config.replays else {}


def _options(config: Config) -> dict[str, object]:
    """Every option of a configuration by its name."""
    found: dict[str, object] = {}
    for name, hint in hints(Config).items():
        value = getattr(config, name)
        found |= {f"{name}.{part}": getattr(value, part) for part in hints(hint)} if is_group(hint) else {name: value}
    return found


def _program(arm: Arm) -> tuple[object, ...]:
    """What arms that compile nearly the same program have in common: method, family of tasks, kind of network."""
    if arm.program != "training":
        return arm.program, arm.options.get("kinds"), None if arm.program == "lemma" else arm.method
    learns = "pqn" if arm.algorithm == "pqn" else f"{arm.algorithm} {arm.method}"  # MAPPO and IPPO are both ppo
    if not arm.known:
        return learns, arm.experiment
    config = arm.config()
    family = "Craftax" if config.env.name.startswith("Craftax") else config.env.name.partition(":")[0]
    family = "MinAtar" if family.endswith("MinAtar") else family
    network, learner = config.network, config.learner
    recurrent, one_step = network.memory != "none", learner.rollout_steps == 1
    if family == "Craftax":
        return learns, family, recurrent
    layers = (network.torso, network.norm, network.norm_input, network.head)
    return learns, family, recurrent, one_step, layers
