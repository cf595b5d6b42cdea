"""SMAX: units as discs of their own size, with an arc that shows their health."""

from __future__ import annotations

import numpy as np

from pqn.envs.adapters.smax import SmaxEnv
from pqn.watch.canvas import BLUE, FAINT, GREEN, INK, ORANGE, Canvas
from pqn.watch.view import Painter, Picture, View

SIZE = 340
LETTERS = "mMszZh"  # marine, marauder, stalker, zealot, zergling, hydralisk: jaxmarl's order


def painter(env: SmaxEnv) -> Painter:
    return Painter(lambda view: _paint(env, view), fps=8)


def _paint(env: SmaxEnv, view: View) -> Picture:
    units, game = view.state.state, env.env
    canvas, scale = Canvas(SIZE, SIZE, "#F4F2EC"), SIZE / float(game.map_width)
    full = np.asarray(game.unit_type_health)
    radii = np.asarray(game.unit_type_radiuses)
    order = np.argsort(np.asarray(units.unit_alive), kind="stable")  # the dead lie below the living
    for number in order:
        x, y = (float(value) * scale for value in units.unit_positions[number])
        centre, kind = (x, SIZE - y), int(units.unit_types[number])
        radius = max(7.0, 1.6 * scale * float(radii[kind]))
        if not units.unit_alive[number]:
            canvas.circle(centre, radius / 2, FAINT)
            continue
        ours = number < game.num_allies
        canvas.circle(centre, radius, BLUE if ours else ORANGE)
        share = float(np.clip(units.unit_health[number] / full[kind], 0, 1))
        canvas.arc(centre, radius + 3.5, share, GREEN if share > 0.35 else INK, 2.5)
        canvas.text(centre, LETTERS[kind], "#FFFFFF", 11, "mm")
    alive = np.asarray(units.unit_alive)
    ours, theirs = int(alive[: game.num_allies].sum()), int(alive[game.num_allies :].sum())
    canvas.text((8, 6), f"{ours} of ours", BLUE, 12)
    canvas.text((SIZE - 8, 6), f"{theirs} of theirs", ORANGE, 12, "ra")
    return canvas.picture()
