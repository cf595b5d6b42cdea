"""`pqn envs`: list the environments."""

from __future__ import annotations

import textwrap

from pqn.cli import options
from pqn.envs.catalog import FAMILIES
from pqn.envs.registry import available


def run(argv: list[str]) -> int:
    options.Parser("envs", description="Lists the environments that have a name here.").parse(argv)
    rows = [row for row in available() if not FAMILIES[row.family].summary]
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.family:<10}  {row.description}")
    for family, entry in FAMILIES.items():
        if entry.summary:
            print(f"{f'{family}:NAME':<{width}}  {family:<10}  {entry.summary}; NAME is one of")
            print(textwrap.indent(textwrap.fill(", ".join(entry.names), 112, break_on_hyphens=False), "    "))
    print(f"{'MODULE:FUNCTION':<{width}}  {'yours':<10}  your own; see the README's custom environment")
    return 0
