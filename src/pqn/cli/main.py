"""`pqn COMMAND …`: finds the command, turns errors into sentences."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from pqn import __version__
from pqn.errors import Diverged, Interrupted, PqnError, suggest

COMMANDS = {
    "train": "train a preset, or your own environment",
    "resume": "continue a run where it stopped",
    "eval": "play a trained agent and report its returns",
    "sweep": "train every combination of some options and compare them",
    "plot": "draw the learning curves of runs",
    "atari": "compare the scores of Atari runs with the paper's and a human's",
    "stability": "measure how stable TD learning is for a run's network",
    "theory": "run the paper's theory: baird, lemma, deepsea",
    "presets": "list the presets",
    "envs": "list the environments",
}

USAGE = """\
usage: pqn COMMAND [ARGUMENTS]

Parallelised Q-Networks: deep Q-learning with no replay buffer and no target network.

commands:
{commands}

  pqn train cartpole                train a preset
  pqn train cartpole --help         every option, with the preset's values
  pqn COMMAND --help                help on a command"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0, 2 for the user's mistakes, 1 for divergence, 130 for Ctrl-C."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(argv)
    except KeyboardInterrupt:
        print("pqn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except PqnError as error:
        print(f"pqn: {error}", file=sys.stderr)
        return {Interrupted: 130, Diverged: 1}.get(type(error), 2)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(USAGE.format(commands="\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())))
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"pqn {__version__}")
        return 0
    command, rest = argv[0], argv[1:]
    if command not in COMMANDS:
        raise PqnError(f"there is no command {command!r}{suggest(command, COMMANDS)} (`pqn --help` lists them)")
    return importlib.import_module(f"pqn.cli.{command}").run(rest)
