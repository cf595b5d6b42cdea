"""`pqn sweep PRESET --over OPTION=V1,V2 [--over …]`: train every combination of some options and compare them."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pqn.cli import options
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.presets import PRESETS, preset
from pqn.runs import files
from pqn.runs.begun import begun
from pqn.runs.directory import ENVIRONMENT, SUMMARY, RunDir, read_summary
from pqn.runs.metrics import curve, read_metrics, to_json

MOST_COMBINATIONS = 10_000
LONGEST_LABEL = 200  # bytes; file systems take 255


def run(argv: list[str]) -> int:
    name, rest = _parser(Config()).find_name(argv)
    if name is None and not {"-h", "--help"} & set(argv):
        raise ConfigError("name a preset: `pqn sweep cartpole --over learner.lam=0,0.5,0.95 --out DIR`")
    defaults = Config() if name is None else preset(name)
    given = _parser(defaults).parse(rest)
    base = options.apply(defaults, given)
    cells = combinations(base, given.over)

    from pqn.progress import Progress
    from pqn.training import resume, train

    known = {label: begun(Path(given.out) / label, config, "this sweep", options.warn) for label, config in cells}
    for label, config in cells:
        where = Path(given.out) / label
        if files.is_file(where / SUMMARY):
            continue
        progress = Progress(quiet=given.quiet)
        progress.note(f"--- {label}")
        if known[label]:
            resume(where, env=config.env.name, progress=progress)
        else:
            train(config, out=where, progress=progress)
    compare(Path(given.out), [label for label, _ in cells])
    return 0


def _parser(defaults: Config) -> options.Parser:
    parser = options.Parser(
        "sweep",
        names=PRESETS,
        usage="pqn sweep PRESET --over OPTION=V1,V2,… [--over …] --out DIR [--OPTION VALUE …]",
        description="Trains every combination of the given values, one run each, and compares them.\n"
        "Finished combinations are not trained again: call it once more to go on after an interruption.",
    )
    parser.add_argument("--over", action="append", default=[], type=axis, metavar="OPTION=V1,V2", required=True)
    parser.add_argument("--out", type=options.path, metavar="DIR", required=True, help="where runs and comparison go")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    options.add_config(parser, defaults)
    return parser


def axis(text: str) -> tuple[str, list[object]]:
    """`learner.lam=0,0.5` → ("learner.lam", [0, 0.5]); values are JSON where they can be, else words."""
    name, equals, values = text.partition("=")
    try:
        found = json.loads(f"[{values}]")
    except (ValueError, RecursionError):
        found = [options.pair(f"value={word}")[1] for word in values.split(",")]
    if not name or not equals or not found or any(value is None for value in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form option=value,value")
    return name.replace("-", "_"), found


def combinations(base: Config, axes: list[tuple[str, list[object]]]) -> list[tuple[str, Config]]:
    """A label and a validated configuration for every combination; all are checked before the first is trained."""
    names = [name for name, _ in axes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--over has {name} twice; give all of its values at once, as {name}=1,2")
    count = math.prod(len(values) for _, values in axes)
    if count > MOST_COMBINATIONS:
        raise ConfigError(f"--over gives {count} combinations; it must give at most {MOST_COMBINATIONS}")
    cells: dict[str, Config] = {}
    known: set[str] = set()
    for values in itertools.product(*(values for _, values in axes)):
        chosen = dict(zip(names, values, strict=True))
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


def compare(out: Path, labels: list[str]) -> None:
    """Prints a table of final greedy returns and writes sweep.json and sweep.png."""
    from pqn.report.figures import learning_curves
    from pqn.report.statistics import bootstrap_interval, iqm, mean

    rows, curves = [], []
    for label in labels:
        directory = RunDir.open(out / label)
        summary, environment = read_summary(directory), directory.read_json(ENVIRONMENT)
        steps, values = curve(read_metrics(directory.metrics), "eval")
        final = values[-1] if len(values) else np.full(1, np.nan)
        interval = bootstrap_interval(final) if len(final) > 1 else (None, None)
        rows.append(
            {
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
        )
        curves.append((label, steps, values))
    files.write_atomically(out / "sweep.json", (to_json(rows, indent=1) + "\n").encode())
    drawn = [entry for entry in curves if np.isfinite(entry[2]).any()]
    if drawn:
        files.is_file(out / "sweep.png")
        learning_curves(drawn, out / "sweep.png")
    width = max(map(len, labels))
    print(f"{'':<{width}}  {'mean':>9}  {'IQM':>9}  {'over run':>9}  steps/s")
    for row in rows:
        numbers = "  ".join(_number(row[name]) for name in ("mean", "iqm", "mean_over_run"))
        unfinished = row["eval_unfinished"]
        note = (
            f"  {unfinished['total']} of {unfinished['episodes']} unfinished" if (unfinished or {}).get("total") else ""
        )
        print(f"{row['label']:<{width}}  {numbers}  {row['steps_per_second']:.0f}{note}")
    print(*[out / "sweep.json", *([out / "sweep.png"] if drawn else [])], sep="\n")


def _number(value: ArrayLike) -> str:
    return f"{value:9.2f}" if np.isfinite(value) else f"{'none':>9}"
