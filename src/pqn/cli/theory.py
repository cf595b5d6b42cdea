"""`pqn theory EXPERIMENT`: run the paper's theory: baird, lemma, deepsea."""

from __future__ import annotations

import importlib
import shlex

from pqn.cli import options
from pqn.errors import ConfigError, RunError, reason, suggest
from pqn.experiments.configs import DEEPSEA_PRESETS, BairdConfig, DeepSeaConfig, LemmaConfig

EXPERIMENTS = {"baird": BairdConfig(), "lemma": LemmaConfig(), "deepsea": DeepSeaConfig(depth=10), **DEEPSEA_PRESETS}

USAGE = """\
usage: pqn theory EXPERIMENT [--OPTION VALUE …]

  baird                             Baird's counterexample: what diverges, what converges
  lemma                             how the stability terms fall with width, and when they do not
  deepsea                           deep exploration without target networks, by normalisation, at depth 10
  deepsea-20, -30, -40              the same at the paper's depths; these want a GPU

`pqn theory EXPERIMENT --help` shows the options. Each writes JSON and figures to --out."""


def run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    name, rest = argv[0], argv[1:]
    if name not in EXPERIMENTS:
        raise ConfigError(
            f"there is no experiment {name!r}{suggest(name, EXPERIMENTS)} (`pqn theory --help` lists them)"
        )
    defaults = EXPERIMENTS[name]
    parser = options.Parser(f"theory {name}")
    parser.add_argument("--out", default="runs/theory", metavar="DIR", help="where to write (default: runs/theory)")
    options.add_fields(parser, defaults, name)
    given = parser.parse(rest)
    config = options.replace(defaults, given)
    config.validate()

    from pqn.device import enable_compilation_cache
    from pqn.experiments.record import check_writable
    from pqn.progress import Progress
    from pqn.runs.metrics import to_json

    out = check_writable(given.out)
    enable_compilation_cache()
    module = importlib.import_module(f"pqn.experiments.{name.partition('-')[0]}")
    progress = Progress()
    result = module.run(config, progress=progress.status if progress.live else progress.note)
    progress.note(f"{name}: measured, writing to {out}")
    print(to_json(result.summary(), indent=1))  # before the files: what fails there loses no result
    try:
        paths = result.save(out, command=shlex.join(["pqn", "theory", *argv]))
    except OSError as error:
        raise RunError(f"the results above could not be written to {out}: {reason(error)}") from error
    print(*paths, sep="\n")
    return 0
