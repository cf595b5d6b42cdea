"""`pqn train [PRESET] [OPTIONS]`."""

from __future__ import annotations

import textwrap

from pqn.cli import options
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.presets import PRESETS, preset


def run(argv: list[str]) -> int:
    named = bool(argv) and not argv[0].startswith("-")
    defaults = preset(argv[0]) if named else Config()
    parser = options.Parser(
        "train",
        usage="pqn train [PRESET] [--OPTION VALUE …]",
        description=_describe(argv[0]) if named else _presets_help(),
    )
    parser.add_argument("--out", metavar="DIR", help="the run directory (default: runs/<preset>-<time>)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    options.add_config(parser, defaults)
    given = parser.parse(argv[1:] if named else argv)
    if not named and not hasattr(given, "env.name"):
        raise ConfigError(f"name a preset or an environment: `pqn train {next(iter(PRESETS))}`, `pqn train --env NAME`")
    config = options.apply(defaults, given).validate()

    from pqn.cli.show import show_result
    from pqn.progress import Progress
    from pqn.training import train

    show_result(train(config, out=given.out, progress=Progress(quiet=given.quiet)))
    return 0


def _describe(name: str) -> str:
    entry = PRESETS[name]
    origin = textwrap.fill(f"{entry.origin[0].upper()}{entry.origin[1:]}.", 112)
    return f"{name}: {entry.description}.\n{origin}"


def _presets_help() -> str:
    return "presets: " + ", ".join(PRESETS) + "\n`pqn train PRESET --help` shows the options with that preset's values."
