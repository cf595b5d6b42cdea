"""Overcooked: the kitchen from above."""

from __future__ import annotations

import numpy as np

from pqn.envs.adapters.overcooked import OvercookedEnv
from pqn.watch.canvas import BLUE, GREEN, INK, ORANGE, YELLOW, Canvas, Colour
from pqn.watch.view import Painter, Picture, View

SIDE = 52  # pixels of a square
EMPTY, WALL, ONION, ONIONS, PLATE, PLATES, GOAL, POT, SOUP, COOK = range(1, 11)  # jaxmarl's numbers
POT_EMPTY, POT_FULL = 23, 20  # a pot's clock: 23 without onions, 20 with three, then down to 0, when the soup is ready
FLOOR, COUNTER, CHINA = "#F1E9DA", "#B99B74", "#FDFDFD"


def painter(env: OvercookedEnv) -> Painter:
    return Painter(lambda view: _paint(env, view), fps=6)


def _paint(env: OvercookedEnv, view: View) -> Picture:
    kitchen = view.state.kitchen
    height, width = env.env.height, env.env.width
    border = (len(kitchen.maze_map) - height) // 2  # jaxmarl pads its map
    squares = np.asarray(kitchen.maze_map)[border : border + height, border : border + width]
    canvas = Canvas(width * SIDE, height * SIDE, FLOOR)
    for y in range(height):
        for x in range(width):
            kind = int(squares[y, x, 0])
            if kind not in (EMPTY, COOK):
                canvas.rectangle(x * SIDE + 1, y * SIDE + 1, (x + 1) * SIDE - 1, (y + 1) * SIDE - 1, COUNTER)
                _thing(canvas, (x + 0.5, y + 0.5), kind, int(squares[y, x, 2]))
    for number in range(env.spec.num_agents):
        position, facing = kitchen.agent_pos[number], kitchen.agent_dir[number]
        centre = (float(position[0]) + 0.5, float(position[1]) + 0.5)
        colour = (BLUE, ORANGE)[number % 2]
        canvas.circle(_pixels(centre), 0.36 * SIDE, colour)
        nose = (centre[0] + 0.3 * float(facing[0]), centre[1] + 0.3 * float(facing[1]))
        canvas.circle(_pixels(nose), 0.09 * SIDE, CHINA, INK)
        _thing(canvas, centre, int(kitchen.agent_inv[number]), POT_EMPTY)
    return canvas.picture()


def _thing(canvas: Canvas, centre: tuple[float, float], kind: int, clock: int) -> None:
    """What lies on a square, or in a cook's hands."""
    x, y = _pixels(centre)
    if kind == GOAL:
        canvas.rectangle(x - 0.4 * SIDE, y - 0.4 * SIDE, x + 0.4 * SIDE, y + 0.4 * SIDE, GREEN)
        canvas.text((x, y), "out", "#FFFFFF", 13, "mm")
    elif kind == POT:
        _pot(canvas, x, y, clock)
    elif kind in (ONION, ONIONS):
        spots = [(0.0, 0.0)] if kind == ONION else [(-0.16, 0.1), (0.16, 0.1), (0.0, -0.14)]
        for dx, dy in spots:
            canvas.circle((x + dx * SIDE, y + dy * SIDE), 0.15 * SIDE, YELLOW, INK)
    elif kind in (PLATE, PLATES, SOUP):
        for offset in (0, -4, -8) if kind == PLATES else (0,):
            canvas.circle((x, y + offset), 0.22 * SIDE, CHINA, INK)
        if kind == SOUP:
            canvas.circle((x, y), 0.13 * SIDE, YELLOW)


def _pot(canvas: Canvas, x: float, y: float, clock: int) -> None:
    """A pot with its onions; an arc grows while the soup cooks and closes when it is ready."""
    canvas.circle((x, y), 0.38 * SIDE, "#4A4A4A")
    onions = min(3, POT_EMPTY - clock)
    for number in range(onions):
        canvas.circle((x + (number - (onions - 1) / 2) * 0.2 * SIDE, y), 0.1 * SIDE, YELLOW)
    if clock < POT_FULL:
        ready: Colour = GREEN if clock == 0 else ORANGE
        canvas.arc((x, y), 0.42 * SIDE, 1 - clock / POT_FULL, ready, 4)


def _pixels(place: tuple[float, float]) -> tuple[float, float]:
    return place[0] * SIDE, place[1] * SIDE
