"""The agent's opinion as a picture: a bar for each action, of every agent."""

from __future__ import annotations

import numpy as np

from pqn.watch.canvas import BLUE, FAINT, GREY, INK, ORANGE, PAPER, Canvas
from pqn.watch.view import Picture

WIDTH = 200
MOST_LABELS = 12  # more bars than these get no number below


def bars(scores: np.ndarray, avail: np.ndarray | None, action: np.ndarray, title: str, height: int) -> Picture:
    """[M, A] scores as M strips of A bars: the chosen action orange, others blue, illegal ones an empty place.

    The longest bar is the best legal action's, and the shortest the worst's: their values stand beside the strip.
    """
    agents, actions = scores.shape
    canvas, top = Canvas(WIDTH, height, PAPER), 22
    canvas.text((8, 5), title, INK, 12)
    room = (height - top - 4) / agents
    for agent in range(agents):
        legal = np.ones(actions, bool) if avail is None else avail[agent].astype(bool)
        begin, end = top + agent * room, top + (agent + 1) * room
        labels = actions <= MOST_LABELS and room >= 60
        _strip(canvas, scores[agent], legal, int(action[agent]), begin + 4, end - (18 if labels else 4), labels)
        if agents > 1:
            canvas.text((6, begin + 4), str(agent), GREY, 11)
    return canvas.picture()


def _strip(
    canvas: Canvas, scores: np.ndarray, legal: np.ndarray, chosen: int, top: float, bottom: float, labels: bool
) -> None:
    left, right = 18, WIDTH - 48
    canvas.line([(left, bottom), (right, bottom)], FAINT, 1)
    if not legal.any():  # dead, or not at turn
        canvas.text(((left + right) / 2, (top + bottom) / 2), "none", GREY, 11, "mm")
        return
    low, high = float(scores[legal].min()), float(scores[legal].max())
    step = (right - left) / len(scores)
    for place, value in enumerate(scores):
        x = left + place * step
        if legal[place]:
            share = 0.08 + 0.92 * (float(value) - low) / (high - low) if high > low else 1.0
            colour = ORANGE if place == chosen else BLUE
            canvas.rectangle(x + 0.1 * step, bottom - share * (bottom - top), x + 0.9 * step, bottom, colour)
        if labels:
            canvas.text((x + step / 2, bottom + 8), str(place), INK if legal[place] else FAINT, 10, "mm")
    canvas.text((right + 4, top), f"{high:.3g}", INK, 10, "lm")
    if high > low and bottom - top > 24:
        canvas.text((right + 4, bottom), f"{low:.3g}", GREY, 10, "lm")
