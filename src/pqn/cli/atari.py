"""`pqn atari RUN…`: compare the scores of Atari runs with the paper's and a human's."""

from __future__ import annotations

import sys
from typing import NamedTuple

from pqn.cli import options
from pqn.progress import human
from pqn.report import atari
from pqn.report.atari import Aggregates, GameScore, Which, human_normalised
from pqn.report.statistics import Interval
from pqn.runs.metrics import to_json

METHODS = ("pqn", "rainbow")
COLUMNS = {"ours": 34, "pqn": 20, "rainbow": 20}  # widths, so that a number is under its column of %
LABELS = {"median": "median", "mean": "mean", "iqm": "IQM", "atari_10": "Atari-10", "atari_5": "Atari-5"}


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "atari",
        description="Scores of Atari runs, raw and in % of a human player (0 % plays at random), next to those of "
        "the paper's PQN (400M frames) and Rainbow (200M frames). Runs of the same game are pooled.",
    )
    parser.add_argument("runs", type=options.path, metavar="RUN", nargs="+", help="run directories")
    parser.add_argument("--train", action="store_true", help="training returns instead of greedy evaluations")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse(argv)

    entries = atari.pool(_with_games(given.runs, "train" if given.train else "eval"))
    rated = [entry for entry in entries if entry.game in atari.REFERENCE]
    totals = _totals(rated) if rated else None
    if given.json:
        aggregates = {} if totals is None else totals.to_dict()
        print(to_json({"games": [_row(entry) for entry in entries], "aggregates": aggregates}, indent=2))
        return 0
    width = max(len("above human"), *(len(entry.game) for entry in entries))
    _show_games(entries, width)
    if totals is not None:
        _show_totals(totals, width)
    return 0


class Totals(NamedTuple):
    """Aggregates over the games that have a human score."""

    ours: Aggregates
    pqn: Aggregates
    rainbow: Aggregates
    interval: Interval | None  # of our IQM

    def to_dict(self) -> dict[str, object]:
        """A JSON-ready dictionary."""
        interval = None if self.interval is None else list(self.interval)
        return {**{method: getattr(self, method)._asdict() for method in COLUMNS}, "iqm_interval": interval}


def _with_games(runs: list[str], which: Which) -> list[GameScore]:
    """The scores of the runs that have any; the others are named on standard error. Raises if there are only such."""
    scores, without = [], []
    for path in runs:
        try:
            scores.append(atari.read_run(path, which))
        except atari.NoGames as reason:
            without.append(reason)
    if not scores:
        raise without[0] if len(runs) == 1 else atari.NoGames(f"none of the {len(runs)} runs has a finished game yet")
    for reason in without:
        print(f"pqn: {reason}; it is left out", file=sys.stderr)
    return scores


def _row(entry: GameScore) -> dict[str, object]:
    """A game for JSON."""
    row: dict[str, object] = {"game": entry.game, "seeds": len(entry.scores), "frames": entry.frames}
    row["score"] = entry.mean
    if entry.game in atari.REFERENCE:
        row["human"] = human_normalised(entry.game, entry.mean)
        for method in METHODS:
            score = getattr(atari.REFERENCE[entry.game], method)
            row |= {method: score, f"{method}_human": human_normalised(entry.game, score)}
    return row


def _totals(rated: list[GameScore]) -> Totals:
    games = [entry.game for entry in rated]
    ours = atari.aggregate({entry.game: human_normalised(entry.game, entry.mean) for entry in rated})
    return Totals(ours, atari.published(games, "pqn"), atari.published(games, "rainbow"), atari.iqm_interval(rated))


def _show_games(entries: list[GameScore], width: int) -> None:
    ours = f"{'':<{width}}  {'seeds':>5} {'frames':>7} {'score':>11} {'human %':>8}"
    print(f"{ours}   {'PQN (400M)':>17}   {'Rainbow (200M)':>17}")
    for entry in entries:
        line = f"{entry.game:<{width}}  {len(entry.scores):>5} {human(entry.frames):>7} {entry.mean:>11.1f}"
        if entry.game in atari.REFERENCE:
            line += f" {human_normalised(entry.game, entry.mean):>8.1f}"
            scores = (getattr(atari.REFERENCE[entry.game], method) for method in METHODS)
            line += "".join(f"   {score:>10.1f} {human_normalised(entry.game, score):>6.0f}" for score in scores)
        print(line)


def _show_totals(totals: Totals, width: int) -> None:
    games = totals.ours.games
    print(f"\n% of human over {games} game{'s' if games > 1 else ''}")
    for key, label in LABELS.items():
        if getattr(totals.ours, key) is not None:
            values = "".join(f"{getattr(getattr(totals, name), key):>{space}.1f}" for name, space in COLUMNS.items())
            note = ""
            if key == "iqm" and totals.interval:
                low, high = totals.interval
                note = f"   ours over seeds and games: 95 % interval {low:.1f} to {high:.1f}"
            print(f"{label:<{width}}  {values}{note}")
    counts = "".join(f"{getattr(totals, name).above_human:>{space}}" for name, space in COLUMNS.items())
    print(f"{'above human':<{width}}  {counts}")
