"""Compare configurations whose options change together, with statistics.

    python examples/sweep.py
    python examples/sweep.py --steps 20480 --seeds 2   # quick, and no more than a demonstration

`pqn sweep` tries every combination of the values you give. Here the options are coupled: a longer rollout gets more
minibatches, so that a gradient step always sees 128 transitions, and only the length of the rollout differs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pqn
from pqn.report.statistics import bootstrap_interval, iqm

ENVS, BATCH = 32, 128
BASE = pqn.preset("cartpole").replace({"env.num_envs": ENVS, "learner.epochs": 2})


def variant(rollout_steps: int) -> pqn.Config:
    """One entry of the comparison."""
    minibatches = rollout_steps * ENVS // BATCH
    return BASE.replace({"learner.rollout_steps": rollout_steps, "learner.minibatches": minibatches})


VARIANTS = {f"rollouts of {steps}": variant(steps) for steps in (8, 32, 128)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares coupled options.")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of each seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", default="runs/rollout-lengths", help="where the runs go; must be new")
    args = parser.parse_args()

    scores = {}
    for name, config in VARIANTS.items():
        # All seeds of one variant are one compiled program.
        config = config.replace(total_steps=args.steps, seeds=args.seeds)
        result = pqn.train(config, out=Path(args.out) / name.replace(" ", "-"))
        scores[name] = np.array(result.summary["eval_return"]["per_seed"])

    report(scores)
    runs = " ".join(str(Path(args.out) / name.replace(" ", "-")) for name in VARIANTS)
    print(f"curves: pqn plot {runs} -o curves.png")


def report(scores: dict[str, np.ndarray]) -> None:
    """Final greedy returns: IQM over seeds, 95 % bootstrap interval, difference from the first variant."""
    first = next(iter(scores.values()))
    print(f"{'':<18}{'IQM':>8}{'95 % interval':>18}{'minus the first, 95 %':>26}")
    for name, values in scores.items():
        row = f"{name:<18}{iqm(values):>8.1f}{shown(bootstrap_interval(values)):>18}"
        print(row if values is first else f"{row}{shown(difference(values, first)):>26}")
    print("An interval of differences without 0 in it is evidence; one with 0 in it says that more seeds are needed.")


def shown(interval) -> str:
    low, high = interval
    return f"[{low:.1f}, {high:.1f}]"


def difference(ours: np.ndarray, theirs: np.ndarray, resamples: int = 2000) -> tuple[float, float]:
    """95 % interval of IQM(ours) − IQM(theirs): both sides are resampled on their own."""
    rng = np.random.default_rng(0)
    samples = [iqm(rng.choice(x, (resamples, len(x))), axis=1) for x in (ours, theirs)]
    low, high = np.percentile(samples[0] - samples[1], [2.5, 97.5])
    return float(low), float(high)


if __name__ == "__main__":
    main()
