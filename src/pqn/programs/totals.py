"""What an update reports, and how the reports of several updates add up: one rule for every program and for the record.

Sums of the learner's means and of the episodes that ended, the norm of the parameters, and the first `health.Fault`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pqn import shards
from pqn.algorithms.base import LearnerState
from pqn.algorithms.packing import pack
from pqn.programs import health
from pqn.programs.episodes import Finished
from pqn.programs.health import Fault
from pqn.programs.reported import HEALTH, NO_FAULT, is_last, is_mean
from pqn.types import Array

AnyArray = TypeVar("AnyArray", Array, np.ndarray)


def report(learner: LearnerState, metrics: dict[str, Array], finished: Finished) -> dict[str, Array]:
    """The metrics of one update of one seed: of the learner, of the episodes that ended, and of its health."""
    metrics = metrics | {"episodes": finished.episodes, "return_sum": finished.ret, "length_sum": finished.length}
    metrics |= {f"info/{name}_sum": value for name, value in finished.info.items()}
    metrics["param_norm"] = optax.tree.norm(pack(learner.params))  # packed: few sums instead of one for each array
    diverged = health.not_finite(metrics["loss"], metrics["param_norm"])
    fault = health.first([(Fault.DIVERGED, diverged)])
    if finished.fault is not None:  # what the environment did wrong comes before what it led to
        fault = jnp.where(finished.fault == Fault.NONE, fault, finished.fault)
    return metrics | {"bad": jnp.where(fault == Fault.NONE, NO_FAULT, learner.updates), "fault": fault}


def join_shards(reported: dict[str, Array]) -> dict[str, Array]:
    """What an update of one shard reported, over all shards of its seed: means, sums, and the first fault.

    What `is_last` is of the parameters, which all shards share.
    """
    if not shards.axes():
        return reported
    names = sorted(name for name in reported if name not in HEALTH and not is_last(name))
    sums = shards.total(jnp.stack([reported[name] for name in names]))  # few collectives: each takes its time
    count = shards.count()
    joined = {name: sums[i] / count if is_mean(name) else sums[i] for i, name in enumerate(names)}
    worst = max(Fault) + 1
    fault = jnp.where(reported["fault"] == Fault.NONE, worst, reported["fault"])
    bad, fault = shards.least(jnp.stack([reported["bad"], fault]))
    return reported | joined | {"bad": bad, "fault": jnp.where(fault == worst, Fault.NONE, fault)}


def blank(metrics: Mapping[str, object], seeds: int) -> dict[str, Array]:
    """Totals [S] over no update, under the names that `report` gives."""
    start = {"bad": jnp.int32(NO_FAULT), "fault": jnp.int32(Fault.NONE)}
    return {name: jnp.full(seeds, start.get(name, jnp.float32(0.0))) for name in metrics}


def combine(total: Mapping[str, AnyArray], later: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Totals per seed over some updates and those after them, of numpy or of jax arrays."""
    xp = later["bad"].__array_namespace__()
    known = total["bad"] <= later["bad"]

    def join(name: str) -> AnyArray:
        if name in HEALTH:
            return xp.where(known, total[name], later[name])
        return later[name] if is_last(name) else total[name] + later[name]

    return {name: join(name) for name in later}


def add_up(rows: list[dict[str, Array]], before: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Totals per seed over the reports of some updates, fetched from the device, and over those that `before` is of."""
    fetched = [
        {name: np.asarray(x, None if name in HEALTH else np.float64) for name, x in row.items()}
        for row in jax.device_get(rows)
    ]
    both = [dict(before), *fetched] if before else fetched
    return functools.reduce(combine, both) if both else {}


def first_fault(totals: Mapping[str, np.ndarray]) -> tuple[int, int, Fault] | None:
    """Which seed [S] failed first, at which update and why; None if all are well."""
    seed = int(np.argmin(totals["bad"]))
    update = int(totals["bad"][seed])
    return None if update == NO_FAULT else (seed, update, Fault(int(totals["fault"][seed])))
