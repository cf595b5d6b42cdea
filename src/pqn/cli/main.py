"""`pqn COMMAND …`: finds the command, turns errors into sentences."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import InspectLoader

from pqn import __version__, cli
from pqn.cli import interrupts
from pqn.cli.options import Helped
from pqn.errors import RUN_DIRECTORY, Diverged, Interrupted, PqnError, explained, reason, suggest
from pqn.hosts import processes
from pqn.terminal import SafeStream, open_missing, safe

FIRST = (
    "train",
    "resume",
    "eval",
    "runs",
    "sweep",
    "plot",
    "report",
)  # the commands of every day come first in the help

USAGE = """\
usage: pqn COMMAND [ARGUMENTS]

Parallelised Q-Networks: deep Q-learning with no replay buffer and no target network.

commands:
{commands}

  pqn train cartpole                train a preset
  pqn train cartpole --help         every option, with the preset's values
  pqn COMMAND --help                help on a command"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
      The exit status: 0; 2 for the user's mistakes, and where the output could not be written; 1 for divergence and for
      unexpected errors; 130 for Ctrl-C.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    open_missing()
    given = sys.stdout, sys.stderr
    output, errors = SafeStream(sys.stdout), SafeStream(sys.stderr)
    sys.stdout, sys.stderr = safe(output), safe(errors)
    try:
        status = _settle(_run(argv), output, errors)
        processes.leave_if_failed(status)
        return status
    finally:
        sys.stdout, sys.stderr = given


def _run(argv: list[str]) -> int:
    """The exit status of a command, whatever happens in it."""
    try:
        with interrupts.heard(), explained():
            return _dispatch(argv)
    except Helped:
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", interrupts.INTERRUPTED)
    except PqnError as error:
        return _fail(str(error), {Interrupted: 130, Diverged: 1}.get(type(error), 2))
    except OSError as error:
        where = f"{os.fsdecode(error.filename)!r}: " if isinstance(error.filename, str | bytes) else ""
        return _fail(f"cannot go on: {where}{reason(error)}{_run_directory(error)}")
    except SystemExit as error:  # not ours: of an environment, or of a library
        return _fail(f"ended from within: {error.code}{_run_directory(error)}", 1)
    except Exception as error:
        traceback.print_exc()
        return _fail(
            f"{type(error).__name__} was not expected; unless it comes from an environment of your own, it is a bug of "
            f"pqn: please report it with the lines above{_run_directory(error)}",
            1,
        )


def _fail(sentence: str, status: int = 2) -> int:
    print(f"pqn: {' '.join(sentence.split())}", file=sys.stderr)
    return status


def _run_directory(error: BaseException) -> str:
    """Where the run is that an error has ended, if it has ended one."""
    return "".join(f" ({note})" for note in getattr(error, "__notes__", []) if note.startswith(RUN_DIRECTORY))


def _settle(status: int, output: SafeStream, errors: SafeStream) -> int:
    """The exit status when everything is written. A reader that has gone, such as `head`, has seen what it wanted."""
    output.settle()
    failure = output.failure
    if isinstance(failure, OSError) and not isinstance(failure, BrokenPipeError):
        status = status or _fail(f"cannot write to standard output: {reason(failure)}")
    errors.settle()
    return status


def commands() -> dict[str, str]:
    """Every command and what it does, as the first line of its file says; no command is imported for that."""
    names = {name: _summary(name) for _, name, _ in pkgutil.iter_modules(cli.__path__)}
    known = {name: text for name, text in names.items() if text is not None}
    order = [name for name in FIRST if name in known]
    return {name: known[name] for name in [*order, *sorted(known.keys() - set(order))]}


def _summary(name: str) -> str | None:
    """ "list the presets" for a file that begins with "`pqn presets`: list the presets."; None for another file."""
    spec = importlib.util.find_spec(f"{cli.__name__}.{name}")
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return None
    docstring = ast.get_docstring(ast.parse(spec.loader.get_source(spec.name) or "")) or ""
    found = re.match(rf"`pqn {name}\b[^`]*`: (.+?)\.?$", docstring, re.MULTILINE)
    return found and found.group(1)


def _dispatch(argv: list[str]) -> int:
    known = commands()
    if not argv or argv[0] in ("-h", "--help", "help"):
        width = max(map(len, known)) + 2
        print(USAGE.format(commands="\n".join(f"  {name:<{width}}{text}" for name, text in known.items())))
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"pqn {__version__}")
        return 0
    command, rest = argv[0], argv[1:]
    if command not in known:
        raise PqnError(f"there is no command {command!r}{suggest(command, known)} (`pqn --help` lists them)")
    return importlib.import_module(f"{cli.__name__}.{command}").run(rest)
