"""`pqn train [PRESET] [OPTIONS]`: train a preset, or your own environment."""

from __future__ import annotations

import textwrap

from pqn.cli import host_options, options, stopping
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.presets import PRESETS, preset


def run(argv: list[str]) -> int:
    name, rest = _parser(Config()).find_name(argv)
    defaults = Config() if name is None else preset(name)
    given = _parser(defaults, name).parse(rest)
    if name is None and not hasattr(given, "env.name"):
        raise ConfigError(f"name a preset or an environment: `pqn train {next(iter(PRESETS))}`, `pqn train --env NAME`")
    config = options.apply(defaults, given).validate()

    with host_options.joined(given, options.flat(config)) as reports:
        from pqn.cli.show import show_result
        from pqn.progress import Progress
        from pqn.training import train

        result = train(
            config,
            init_from=given.init_from,
            callbacks=stopping.callbacks(given),
            out=given.out,
            overwrite=given.overwrite,
            progress=Progress(quiet=given.quiet),
        )
        if reports:
            show_result(result)
    return 0


def _parser(defaults: Config, name: str | None = None) -> options.Parser:
    parser = options.Parser(
        "train",
        names=PRESETS,
        usage="pqn train [PRESET] [--OPTION VALUE …]",
        description=_presets_help() if name is None else _describe(name),
    )
    parser.add_argument("--out", type=options.path, metavar="DIR", help="the run directory (default: runs/PRESET-TIME)")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in DIR; nothing else is removed")
    parser.add_argument(
        "--init-from", type=options.path, metavar="RUN", help="start from the weights of another run; fresh optimiser"
    )
    stopping.add(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    host_options.add(parser)
    options.add_config(parser, defaults)
    return parser


def _describe(name: str) -> str:
    entry = PRESETS[name]
    origin = textwrap.fill(f"{entry.origin[0].upper()}{entry.origin[1:]}.", 112)
    return f"{name}: {entry.description}.\n{origin}"


def _presets_help() -> str:
    return "presets: " + ", ".join(PRESETS) + "\n`pqn train PRESET --help` shows the options with that preset's values."
