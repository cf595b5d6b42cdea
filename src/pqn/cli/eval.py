"""`pqn eval RUN [--episodes N] [--json]`: play a trained agent and report its returns."""

from __future__ import annotations

import math

from pqn.cli import options
from pqn.options import Copies, Seed, Share


def run(argv: list[str]) -> int:
    given = _parser().parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)

    from pqn.play import evaluate
    from pqn.programs.evaluation import say_unfinished
    from pqn.progress import Progress
    from pqn.runs.metrics import to_json

    with Progress().working(f"playing {given.episodes} episodes per seed …"):
        result = evaluate(
            given.run,
            given.episodes,
            given.epsilon,
            given.seed,
            env=given.env,
            network=given.network,
            checkpoint=given.checkpoint,
            warn=options.warn,
        )
    if given.json:
        print(to_json(result))
        return 0
    print(
        f"{result['env']}, {result['step']} training steps, {result['episodes']} episodes per seed, ε {given.epsilon:g}"
    )
    open_episodes = [sum(math.isnan(value) for value in seed) for seed in result["returns"].tolist()]
    rows = zip(result["seeds"], result["return_mean"], result["return_std"], open_episodes, strict=True)
    for seed, mean, std, unfinished in rows:
        said = say_unfinished(unfinished, result["episodes"], result["max_steps"]) if unfinished else ""
        number = "" if math.isnan(mean) else f"return {mean:10.2f} ± {std:.2f}"
        print(f"  seed {seed:<4} " + "; ".join(part for part in (number, said) if part))
    if result["mean"] is None or result["quartiles"] is None:
        return 0
    if len(result["seeds"]) > 1:
        print(f"  mean      return {result['mean']:10.2f}")
    print("  lowest {:.4g}, quartiles {:.4g}, {:.4g}, {:.4g}, highest {:.4g}".format(*result["quartiles"]))
    if result["histogram"] and len(result["histogram"]) > 1:
        total = sum(result["histogram"].values())
        shares = (f"{value}: {count / total:.1%}" for value, count in result["histogram"].items())
        print(f"  returns {', '.join(shares)}")
    for name, value in result["info"].items():
        print(f"  {name}: {value:.4g}")
    if result["unfinished"]:
        print("  unfinished episodes are in no mean")
    return 0


def _parser() -> options.Parser:
    parser = options.Parser("eval", description="Plays the agents of a run: the first full episode per environment.")
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    episodes, epsilon, seed = (options.within(hint) for hint in (Copies, Share, Seed))
    parser.add_argument("--episodes", type=episodes, default=128, metavar="N", help="per seed (default: 128)")
    parser.add_argument("--epsilon", type=epsilon, default=0.0, metavar="X", help="exploration (default: 0)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the episodes (default: 0)")
    parser.add_argument("--env", metavar="NAME", help="play in this environment (default: where the run was trained)")
    options.add_network(parser)
    options.add_checkpoint(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of words")
    return parser
