"""`pqn presets`: list the presets."""

from __future__ import annotations

import re
import textwrap

from pqn.cli import options
from pqn.config import ALGORITHMS
from pqn.experiments.configs import DEEPSEA_PRESETS
from pqn.presets import PRESETS, VARIANTS, presets_of


def run(argv: list[str]) -> int:
    parser = options.Parser("presets", description="Lists the presets and the source of their numbers.")
    known = ", ".join((*ALGORITHMS, *VARIANTS))
    parser.add_argument("--algorithm", metavar="NAME", help=f"only those of this algorithm or variant: {known}")
    algorithm = parser.parse(argv).algorithm
    shown = PRESETS if algorithm is None else presets_of(algorithm)
    alone = {name: entry for name, entry in shown.items() if not entry.group}
    groups = dict.fromkeys(entry.group for entry in shown.values() if entry.group)
    width = max(map(len, [*alone, *groups]))
    for name, entry in alone.items():
        print(f"{name:<{width}}  {entry.config.total_steps:>10.0e} steps  {entry.description}")
        print(_indented(f"numbers from {entry.source}"))
    for group in groups:
        members = {name: entry for name, entry in shown.items() if entry.group == group}
        first, (before, placeholder, after) = next(iter(members.values())), re.split("([A-Z]+)", group)
        what = f"{len(members)} presets by one rule; {placeholder} is one of those below"
        print(f"{group:<{width}}  {first.config.total_steps:>10.0e} steps  {what}")
        print(_indented(f"numbers from {first.source}"))
        print(_indented(", ".join(name.removeprefix(before).removesuffix(after) for name in members)))
    print("\n`pqn train PRESET --help` also says what differs from the source, and why.")
    if algorithm is None:
        print("`pqn presets --algorithm NAME` lists those of one algorithm.")
        print(f"`pqn theory` has experiments of its own: {', '.join(DEEPSEA_PRESETS)}, baird, lemma")
    return 0


def _indented(text: str) -> str:
    return textwrap.indent(textwrap.fill(text, 112), "    ")
