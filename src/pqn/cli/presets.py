"""`pqn presets`."""

from __future__ import annotations

from pqn.cli import options
from pqn.presets import PRESETS


def run(argv: list[str]) -> int:
    options.Parser("presets", description="Lists the presets and the source of their numbers.").parse(argv)
    width = max(map(len, PRESETS))
    for name, entry in PRESETS.items():
        print(f"{name:<{width}}  {entry.config.total_steps:>10.0e} steps  {entry.description}")
        print(f"{'':<{width}}  {'':>16}  numbers from {entry.source}")
    return 0
