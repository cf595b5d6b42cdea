"""Which metrics the rows of a run have, and any of them as a curve.

A metric is a name without its form in the file: "return" is `returns` in evaluation rows and `return_sum` in training
rows, "win" is `info/win`. Others, such as "loss" or "lr", are columns of their own name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pqn.errors import RunError, suggest
from pqn.runs.metrics import Row, column_of, curve

KINDS = {"eval": "evaluations", "train": "training"}  # in the order in which a metric is looked for, in words
_NO_METRICS = {"kind", "update", "updates", "step", "episodes", "unfinished"}
_RENAMED = {"returns": "return", "return_sum": "return", "length_mean": "length", "length_sum": "length"}


def known_metrics(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The metrics of each kind of row: {"eval": ["return", …], "train": ["return", "loss", …]}."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if isinstance(kind := row.get("kind"), str):
            found.setdefault(kind, set()).update(_metric(column) for column in row.keys() - _NO_METRICS)
    kinds = sorted(found, key=lambda kind: (kind not in KINDS, kind))
    return {kind: sorted(found[kind], key=lambda name: (name != "return", name)) for kind in kinds}


def metric_curve(
    rows: Sequence[Row], metric: str, which: str | None = None, points: int | None = None
) -> tuple[str, np.ndarray, np.ndarray]:
    """Any metric as a curve for each seed.

    Args:
        rows: rows of a metrics file, in order.
        metric: its name, see `known_metrics`.
        which: the kind of rows; None takes the first that has the metric: evaluations, training, others.
        points: pool neighbouring training rows into at most this many points.

    Returns:
        The kind of rows, steps [P] and values [P, S]; S is 1 for a number that all seeds share, such as the learning
        rate. Without any row of that kind, P is 0.

    Raises:
        RunError: the rows do not have the metric, with a list of what they have; or they are damaged.
    """
    known = known_metrics(rows)
    having = [kind for kind in known if metric in known[kind]]
    kind = which or (having or [*known, "eval"])[0]
    if kind not in known:
        return kind, np.zeros(0, np.int64), np.zeros((0, 0))
    if kind not in having:
        there = "; ".join(f"{KINDS.get(each, each)}: {', '.join(known[each])}" for each in known)
        hint = suggest(metric, {name for names in known.values() for name in names} - {metric})
        of = f" of {KINDS.get(which, which)}" if which else ""
        raise RunError(f"the run has no metric {metric!r}{of}; it has {there}{hint}")
    if (kind == "eval" or kind == "train") and any(column_of(kind, metric) in row for row in rows):
        return kind, *curve(rows, kind, points, metric)
    return kind, *_plain(rows, kind, metric, points)


def _metric(column: str) -> str:
    return _RENAMED.get(column) or column.removeprefix("info/").removesuffix("_sum")


def _plain(rows: Sequence[Row], kind: str, column: str, points: int | None) -> tuple[np.ndarray, np.ndarray]:
    """A column that holds one number for each seed, or one for all."""
    rows = [row for row in rows if row.get("kind") == kind and column in row]
    try:
        steps = np.array([row["step"] for row in rows], np.int64)
        values = np.array([row[column] for row in rows], float)  # None becomes NaN
        weights = np.array([row.get("updates", 1) for row in rows], float)
        values = values.reshape(len(rows), -1)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise RunError(f"the {kind} rows of this run are damaged: some hold no numbers for {column!r}") from error
    if points is None or len(rows) <= points:
        return steps, values
    starts = np.linspace(0, len(rows), points, endpoint=False).astype(int)
    known = np.where(np.isnan(values), 0.0, weights[:, None])
    sums = np.add.reduceat(np.nan_to_num(values) * weights[:, None], starts)
    total = np.add.reduceat(known, starts)
    pooled = np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
    return steps[np.append(starts[1:], len(rows)) - 1], pooled
