"""Particle worlds: agents as discs, landmarks as rings."""

from __future__ import annotations

import numpy as np

from pqn.envs.adapters.mpe import MpeEnv
from pqn.watch.canvas import COLOURS, FAINT, INK, Canvas
from pqn.watch.view import Painter, Picture, View

SIZE, REACH = 300, 1.6  # of the picture in pixels; of the world it shows, from its middle
EDGE = 0.92


def painter(env: MpeEnv) -> Painter:
    return Painter(lambda view: _paint(env, view), fps=8)


def _paint(env: MpeEnv, view: View) -> Picture:
    canvas, state = Canvas(SIZE, SIZE), view.state
    radii = np.asarray(env.env.rad)

    def place(position: np.ndarray) -> tuple[float, float]:
        x, y = np.clip(position / REACH, -EDGE, EDGE)  # who has run away is seen at the border
        return float((x + 1) * SIZE / 2), float((1 - y) * SIZE / 2)

    wanted = None if state.goal is None else int(state.goal)
    for number, position in enumerate(state.p_pos[env.spec.num_agents :]):
        target = number == wanted
        radius = max(6.0, float(radii[env.spec.num_agents + number]) * SIZE / 2 / REACH)
        canvas.circle(place(position), radius + 4, FAINT if not target else "#BFE3D5", INK)
    for number, position in enumerate(state.p_pos[: env.spec.num_agents]):
        radius = max(6.0, float(radii[number]) * SIZE / 2 / REACH)
        canvas.circle(place(position), radius, COLOURS[number % len(COLOURS)])
        canvas.text(place(position), str(number), "#FFFFFF", 11, "mm")
    return canvas.picture()
