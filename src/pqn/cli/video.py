"""`pqn video RUN [-o FILE]`: film a trained agent (MP4, GIF; Hanabi as text)."""

from __future__ import annotations

import argparse
import math
import re
from typing import Annotated

from pqn.cli import options
from pqn.fields import Within
from pqn.options import Seed, Share
from pqn.watch import MOST_CELLS


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "video",
        description="Plays the agent of a run, the first full episode per environment, and draws every step.\n"
        "With the same --seed and as many episodes, `pqn eval` plays the same games.",
    )
    parser.add_argument("run", type=options.path, metavar="RUN", help="a run directory")
    seed, share = options.within(Seed), options.within(Share)
    some = options.within(Annotated[int, Within(1, 1_000_000)])
    parser.add_argument(
        "-o", "--out", type=options.path, metavar="FILE", help="mp4, gif or txt (default: RUN/agent.mp4; see the docs)"
    )
    parser.add_argument("--grid", type=grid, default=(1, 1), metavar="RxC", help="rows and columns of episodes, as 2x3")
    parser.add_argument("--q", action="store_true", help="the Q-values of every action beside the picture")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the episodes (default: 0)")
    parser.add_argument("--train-seed", type=seed, metavar="N", help="which of the run's seeds (default: its first)")
    parser.add_argument("--epsilon", type=share, default=0.0, metavar="X", help="exploration (default: 0)")
    fps = options.within(Annotated[int, Within(1, 240)])
    parser.add_argument("--fps", type=fps, metavar="N", help="steps a second (default: what suits the environment)")
    parser.add_argument("--max-steps", type=some, metavar="N", help="cut longer episodes (default: 2000 at most)")
    parser.add_argument("--env", metavar="NAME", help="play in this environment (default: where the run was trained)")
    options.add_network(parser)
    options.add_checkpoint(parser)
    given = parser.parse(argv)

    from pqn.runs.directory import RunDir

    RunDir.open(given.run)

    from pqn.progress import Progress
    from pqn.watch.film import Film, FilmOptions, make_film

    wanted = FilmOptions(
        given.grid, given.q, given.seed, given.train_seed, given.epsilon, given.fps, given.max_steps
    )  # fmt: skip
    with Progress().working("filming …"):
        film: Film = make_film(
            given.run,
            given.out,
            wanted,
            env=given.env,
            network=given.network,
            checkpoint=given.checkpoint,
            warn=options.warn,
        )
    if film.text is not None:
        print(film.text)
    print(f"{film.env}, {film.step} training steps, ε {given.epsilon:g}")
    for number, (value, length) in enumerate(zip(film.returns.tolist(), film.lengths.tolist(), strict=True), start=1):
        told = f"unfinished after {length} steps" if math.isnan(value) else f"return {value:10.2f}   {length} steps"
        print(f"  episode {number:<3} {told}")
    print(film.path)
    return 0


def grid(text: str) -> tuple[int, int]:
    """`2x3` as (2, 3)."""
    found = re.fullmatch(r"(\d{1,3})[x×](\d{1,3})", text)
    rows, columns = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= rows * columns <= MOST_CELLS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form 2x3, rows and columns, of at most {MOST_CELLS} episodes"
        )
    return rows, columns
