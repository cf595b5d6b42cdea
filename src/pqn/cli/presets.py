"""`pqn presets`."""

from __future__ import annotations

import string
import textwrap

from pqn.cli import options
from pqn.presets import PRESETS
from pqn.theory.configs import DEEPSEA_PRESETS


def run(argv: list[str]) -> int:
    options.Parser("presets", description="Lists the presets and the source of their numbers.").parse(argv)
    alone = {name: entry for name, entry in PRESETS.items() if not entry.group}
    width = max(map(len, alone))
    for name, entry in alone.items():
        print(f"{name:<{width}}  {entry.config.total_steps:>10.0e} steps  {entry.description}")
        print(f"{'':<{width}}  {'':>16}  numbers from {entry.source}")
    for group in dict.fromkeys(entry.group for entry in PRESETS.values() if entry.group):
        members = {name: entry for name, entry in PRESETS.items() if entry.group == group}
        first, prefix = next(iter(members.values())), group.rstrip(string.ascii_uppercase)
        what = f"{len(members)} presets by one rule; {group.removeprefix(prefix)} is one of those below"
        print(f"{group:<{width}}  {first.config.total_steps:>10.0e} steps  {what}")
        print(f"{'':<{width}}  {'':>16}  numbers from {first.source}")
        print(textwrap.indent(textwrap.fill(", ".join(name.removeprefix(prefix) for name in members), 112), "    "))
    print(f"\n`pqn theory` has experiments of its own: {', '.join(DEEPSEA_PRESETS)}, baird, lemma")
    return 0
