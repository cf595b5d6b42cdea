"""`pqn reproduce EXPERIMENT`: make the figures and tables of the paper again."""

from __future__ import annotations

import argparse
import math
import shlex
from pathlib import Path

from pqn.cli import cluster, options
from pqn.errors import ConfigError, PqnError
from pqn.experiments.paper import EXPERIMENTS, Arm, Experiment, estimate, experiment, find_arms

SMOKE = "smoke"
RESULTS = "results"
DESCRIPTION = """\
Runs the arms of an experiment of the paper and writes a result for each:

  pqn reproduce --list                              what there is, what is done, ours beside the paper's
  pqn reproduce minatar --dry-run                   the commands and the estimated time
  pqn reproduce minatar --share 0.1 --seeds 3 --out DIR
  pqn reproduce minatar --minutes 25 --out DIR      as much as fits; the next call goes on where this one stopped
  pqn reproduce minatar --ray --out DIR             arms as tasks of a Ray cluster; --jobs N: N processes here
  pqn reproduce --report --out DIR                  pages, tables and figures from all results
  pqn reproduce smoke --out DIR                     everything, tiny: shows that it works

Results are DIR/EXPERIMENT/ARM/*.json and are never overwritten. What is not finished is in DIR/runs; call again, here
or on another machine that has DIR, to go on."""


def run(argv: list[str]) -> int:
    given = _parser().parse(argv)
    cluster.placement(given)  # contradictions are told before anything else
    out = Path(given.out)
    if given.list:
        return _list(out, [experiment(name) for name in given.experiments] or list(EXPERIMENTS.values()))
    if given.report and not given.experiments:
        return _report(out, given.update)
    if not given.experiments:
        raise ConfigError("name an experiment, such as `pqn reproduce minatar`; `pqn reproduce --list` lists them")
    if SMOKE in given.experiments:
        return _smoke(given, out)
    entries = [experiment(name) for name in given.experiments]
    if given.arms and len(entries) > 1:
        raise ConfigError("--arms are arms of one experiment; name only one")
    arms = [arm for entry in entries for arm in find_arms(entry, given.arms)]
    if given.dry_run:
        return _dry_run(arms, given.share, given.seeds, given.out)
    status = _run(arms, given, out)
    if given.report:
        _report(out, given.update)
    return status


def _parser() -> options.Parser:
    parser = options.Parser("reproduce", names=[*EXPERIMENTS, SMOKE], description=DESCRIPTION)
    parser.usage = "pqn reproduce [EXPERIMENT …] [--share S] [--seeds N] [--minutes M] [--out DIR] …"
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="names from --list, or smoke")
    parser.add_argument("--list", action="store_true", help="list the experiments and what is done of them")
    parser.add_argument("--report", action="store_true", help="build pages and figures from the results in --out")
    parser.add_argument("--dry-run", action="store_true", help="show what would run, and how long it may take")
    parser.add_argument("--arms", nargs="+", metavar="ARM", help="only these arms of the experiment")
    parser.add_argument(
        "--share", type=_share, default=1.0, metavar="S",
        help="share of the budget, in (0, 1] (default: 1); schedules stay those of the whole",
    )  # fmt: skip
    parser.add_argument("--seeds", type=_count, default=None, metavar="N", help="seeds (default: as in the paper)")
    parser.add_argument("--out", type=options.path, default=RESULTS, metavar="DIR", help="default: results")
    parser.add_argument(
        "--minutes", type=_positive, default=None, metavar="M", help="save and stop after so many minutes"
    )
    parser.add_argument(
        "--memory", type=_positive, default=None, metavar="GB",
        help="device memory to use; more seeds than fit are trained in batches (default: 85 %% of the device's)",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="also run arms that have a result; it gets a new file")
    parser.add_argument(
        "--update", nargs="+", default=None, metavar="PAGE",
        help="other pages with generated parts (default: README.md and docs/*.md)",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress, only what became of the arms")
    cluster.add_placement(parser)
    return parser


def _share(text: str) -> float:
    value = _positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text} is more than the whole; it must be in (0, 1]")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seeds from 1 to 1000")
    return int(text)


def _list(out: Path, entries: list[Experiment]) -> int:
    from pqn.experiments import runner
    from pqn.experiments.chosen import choices
    from pqn.experiments.pages import headline
    from pqn.progress import clock

    for entry in entries:
        chosen = choices(entry, out)
        known = sum(arm.known for arm in entry.arms)
        print(f"{entry.name}: {entry.title} ({entry.where})")
        lacking = f", {len(entry.arms) - known} presets missing" if known < len(entry.arms) else ""
        needed = clock(60 * entry.minutes())
        print(f"  {len(chosen)} of {len(entry.arms)} arms done{lacking}; all: about {needed} on an H200")
        if chosen:
            print(f"  ours:  {headline(entry, chosen)}")
        if entry.claim:
            print(f"  paper: {entry.claim}")
        for arm in entry.arms:
            for why in runner.failures(arm, out):
                print(f"  failed: {arm.name}, {why}")
    return 0


def _dry_run(arms: list[Arm], share: float, seeds: int | None, out: str) -> int:
    from pqn.experiments import runner
    from pqn.progress import clock

    total, place = 0.0, "" if out == RESULTS else f" --out {shlex.quote(out)}"
    for arm in arms:
        entry = experiment(arm.experiment)
        minutes = estimate(arm, entry, share, seeds or entry.seeds)
        total += minutes if arm.known else 0.0
        note = f"about {clock(60 * minutes)}, {arm.gigabytes:g} GB a seed" if arm.known else "preset missing"
        print(f"{runner.command(arm, share, seeds)}{place}  # {note}")
    print(f"# {len(arms)} arms, about {clock(60 * total)} on one H200 (estimated)")
    return 0


def _run(arms: list[Arm], given: argparse.Namespace, out: Path) -> int:
    from pqn.experiments.campaign import run_arms
    from pqn.experiments.record import check_writable
    from pqn.progress import Progress

    check_writable(given.out)
    outcomes = run_arms(
        arms, given.share, given.seeds, out, minutes=given.minutes, again=given.again, gigabytes=given.memory,
        placement=cluster.placement(given), progress=Progress(quiet=given.quiet),
    )  # fmt: skip
    return _tell(outcomes)


def _smoke(given: argparse.Namespace, out: Path) -> int:
    from pqn.experiments import campaign, smoke
    from pqn.experiments.record import check_writable
    from pqn.progress import Progress

    if given.out == RESULTS:
        raise ConfigError(
            "smoke results mean nothing and must not lie among others: choose an --out, such as runs/smoke"
        )
    if len(given.experiments) > 1 or given.arms or given.share != 1.0:
        raise ConfigError("smoke is every experiment, tiny: leave out other names, --arms and --share")
    plan = smoke.plan()
    if given.dry_run:
        for arm in plan.run:
            print(f"{arm.experiment}/{arm.name}" if arm.known else f"{arm.experiment}/{arm.name}: preset missing")
        for arm, stands in plan.represented.items():
            print(f"{arm.experiment}/{arm.name}: nearly the same program as {stands.experiment}/{stands.name}")
        return 0
    check_writable(given.out)
    outcomes = campaign.run_arms(
        plan.run, 1.0, given.seeds or smoke.SEEDS, out, minutes=given.minutes, again=given.again,
        overrides=smoke.overrides, placement=cluster.placement(given), progress=Progress(quiet=True),
    )  # fmt: skip
    status = _tell(outcomes)
    print(f"{len(plan.represented)} more arms compile nearly the same programs; their configurations are valid")
    return status or _report(out, [])


def _tell(outcomes: list) -> int:
    """Prints what became of each arm; the exit status says whether one failed."""
    for arm, state, path, why in outcomes:
        print(f"{state}: {arm.experiment}/{arm.name}" + (f": {path or why}" if path or why else ""))
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    left = sum(outcome.state == "left" for outcome in outcomes)
    if left:
        print(f"{left} of {len(outcomes)} arms are left: the same command goes on with them")
    if failed:
        raise PqnError(f"{failed} of {len(outcomes)} arms failed; the others are done or go on at the next call")
    return 0


def _page(name: str) -> Path:
    """A page that --update names. One in which there is nothing to update was meant to be another."""
    from pqn.experiments import markers

    text = markers.read_page(Path(name))
    if text is None:
        raise ConfigError(f"--update {name}: there is no such file")
    if not markers.names(text):
        raise ConfigError(f"--update {name}: it has no part of the form <!-- generated: NAME -->")
    return Path(name)


def _report(out: Path, others: list[str] | None) -> int:
    from pqn.experiments.publish import build

    usual = [path for path in (Path("README.md"), *sorted(Path("docs").glob("*.md"))) if path.exists()]
    pages = usual if others is None else [_page(name) for name in others]
    for path in build(out, pages):
        print(path)
    return 0
