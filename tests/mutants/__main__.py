"""`python -m tests.mutants`: makes each mistake of the catalogue in a copy of src/ and sees whether a test notices."""

from __future__ import annotations

import argparse
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from .catalogue import MUTATIONS
from .mutation import Mutation
from .run import Workshop


def main() -> int:
    args = _arguments().parse_args()
    chosen = [m for m in MUTATIONS if any(fnmatchcase(m.name, pattern) for pattern in args.only)]
    if not chosen:
        print(f"no mutation is named {' or '.join(args.only)}; `--list` shows all", file=sys.stderr)
        return 2
    if args.list:
        for one in chosen:
            print(f"{one.name:40s} {one.file:24s} {one.meaning}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        return _work(chosen, Workshop(Path(place), args.jobs, args.timeout, args.cache))


def _work(chosen: list[Mutation], workshop: Workshop) -> int:
    print(f"{len(chosen)} mutations; first, their tests on the code as it is", flush=True)
    broken = workshop.baseline(chosen)
    if broken:
        print(f"these tests do not pass without any mutation:\n{broken}", file=sys.stderr)
        return 2
    verdicts = []
    for verdict in workshop.verdicts(chosen):
        print(verdict, flush=True)
        verdicts.append(verdict)
    caught = sum(verdict.caught for verdict in verdicts)
    late = sum(verdict.timed_out for verdict in verdicts)
    seconds = sum(verdict.seconds for verdict in verdicts)
    print(
        f"{caught} of {len(verdicts)} mutations caught ({100 * caught / len(verdicts):.0f} %), {late} of them by "
        f"running out of time; {seconds / len(verdicts):.0f} s for each, {seconds / 60:.0f} minutes of one worker"
    )
    for verdict in verdicts:
        if not verdict.caught:
            print(f"  {verdict.what}: {verdict.mutation.name}: {verdict.mutation.meaning}")
    return 0 if caught == len(verdicts) else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="names or patterns, such as 'smax-*'")
    parser.add_argument("--jobs", type=int, default=2, help="mutations tried at the same time")
    parser.add_argument("--list", action="store_true", help="show what would be tried")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds a mutation may take; more counts as caught"
    )
    parser.add_argument("--cache", type=Path, help="keep compiled programs here; by default they are thrown away")
    return parser


if __name__ == "__main__":
    sys.exit(main())
