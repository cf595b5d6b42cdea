"""`pqn tune PRESET --space FILE --trials N`: search for good options with Optuna.

Call the same command again, on this or any other machine that shares the disk, to add a worker or to go on.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pqn.cli import options
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.fields import Within
from pqn.presets import PRESETS, preset
from pqn.progress import Progress
from pqn.runs.configs import differences

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from pqn.search.study import Search

MOST_SHOWN = 10  # trials in the table
Trials = Annotated[int, Within(1, 10**6)]
Startup = Annotated[int, Within(1, 10**6)]
Together = Annotated[int, Within(1, 4096)]


def run(argv: list[str]) -> int:
    name, rest = _parser(Config()).find_name(argv)
    if name is None and not {"-h", "--help"} & set(argv):
        raise ConfigError("name a preset: `pqn tune cartpole --space space.toml --trials 50 --out DIR`")
    defaults = Config() if name is None else preset(name)
    given = _parser(defaults).parse(rest)
    base = options.apply(defaults, given).validate()
    if not base.eval.count:
        raise ConfigError("eval.count is 0; a search compares greedy returns, so it must be at least 1")

    from pqn.search.space import read_space
    from pqn.search.study import Search

    space = read_space(Path(given.space), base)
    search = Search(Path(given.out), base, space, given.startup, not given.no_pruning)

    from pqn.search.worker import work

    try:
        work(search, given.trials, given.together, Progress(quiet=given.quiet))
        _show(search)
    finally:
        search.close()
    return 0


def _parser(defaults: Config) -> options.Parser:
    parser = options.Parser(
        "tune",
        names=PRESETS,
        usage="pqn tune PRESET --space FILE --trials N --out DIR [--OPTION VALUE …]",
        description="Searches for options that give a high mean greedy return at the end of training.\n"
        "Call the same command again to go on, or on other machines that share DIR to work on the same search.\n"
        "FILE is TOML, one line for each option that may vary:\n"
        "  learner.lr = {low = 1e-5, high = 1e-2, log = true}\n"
        "  network.norm = ['layer', 'batch', 'none']",
    )
    parser.add_argument("--space", type=options.path, metavar="FILE", required=True, help="what may vary")
    parser.add_argument(
        "--trials", type=options.within(Trials), metavar="N", required=True, help="of all workers together"
    )
    parser.add_argument("--out", type=options.path, metavar="DIR", required=True, help="where the search is kept")
    parser.add_argument(
        "--together",
        type=options.within(Together),
        default=8,
        metavar="N",
        help="trials that a worker starts at a time; those that differ only in options of the group learner that are "
        "numbers with a fraction are one compiled program (default: 8)",
    )
    parser.add_argument(
        "--startup",
        type=options.within(Startup),
        default=10,
        metavar="N",
        help="trials at random options, none of which is stopped early, before the search makes use of what it has "
        "seen (default: 10)",
    )
    parser.add_argument("--no-pruning", action="store_true", help="train every trial to its end")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    options.add_config(parser, defaults)
    return parser


def command(config: Config) -> str:
    """The command that trains a configuration: its preset and every option that differs from it.

    >>> command(preset("cartpole").replace({"learner.lam": 0.5, "network.hidden": (8, 8)}))
    'pqn train cartpole --network.hidden 8 8 --learner.lam 0.5'
    """
    base = preset(config.preset)
    words = ["pqn", "train", config.preset]
    for name, (value, before) in differences(config, base).items():
        if isinstance(value, dict) and isinstance(before, dict):
            pairs = {**dict.fromkeys(before, None), **value}
            texts = [f"{key}={_text(entry)}" for key, entry in pairs.items() if entry != before.get(key)]
        else:
            texts = [_text(entry) for entry in value] if isinstance(value, list | tuple) else [_text(value)]
        words += [f"--{name.replace('_', '-')}", *texts]
    return shlex.join(words)


def _text(value: object) -> str:
    """A value as the command line reads it; a number with all of its digits."""
    from pqn.runs.json_text import to_json

    return "" if value is None else value if isinstance(value, str) else to_json(value)


def _show(search: Search) -> None:
    """Prints the best trials and the command that trains the best one."""
    trials = search.trials()
    states = [trial.state.name.lower() for trial in trials]
    counts = {state: states.count(state) for state in ("complete", "pruned", "running", "fail")}
    words = {"complete": "complete", "pruned": "stopped early", "running": "running elsewhere", "fail": "tried again"}
    print(", ".join(f"{count} {words[state]}" for state, count in counts.items() if count))
    found = search.best()
    if found is None:
        print(f"no trial is complete\n{search.write()}")
        return
    names = list(search.space.dimensions)
    complete = sorted(
        (trial for trial in trials if trial.state.name == "COMPLETE"), key=lambda trial: (-_value(trial), trial.number)
    )
    print(f"{'trial':>5}  {'return':>9}  " + "  ".join(f"{name:>12}" for name in names))
    for trial in complete[:MOST_SHOWN]:
        cells = [f"{_cell(trial.params[name]):>{max(12, len(name))}}" for name in names]
        print(f"{trial.number:>5}  {_value(trial):9.2f}  " + "  ".join(cells))
    print(search.write())
    print(f"best: trial {found[0].number}, return {_value(found[0]):.2f}; train it with\n{command(found[1])}")


def _value(trial: FrozenTrial) -> float:
    return float("-inf") if trial.value is None else trial.value


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
