"""`pqn presets`."""

from __future__ import annotations

from pqn.cli import options
from pqn.presets import PRESETS
from pqn.theory.configs import DEEPSEA_PRESETS


def run(argv: list[str]) -> int:
    options.Parser("presets", description="Lists the presets and the source of their numbers.").parse(argv)
    width = max(map(len, PRESETS))
    for name, entry in PRESETS.items():
        print(f"{name:<{width}}  {entry.config.total_steps:>10.0e} steps  {entry.description}")
        print(f"{'':<{width}}  {'':>16}  numbers from {entry.source}")
    print(f"\n`pqn theory` has experiments of its own: {', '.join(DEEPSEA_PRESETS)}, baird, lemma")
    return 0
