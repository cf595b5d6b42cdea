"""Training a run for longer than it was planned.

What has been trained stays true: ε keeps its course, counted in steps. So does a learning rate that does not end at 0.
One that falls to 0 would leave nothing to learn with. It falls over the longer run instead: it goes on where it would
be now had the run been planned like that, and reaches 0 at the new end.
"""

from __future__ import annotations

from pqn.algorithms.base import schedules
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.fields import checked, hints


def extended(config: Config, total_steps: int) -> Config:
    """The configuration of a run with a longer plan.

    Raises:
      ConfigError: the plan is not longer.
    """
    total_steps = checked("total_steps", hints(Config)["total_steps"], total_steps)
    if total_steps < config.total_steps:
        raise ConfigError(
            f"total_steps is {total_steps}, and the run was planned for {config.total_steps}; give more, to train on"
        )
    if total_steps == config.total_steps:  # the same command again, after an interruption
        return config
    learner = config.learner
    length = learner.schedule_steps or config.total_steps  # of the schedules so far
    changes: dict[str, object] = {"total_steps": total_steps}
    if (
        total_steps <= length or learner.lr_end > 0.0
    ):  # the run was a part of a longer one, and goes on in its schedules
        changes["learner.schedule_steps"] = length
    else:
        share = config.schedule_updates / (total_steps // config.steps_per_update)
        changes["learner.schedule_steps"] = 0
        changes["learner.eps_decay"] = learner.eps_decay * share
        points = learner.eps_points
        changes["learner.eps_points"] = [x * share if i % 2 == 0 else x for i, x in enumerate(points)]
    return config.replace(changes).validate()


def describe(before: Config, after: Config, update: int, explores: bool = True) -> str:
    """A sentence about the longer plan, and about the numbers with which it goes on; ε only where it `explores` so."""
    now, end = schedules(after, update), schedules(after, after.updates)
    epsilon = f"ε {now['epsilon']:.4g}"
    fell = schedules(before, update)["lr"]
    said = f"training on to {after.steps:,} steps (planned were {before.steps:,})"
    if now["lr"] == fell:
        return f"{said}, with {epsilon + ' and ' if explores else ''}the learning rate {now['lr']:.3g}"
    said += f", with {epsilon}" if explores else ""
    return (
        f"{said}; the learning rate, which had fallen to {fell:.3g}, is {now['lr']:.3g} now and falls to "
        f"{end['lr']:.3g} at the new end"
    )
