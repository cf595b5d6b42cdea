"""`pqn envs`."""

from __future__ import annotations

from pqn.cli import options
from pqn.envs.registry import available


def run(argv: list[str]) -> int:
    options.Parser("envs", description="Lists the environments that have a name here.").parse(argv)
    rows = available()
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.family:<10}  {row.description}")
    print(f"{'MODULE:FUNCTION':<{width}}  {'yours':<10}  your own; see the README's custom environment")
    return 0
