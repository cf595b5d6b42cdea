"""Atari scores: human-normalised, aggregated over games, next to those of the paper.

    human-normalised score = 100 · (score − random) / (human − random)  %

With these tables the paper's own per-game scores give, as median, mean, games above human and Atari-10 estimate, 231,
1462, 43 and 239 for Rainbow, where the paper prints 230, 1461, 43 and 239; and 245, 1444, 40 and 248 for PQN, where it
prints 245, 1440, 40 and 243 (tests/report/test_atari_report.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from pqn.envs.catalog import ATARI_10, ATARI_57
from pqn.errors import RunError
from pqn.report.statistics import Interval, bootstrap_interval, iqm
from pqn.runs.directory import RunDir
from pqn.runs.metrics import curve, read_metrics
from pqn.runs.opened import open_run

Scores = TypeVar("Scores", float, np.ndarray)
Which = Literal["eval", "train"]


class NoGames(RunError):
    """A run that has not finished a game yet."""


class Reference(NamedTuple):
    """Published scores of a game."""

    random: float
    human: float
    rainbow: float
    pqn: float


# Random play and a human tester, both from starts of up to 30 no-ops: the table of Wang et al. (2016), as in Rainbow
# and DQN Zoo. The Nature paper of DQN has another human (Pong 9.3, Breakout 31.8). Some public copies have a random
# score of 0 for Video Pinball, which alone moves PQN's mean from 1444 to 904.
# Rainbow (200M frames, its own paper) and PQN (400M frames): the last table of the PQN paper.
REFERENCE: dict[str, Reference] = {
    "alien": Reference(227.8, 7127.7, 9491.7, 6970.42),
    "amidar": Reference(5.8, 1719.5, 5131.2, 1408.15),
    "assault": Reference(222.4, 742.0, 14198.5, 20089.42),
    "asterix": Reference(210.0, 8503.3, 428200.3, 38708.98),
    "asteroids": Reference(719.1, 47388.7, 2712.8, 45573.75),
    "atlantis": Reference(12850.0, 29028.1, 826659.5, 845520.83),
    "bank_heist": Reference(14.2, 753.1, 1358.0, 1431.25),
    "battle_zone": Reference(2360.0, 37187.5, 62010.0, 54791.67),
    "beam_rider": Reference(363.9, 16926.5, 16850.2, 23338.83),
    "berzerk": Reference(123.7, 2630.4, 2545.6, 18542.2),
    "bowling": Reference(23.1, 160.7, 30.0, 28.71),
    "boxing": Reference(0.1, 12.1, 99.6, 99.63),
    "breakout": Reference(1.7, 30.5, 417.5, 515.08),
    "centipede": Reference(2090.9, 12017.0, 8167.3, 11347.98),
    "chopper_command": Reference(811.0, 7387.8, 16654.0, 129962.5),
    "crazy_climber": Reference(10780.5, 35829.4, 168788.5, 171579.17),
    "defender": Reference(2874.5, 18688.9, 55105.0, 140741.67),
    "demon_attack": Reference(152.1, 1971.0, 111185.2, 133075.21),
    "double_dunk": Reference(-18.6, -16.4, -0.3, -0.92),
    "enduro": Reference(0.0, 860.5, 2125.9, 2349.17),
    "fishing_derby": Reference(-91.7, -38.7, 31.3, 46.17),
    "freeway": Reference(0.0, 29.6, 34.0, 33.75),
    "frostbite": Reference(65.2, 4334.7, 9590.5, 7313.54),
    "gopher": Reference(257.6, 2412.5, 70354.6, 60259.17),
    "gravitar": Reference(173.0, 3351.4, 1419.3, 1158.33),
    "hero": Reference(1027.0, 30826.4, 55887.4, 26099.17),
    "ice_hockey": Reference(-11.2, 0.9, 1.1, 0.17),
    "jamesbond": Reference(29.0, 302.8, 20000.0, 3254.17),
    "kangaroo": Reference(52.0, 3035.0, 14637.5, 14116.67),
    "krull": Reference(1598.0, 2665.5, 8741.5, 10853.33),
    "kung_fu_master": Reference(258.5, 22736.3, 52181.0, 41033.33),
    "montezuma_revenge": Reference(0.0, 4753.3, 384.0, 0.0),
    "ms_pacman": Reference(307.3, 6951.6, 5380.4, 5567.5),
    "name_this_game": Reference(2292.3, 8049.0, 13136.0, 20603.33),
    "phoenix": Reference(761.4, 7242.6, 108528.6, 252173.33),
    "pitfall": Reference(-229.4, 6463.7, 0.0, -89.21),
    "pong": Reference(-20.7, 14.6, 20.9, 20.92),
    "private_eye": Reference(24.9, 69571.3, 4234.0, 100.0),
    "qbert": Reference(163.9, 13455.0, 33817.5, 31716.67),
    "riverraid": Reference(1338.5, 17118.0, 20000.0, 28764.27),
    "road_runner": Reference(11.5, 7845.0, 62041.0, 109742.71),
    "robotank": Reference(2.2, 11.9, 61.4, 73.96),
    "seaquest": Reference(68.4, 42054.7, 15898.9, 11345.0),
    "skiing": Reference(-17098.1, -4336.9, -12957.8, -29975.31),
    "solaris": Reference(1236.3, 12326.7, 3560.3, 2607.5),
    "space_invaders": Reference(148.0, 1668.7, 18789.0, 18450.83),
    "star_gunner": Reference(664.0, 10250.0, 127029.0, 331300.0),
    "surround": Reference(-10.0, 6.5, 9.7, 5.88),
    "tennis": Reference(-23.8, -8.3, 0.0, -1.04),
    "time_pilot": Reference(3568.0, 5229.2, 12926.0, 21950.0),
    "tutankham": Reference(11.4, 167.6, 241.0, 264.71),
    "up_n_down": Reference(533.4, 11693.2, 100000.0, 308327.92),
    "venture": Reference(0.0, 1187.5, 5.5, 76.04),
    "video_pinball": Reference(16256.9, 17667.9, 533936.5, 489716.33),
    "wizard_of_wor": Reference(563.5, 4756.5, 17862.5, 30192.71),
    "yars_revenge": Reference(3092.9, 54576.9, 102557.0, 129463.79),
    "zaxxon": Reference(32.5, 9173.3, 22209.5, 23537.5),
}

# Aitchison et al. (2022) regress the log of the median over 57 games on the logs of a few; coefficients as in the first
# author's code, in the order of ATARI_10, and of its last five games for Atari-5.
ATARI_10_WEIGHTS = (
    0.08246357439570691,
    0.0559032813915904,
    0.06912572845204429,
    0.09861731598935165,
    0.048594292965417056,
    0.18882008828001498,
    0.08519154019954558,
    0.12869695652405946,
    0.16432707026384483,
    0.05922863791062832,
)
ATARI_5_WEIGHTS = (
    0.3819751237831753,
    0.0679099488887574,
    0.310804148620847,
    0.12412619402774641,
    0.08048518286466755,
)


class Aggregates(NamedTuple):
    """Human-normalised scores over games, in %."""

    games: int
    median: float
    mean: float
    iqm: float
    above_human: int
    atari_10: float | None  # estimates of the median over 57 games; None unless all their games are there
    atari_5: float | None


class GameScore(NamedTuple):
    """What runs of one game reached."""

    game: str
    scores: np.ndarray  # [R], one for each seed of each run
    frames: int  # of the longest run

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


def human_normalised(game: str, score: Scores) -> Scores:
    """100 · (score − random) / (human − random).

    Raises:
      RunError: no human score is known for the game.
    """
    if game not in REFERENCE:
        raise RunError(f"there is no human score for {game}; the {len(REFERENCE)} games of Atari-57 have one")
    reference = REFERENCE[game]
    return 100.0 * (score - reference.random) / (reference.human - reference.random)


def aggregate(normalised: Mapping[str, float]) -> Aggregates:
    """Aggregates of one human-normalised score for each game."""
    values = np.array(list(normalised.values()), float)
    return Aggregates(
        len(values),
        float(np.median(values)),
        float(values.mean()),
        float(iqm(values)),
        int(np.sum(values > 100.0)),
        _estimate(normalised, ATARI_10, ATARI_10_WEIGHTS),
        _estimate(normalised, ATARI_10[5:], ATARI_5_WEIGHTS),
    )


def iqm_interval(scores: list[GameScore]) -> Interval | None:
    """95 % bootstrap interval, stratified by game, of the interquartile mean over all runs; None for single runs."""
    most = max(len(entry.scores) for entry in scores)
    if most < 2:
        return None
    matrix = np.full((most, len(scores)), np.nan)  # fewer seeds of some game are missing scores
    for column, entry in enumerate(scores):
        matrix[: len(entry.scores), column] = human_normalised(entry.game, entry.scores)
    return bootstrap_interval(matrix)


def published(games: list[str], method: str) -> Aggregates:
    """Aggregates of the paper's "pqn" or "rainbow" over some games."""
    return aggregate({game: human_normalised(game, getattr(REFERENCE[game], method)) for game in games})


def read_run(path: str | os.PathLike[str], which: Which = "eval") -> GameScore:
    """The score of a run: its last greedy evaluation ("eval"), or the last hundredth of its training ("train").

    Raises:
      NoGames: nothing was recorded yet.
      RunError: not a run directory, or not of Atari.
    """
    opened = open_run(path)
    directory, skip = opened.directory, opened.config.env.kwargs.get("frame_skip", 4)
    game = atari_game(directory)
    if not isinstance(skip, int):
        raise RunError(f"{path} is damaged: its frame_skip is {skip!r:.30}")
    steps, values = curve(read_metrics(directory.metrics), which, points=100)
    known = ~np.isnan(values).all(axis=1) if len(steps) else np.zeros(0, bool)
    if not known.any():
        raise NoGames(f"{path} has no finished games under '{which}' yet")
    row = np.flatnonzero(known)[-1]
    return GameScore(game, values[row][~np.isnan(values[row])], int(steps[row]) * int(skip))


def atari_game(run: RunDir) -> str:
    """The game that a run plays.

    Raises:
      RunError: it plays no Atari game.
    """
    env = open_run(run).config.env.name
    family, _, game = env.partition(":")
    if family != "atari":
        raise RunError(f"{run.path} is not a run of an Atari game; its environment is {env}")
    return game


def pool(runs: list[GameScore]) -> list[GameScore]:
    """One entry for each game, in the order of Atari-57, with the seeds of all its runs."""
    order = {game: place for place, game in enumerate(ATARI_57)}
    games = sorted({run.game for run in runs}, key=lambda game: (order.get(game, len(order)), game))
    groups = [[run for run in runs if run.game == game] for game in games]
    return [
        GameScore(group[0].game, np.concatenate([run.scores for run in group]), max(run.frames for run in group))
        for group in groups
    ]


def _estimate(normalised: Mapping[str, float], games: tuple[str, ...], weights: tuple[float, ...]) -> float | None:
    """10^(Σ wᵢ log₁₀(1 + hᵢ)) − 1 with scores below random counted as random."""
    if any(game not in normalised for game in games):
        return None
    logs = np.log10(1.0 + np.maximum([normalised[game] for game in games], 0.0))
    return float(10.0 ** np.dot(weights, logs) - 1.0)
