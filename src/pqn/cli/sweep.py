"""`pqn sweep PRESET --over OPTION=V1,V2 [--over …]`: train every combination of some options and compare them.

Options that change together are one axis: `--over env.num_envs,learner.rollout_steps=8:128,32:32,128:8` has three
points, not nine. Every axis is crossed with the others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pqn.cli import cluster, options
from pqn.config import Config, refuse_preset
from pqn.errors import ConfigError
from pqn.fleet.arms import Arm, Outcome, exit_status, refuse_another
from pqn.fleet.placement import run_arms
from pqn.presets import PRESETS, preset
from pqn.progress import Progress
from pqn.runs import files
from pqn.runs.directory import ENVIRONMENT, RunDir, read_summary
from pqn.runs.metrics import curve, read_metrics, to_json

Axis = tuple[tuple[str, ...], list[tuple[object, ...]]]  # names of options, and the values that they take together
Row = dict[str, object]

MOST_COMBINATIONS = 10_000
LONGEST_LABEL = 200  # bytes; file systems take 255


def run(argv: list[str]) -> int:
    name, rest = _parser(Config()).find_name(argv)
    if name is None and not {"-h", "--help"} & set(argv):
        raise ConfigError("name a preset: `pqn sweep cartpole --over learner.lam=0,0.5,0.95 --out DIR`")
    defaults = Config() if name is None else preset(name)
    given = _parser(defaults).parse(rest)
    base = options.apply(defaults, given)
    where = cluster.placement(given)
    arms = [Arm(label, config, Path(given.out) / label) for label, config in combinations(base, given.over)]
    for arm in arms:
        refuse_another(arm, options.warn)
    outcomes = run_arms(arms, where, Progress(quiet=given.quiet))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if len(failed) < len(arms):
        compare(Path(given.out), [arm.label for arm in arms], failed)
    _say_failures(failed, len(arms))
    return exit_status(outcomes)


def _parser(defaults: Config) -> options.Parser:
    parser = options.Parser(
        "sweep",
        names=PRESETS,
        usage="pqn sweep PRESET --over OPTION=V1,V2,… [--over …] --out DIR [--OPTION VALUE …]",
        description="Trains every combination of the given values, one run each, and compares them.\n"
        "Finished combinations are not trained again: call it once more to go on after an interruption.\n"
        "The exit status is 0 where all are complete, else that of the first one that failed.",
    )
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        type=axis,
        metavar="OPTION=V1,V2",
        required=True,
        help="values of an option; of options that change together as A,B=a1:b1,a2:b2; several --over are combined",
    )
    parser.add_argument("--out", type=options.path, metavar="DIR", required=True, help="where runs and comparison go")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    cluster.add_placement(parser)
    options.add_config(parser, defaults)
    return parser


def axis(text: str) -> Axis:
    """One axis of a sweep; values are JSON where they can be, else words.

    >>> axis("learner.lam=0,0.5")
    (('learner.lam',), [(0,), (0.5,)])
    >>> axis("env.num_envs,learner.rollout_steps=8:128,128:8")
    (('env.num_envs', 'learner.rollout_steps'), [(8, 128), (128, 8)])
    """
    written, equals, values = text.partition("=")
    names = tuple(name.replace("-", "_") for name in written.split(","))
    if not all(names) or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form option=value,value")
    points = _coupled(names, values) if len(names) > 1 else [(value,) for value in _values(values)]
    if not points or any(value is None for point in points for value in point):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form option=value,value")
    return names, points


def _values(text: str) -> list[object]:
    try:
        return json.loads(f"[{text}]")
    except (ValueError, RecursionError):
        return [options.pair(f"value={word}")[1] for word in text.split(",")]


def _coupled(names: tuple[str, ...], text: str) -> list[tuple[object, ...]]:
    """The points of options that change together: `8:128,128:8` for two."""
    points = []
    for point in _split(text, ","):
        values = [options.pair(f"value={word}")[1] for word in _split(point, ":")]
        if len(values) != len(names):
            raise argparse.ArgumentTypeError(
                f"{point!r} has {len(values)} value{'s' * (len(values) != 1)} for {len(names)} options "
                f"({', '.join(names)}); join as many by colons, and put a text with a colon into double quotes"
            )
        points.append(tuple(values))
    return points


def _split(text: str, separator: str) -> list[str]:
    """Like `str.split`, but not within brackets and double quotes: `[64,64]:2` are two words at the colon."""
    words, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += (letter in "[{") - (letter in "]}")
        if letter == separator and depth == 0 and not quoted:
            words.append("")
        else:
            words[-1] += letter
    return words


def combinations(base: Config, axes: Sequence[Axis]) -> list[tuple[str, Config]]:
    """A label and a validated configuration for every combination; all are checked before the first is trained."""
    names = [name for group, _ in axes for name in group]
    for name in names:
        refuse_preset(name)
        if names.count(name) > 1:
            raise ConfigError(f"--over has {name} twice; give all of its values at once, as {name}=1,2")
    count = math.prod(len(points) for _, points in axes)
    if count > MOST_COMBINATIONS:
        raise ConfigError(f"--over gives {count} combinations; it must give at most {MOST_COMBINATIONS}")
    cells: dict[str, Config] = {}
    known: set[str] = set()
    for points in itertools.product(*(points for _, points in axes)):
        chosen = dict(zip(names, itertools.chain(*points), strict=True))
        label = "_".join(f"{name.rpartition('.')[2]}-{_word(value)}" for name, value in chosen.items())
        config = base.replace(chosen).validate()
        if label in cells or repr(config) in known:  # 0 and 0.0 have two labels, `a/b` and `a:b` one
            raise ConfigError(f"--over gives {label} twice")
        if len(label.encode()) > LONGEST_LABEL:
            raise ConfigError(f"--over gives a directory's name of more than {LONGEST_LABEL} letters: {label[:60]}…")
        cells[label] = config
        known.add(repr(config))
    return list(cells.items())


def _word(value: object) -> str:
    """A value as part of a directory's name."""
    text = "x".join(map(str, value)) if isinstance(value, list) else str(value).lower()
    return re.sub(r"[^\w.+=-]+", "-", text)


def compare(out: Path, labels: Sequence[str], failed: Sequence[Outcome] = ()) -> None:
    """Prints a table of final greedy returns and writes sweep.json and sweep.png; those that failed have no numbers."""
    from pqn.report.figures import learning_curves

    errors = {outcome.arm.label: outcome.error for outcome in failed}
    rows, curves = [], []
    for label in labels:
        if label in errors:
            rows.append({"label": label, "failed": errors[label]})
            continue
        row, steps, values = _result(out, label)
        rows.append(row)
        curves.append((label, steps, values))
    files.write_atomically(out / "sweep.json", (to_json(rows, indent=1) + "\n").encode())
    drawn = [entry for entry in curves if np.isfinite(entry[2]).any()]
    if drawn:
        files.is_file(out / "sweep.png")
        learning_curves(drawn, out / "sweep.png")
    _print_table(rows)
    print(*[out / "sweep.json", *([out / "sweep.png"] if drawn else [])], sep="\n")


def _result(out: Path, label: str) -> tuple[Row, np.ndarray, np.ndarray]:
    """The row of a complete combination in sweep.json, and its curve: steps [P], values [P, S]."""
    from pqn.report.statistics import bootstrap_interval, iqm, mean

    directory = RunDir.open(out / label)
    summary, environment = read_summary(directory), directory.read_json(ENVIRONMENT)
    steps, values = curve(read_metrics(directory.metrics), "eval")
    final = values[-1] if len(values) else np.full(1, np.nan)
    interval = bootstrap_interval(final) if len(final) > 1 else (None, None)
    row: Row = {
        "label": label,
        "mean": mean(final),
        "iqm": iqm(final),
        "iqm_95": list(interval),
        "mean_over_run": mean(values),
        "per_seed": final,
        "eval_unfinished": summary.get("eval_unfinished"),
        "steps_per_second": summary["steps_per_second"],
        "steps": summary["steps"],
        "preset": summary["preset"],
        "device": summary["device"],
        "date": environment.get("time"),
        "commit": environment.get("git", {}).get("commit"),
    }
    return row, steps, values


def _say_failures(failed: Sequence[Outcome], total: int) -> None:
    """One sentence for each combination that failed, or for all of them where it is the same."""
    if total > 1 and len(failed) == total and len({outcome.error for outcome in failed}) == 1:
        options.warn(f"all {total} combinations failed: {failed[0].error}")
        return
    for outcome in failed:
        options.warn(f"{outcome.arm.label} failed: {outcome.error}")


def _print_table(rows: Sequence[Row]) -> None:
    width = max(len(str(row["label"])) for row in rows)
    print(f"{'':<{width}}  {'mean':>9}  {'IQM':>9}  {'over run':>9}  steps/s")
    for row in rows:
        if "failed" in row:
            print(f"{row['label']:<{width}}  {'failed':>9}")
            continue
        numbers = "  ".join(_number(row[name]) for name in ("mean", "iqm", "mean_over_run"))
        unfinished = row["eval_unfinished"]
        note = (
            f"  {unfinished['total']} of {unfinished['episodes']} unfinished"
            if isinstance(unfinished, dict) and unfinished.get("total")
            else ""
        )
        print(f"{row['label']:<{width}}  {numbers}  {row['steps_per_second']:.0f}{note}")


def _number(value: object) -> str:
    assert isinstance(value, float)
    return f"{value:9.2f}" if np.isfinite(value) else f"{'none':>9}"
