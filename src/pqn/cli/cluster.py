"""The options of commands that train many runs, and the placement that they mean."""

from __future__ import annotations

import argparse
from typing import Annotated

from pqn.cli import options
from pqn.errors import ConfigError
from pqn.fields import Within
from pqn.fleet.on_ray import LOCAL
from pqn.fleet.placement import Placement

Jobs = Annotated[int, Within(1, 1024)]
Retries = Annotated[int, Within(0, 1000)]
Resource = Annotated[float, Within(0.0, 1024.0)]


def add_placement(parser: options.Parser) -> None:
    """Adds `--jobs`, `--ray`, `--retries`, `--cpus-per-run` and `--gpus-per-run`."""
    section = parser.add_argument_group("many runs", "Where they are trained. The results do not depend on it.")
    section.add_argument(
        "--jobs", type=options.within(Jobs), default=1, metavar="N", help="runs at a time, in N processes (default: 1)"
    )
    section.add_argument(
        "--ray",
        nargs="?",
        const=LOCAL,
        metavar="ADDRESS",
        help="train as tasks of the Ray cluster at this address (auto: the one that runs here), with --out on a disk "
        "that its machines share; without an address, of a Ray that is started on this machine only",
    )
    section.add_argument(
        "--retries",
        type=options.within(Retries),
        default=2,
        metavar="N",
        help="a run whose process dies goes on from its checkpoint, at most so often (default: 2)",
    )
    section.add_argument(
        "--cpus-per-run", type=options.within(Resource), metavar="X", help="cores that Ray reserves (default: 1)"
    )
    section.add_argument(
        "--gpus-per-run",
        type=options.within(Resource),
        metavar="X",
        help="GPUs that Ray reserves; 0.25 lets four runs share one (default: 1 where there are GPUs)",
    )


def placement(given: argparse.Namespace) -> Placement:
    """What the options mean.

    Raises:
      ConfigError: they contradict each other.
    """
    if given.ray is not None and given.jobs > 1:
        raise ConfigError("--jobs is for this machine; Ray runs as many at a time as its machines have room for")
    for name in ("cpus_per_run", "gpus_per_run"):
        if given.ray is None and getattr(given, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} is for --ray; --jobs deals out the GPUs in turn")
    gpus = given.gpus_per_run
    if gpus is not None and gpus > 1 and not float(gpus).is_integer():
        raise ConfigError(f"--gpus-per-run is {gpus:g}; above 1 it must be whole")
    cpus = 1.0 if given.cpus_per_run is None else given.cpus_per_run
    return Placement(given.jobs, given.ray, given.retries, cpus, gpus)
