"""`pqn atari RUN…`."""

from __future__ import annotations

import sys
from typing import Any

from pqn.cli import options
from pqn.progress import human
from pqn.runs.metrics import to_json


def run(argv: list[str]) -> int:
    parser = options.Parser(
        "atari",
        description="Scores of Atari runs, raw and in % of a human player (0 % plays at random), beside the paper's "
        "PQN (400M frames) and Rainbow (200M frames). Runs of the same game are pooled.",
    )
    parser.add_argument("runs", type=options.path, metavar="RUN", nargs="+", help="run directories")
    parser.add_argument("--train", action="store_true", help="training returns instead of greedy evaluations")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse(argv)

    from pqn.report import atari

    entries = atari.pool(_with_games(atari, given.runs, "train" if given.train else "eval"))
    rated = [entry for entry in entries if entry.game in atari.REFERENCE]
    rows = [_row(atari, entry) for entry in entries]
    totals = _totals(atari, rated) if rated else {}
    if given.json:
        print(to_json({"games": rows, "aggregates": totals}, indent=2))
    else:
        _show(rows, totals)
    return 0


def _with_games(atari: Any, runs: list[str], which: str) -> list[Any]:
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


def _row(atari: Any, entry: Any) -> dict[str, Any]:
    row = {"game": entry.game, "seeds": len(entry.scores), "frames": entry.frames, "score": entry.mean}
    if entry.game in atari.REFERENCE:
        row["human"] = atari.human_normalised(entry.game, entry.mean)
        for method in ("pqn", "rainbow"):
            score = getattr(atari.REFERENCE[entry.game], method)
            row |= {method: score, f"{method}_human": atari.human_normalised(entry.game, score)}
    return row


def _totals(atari: Any, rated: list[Any]) -> dict[str, Any]:
    games = [entry.game for entry in rated]
    ours = atari.aggregate({entry.game: atari.human_normalised(entry.game, entry.mean) for entry in rated})
    interval = atari.iqm_interval(rated)
    return {
        "ours": ours._asdict(),
        "pqn": atari.published(games, "pqn")._asdict(),
        "rainbow": atari.published(games, "rainbow")._asdict(),
        "iqm_interval": None if interval is None else [float(interval.low), float(interval.high)],
    }


def _show(rows: list[dict[str, Any]], totals: dict[str, Any]) -> None:
    width = max(len("above human"), *(len(row["game"]) for row in rows))
    ours = f"{'':<{width}}  {'seeds':>5} {'frames':>7} {'score':>11} {'human %':>8}"
    print(f"{ours}   {'PQN (400M)':>17}   {'Rainbow (200M)':>17}")
    for row in rows:
        line = f"{row['game']:<{width}}  {row['seeds']:>5} {human(row['frames']):>7} {row['score']:>11.1f}"
        if "human" in row:
            line += f" {row['human']:>8.1f}"
            line += "".join(f"   {row[m]:>10.1f} {row[f'{m}_human']:>6.0f}" for m in ("pqn", "rainbow"))
        print(line)
    if not totals:
        return
    ours, games = totals["ours"], totals["ours"]["games"]
    print(f"\n% of human over {games} game{'s' if games > 1 else ''}")
    labels = {"median": "median", "mean": "mean", "iqm": "IQM", "atari_10": "Atari-10", "atari_5": "Atari-5"}
    for key, label in labels.items():
        if ours[key] is not None:
            values = "".join(f"{totals[method][key]:>{space}.1f}" for method, space in _COLUMNS.items())
            note = ""
            if key == "iqm" and totals["iqm_interval"]:
                low, high = totals["iqm_interval"]
                note = f"   ours over seeds and games: 95 % interval {low:.1f} to {high:.1f}"
            print(f"{label:<{width}}  {values}{note}")
    counts = "".join(f"{totals[method]['above_human']:>{space}}" for method, space in _COLUMNS.items())
    print(f"{'above human':<{width}}  {counts}")


_COLUMNS = {"ours": 34, "pqn": 20, "rainbow": 20}  # under the columns of %
