"""Options of commands that several processes can run together, on one machine or on many."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated

from pqn.cli import options
from pqn.errors import ConfigError
from pqn.fields import Within

Count = Annotated[int, Within(1, 10**6)]
Number = Annotated[int, Within(0, 10**6)]
Seconds = Annotated[float, Within(1.0, 10**6)]


def add(parser: options.Parser) -> None:
    """Adds the options that join a process with others."""
    group = parser.add_argument_group(
        "several processes",
        "Train one run with several processes, each with devices of its own. Start the same command for each of them; "
        "see docs/scale.md.",
    )
    group.add_argument("--distributed", action="store_true", help="Slurm or Open MPI has started the processes")
    group.add_argument(
        "--coordinator", metavar="HOST:PORT", help="without those: where process 0 listens; on a private network"
    )
    group.add_argument("--processes", type=options.within(Count), metavar="P", help="how many processes there are")
    group.add_argument("--process", type=options.within(Number), metavar="I", help="which one this is, from 0 on")
    group.add_argument(
        "--wait", type=options.within(Seconds), default=300.0, metavar="S",
        help="seconds to wait for all processes at the start (default: 300)",
    )  # fmt: skip
    group.add_argument(
        "--patience", type=options.within(Seconds), default=60.0, metavar="S",
        help="a process that has not been heard of for this many seconds ends the others (default: 60)",
    )  # fmt: skip


@contextlib.contextmanager
def joined(given: argparse.Namespace, about: Mapping[str, object]) -> Iterator[bool]:
    """Joins this process with the others that were asked for, if any; yields whether it is the one that reports.

    Args:
      given: the options of the command.
      about: what all processes must have been started with: name -> value.
    """
    explicit = (given.coordinator, given.processes, given.process)
    if not given.distributed and explicit == (None, None, None):
        yield True
        return
    if given.distributed and explicit != (None, None, None):
        raise ConfigError("--distributed finds out --coordinator, --processes and --process; give it or those")
    if not given.distributed and None in explicit:
        raise ConfigError("several processes need all of --coordinator HOST:PORT, --processes P and --process I")

    from pqn.hosts import processes
    from pqn.hosts.meeting import Place
    from pqn.runs.provenance import versions

    place, devices = (Place(*explicit), None) if not given.distributed else processes.detect(given.wait)
    started = {name: str(value) for name, value in about.items()}
    started |= {f"version of {name}": str(value) for name, value in versions().items()}
    with processes.joined(place, started, given.wait, given.patience, devices):
        yield processes.index() == 0
