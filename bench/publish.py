"""From run directories of `pqn train` to a result, for runs that `pqn reproduce` did not make.

    python -m bench.publish RUN… --experiment minatar --arm pqn-breakout [--share 1] [--out results]

The runs are of one configuration and have different seeds. They are finished; the commit is what they recorded.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from pqn.experiments import envelope, from_runs
from pqn.experiments.paper import experiment, find_arms


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--arm", required=True)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args()
    (arm,) = find_arms(experiment(given.experiment), [given.arm])
    command = shlex.join(["pqn", "train", arm.preset])
    calls = [from_runs.began(path, command) for path in given.runs]
    result = from_runs.envelope_of(arm, given.runs, given.share, calls, command)
    print(envelope.write(given.out, result))


if __name__ == "__main__":
    main()
