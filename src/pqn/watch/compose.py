"""From moments to frames: a grid of episodes, each with a caption, those that have ended standing still."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pqn.watch.bars import bars
from pqn.watch.canvas import INK, PAPER, Canvas
from pqn.watch.episodes import Moment
from pqn.watch.view import Painter, Picture

CAPTION = 22  # pixels
GAP = 6
HOLD_SECONDS = 1.0  # how long the last frame stays
FADED = 0.55  # how much of an episode that has ended is left


def frames(
    moments: Iterator[Moment], painter: Painter, grid: tuple[int, int], fps: int, scores_title: str | None
) -> Iterator[Picture]:
    """The frames of a film.

    Args:
      moments: the steps of rows × columns episodes.
      painter: of the environments.
      grid: rows and columns.
      fps: frames a second.
      scores_title: draws what the actions are ranked by beside each picture, under this title; None does not.
    """
    cells: list[Picture] = [np.zeros((1, 1, 3), np.uint8)] * (grid[0] * grid[1])
    last = None
    for t, moment in enumerate(moments):
        for place in np.flatnonzero(moment.playing):
            cells[place] = _cell(moment, int(place), painter, t, scores_title, len(cells))
        yield joined(cells, grid)
        for place in np.flatnonzero(moment.playing & np.asarray(moment.result.finished)):
            cells[place] = _ended(moment, int(place), painter, t, scores_title, cells[place])
        last = joined(cells, grid)
    if last is not None:
        yield from [last] * max(1, round(HOLD_SECONDS * fps))


def _cell(moment: Moment, place: int, painter: Painter, t: int, title: str | None, count: int) -> Picture:
    picture = _painted(painter, moment, place, over=False)
    if title is not None:
        avail = None if moment.avail is None else moment.avail[place]
        opinion = bars(moment.scores[place], avail, moment.action[place], title, len(picture))
        picture = np.concatenate([picture, opinion], axis=1)
    name = f"episode {place + 1}   " if count > 1 else ""
    return _captioned(picture, f"{name}step {t + 1}   return {moment.result.ret[place]:.4g}")


def _ended(moment: Moment, place: int, painter: Painter, t: int, title: str | None, before: Picture) -> Picture:
    """An episode that is over: its end where that can be shown, faded, with its return."""
    picture = before[CAPTION:]
    if moment.after is not None:
        end = _painted(painter, moment, place, over=True)
        picture = np.concatenate([end, picture[:, end.shape[1] :]], axis=1)
    faded = (255 - FADED * (255 - picture.astype(np.float32))).astype(np.uint8)
    return _captioned(faded, f"ended after {t + 1} steps: return {moment.result.ret[place]:.4g}")


def _painted(painter: Painter, moment: Moment, place: int, over: bool) -> Picture:
    view = moment.after[place] if over and moment.after is not None else moment.views[place]
    return np.asarray(painter.paint(view))


def _captioned(picture: Picture, words: str) -> Picture:
    canvas = Canvas(picture.shape[1], CAPTION, PAPER)
    canvas.text((8, CAPTION / 2), words, INK, 12, "lm")
    return np.concatenate([canvas.picture(), picture])


def joined(cells: list[Picture], grid: tuple[int, int]) -> Picture:
    """Cells of one size, row by row, with gaps; height and width are even, as films want them."""
    rows, columns = grid
    height, width = cells[0].shape[:2]
    shape = (rows * height + (rows - 1) * GAP, columns * width + (columns - 1) * GAP)
    frame = np.full((shape[0] + shape[0] % 2, shape[1] + shape[1] % 2, 3), 255, np.uint8)
    for place, cell in enumerate(cells):
        top, left = (place // columns) * (height + GAP), (place % columns) * (width + GAP)
        frame[top : top + height, left : left + width] = cell[:height, :width]
    return frame


def texts(moments: Iterator[Moment], painter: Painter) -> str:
    """The same as text: one episode after the other, step by step, each with its end."""
    games: dict[int, list[str]] = {}
    for t, moment in enumerate(moments):
        for place in np.flatnonzero(moment.playing):
            name = f"episode {place + 1}, step {t + 1}" if len(moment.views) > 1 else f"step {t + 1}"
            game = games.setdefault(int(place), [])
            game.append(f"--- {name}\n{painter.paint(moment.views[place])}\n")
            if moment.result.finished[place]:
                end = "" if moment.after is None else f"{painter.paint(moment.after[place])}\n"
                game.append(f"{end}=== ended: return {moment.result.ret[place]:.4g}\n")
    return "\n".join(part for place in sorted(games) for part in games[place])
