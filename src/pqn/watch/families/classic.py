"""Classic control: the cart and its pole, the acrobot, the car in the valley, drawn from gymnax's states."""

from __future__ import annotations

import math

import numpy as np

from pqn.envs.adapters.gymnax import GymnaxEnv
from pqn.watch.canvas import BLUE, FAINT, GREEN, INK, ORANGE, YELLOW, Canvas
from pqn.watch.view import Painter, Picture, View

WIDTH, HEIGHT = 400, 260


def painter(env: GymnaxEnv) -> Painter | None:
    """The painter of a classic task; None for other tasks."""
    paint = {"CartPole-v1": _cart_pole, "Acrobot-v1": _acrobot, "MountainCar-v0": _mountain_car}.get(env.spec.name)
    return None if paint is None else Painter(lambda view: paint(env, view), fps=30)


def _cart_pole(env: GymnaxEnv, view: View) -> Picture:
    """The track is as wide as the cart may go; the pole is twice `length` long."""
    state, limit = view.state, float(env.params.x_threshold)
    canvas, ground = Canvas(WIDTH, HEIGHT), 200
    scale = (WIDTH - 60) / (2 * limit)
    x = WIDTH / 2 + scale * float(state.x)
    canvas.line([(30, ground + 15), (WIDTH - 30, ground + 15)], INK, 1.5)
    for edge in (30, WIDTH - 30):
        canvas.line([(edge, ground + 5), (edge, ground + 25)], ORANGE, 2)
    canvas.rectangle(x - 32, ground - 15, x + 32, ground + 11, INK)
    for wheel in (x - 18, x + 18):
        canvas.circle((wheel, ground + 11), 5, FAINT, INK)
    angle, length = float(state.theta), 130.0
    tip = (x + length * math.sin(angle), ground - 15 - length * math.cos(angle))
    canvas.line([(x, ground - 15), tip], YELLOW, 10)
    canvas.circle(tip, 5, YELLOW)
    canvas.circle((x, ground - 15), 5, BLUE)
    return canvas.picture()


def _acrobot(env: GymnaxEnv, view: View) -> Picture:
    """Angles are measured from hanging down; the tip must rise above the line, one link above the fixed point."""
    canvas, middle, link = Canvas(WIDTH, HEIGHT), (WIDTH / 2, HEIGHT / 2), 56.0
    canvas.line([(20, middle[1] - link), (WIDTH - 20, middle[1] - link)], GREEN, 1.5)
    first = float(view.state.joint_angle1)
    second = first + float(view.state.joint_angle2)
    elbow = (middle[0] + link * math.sin(first), middle[1] + link * math.cos(first))
    tip = (elbow[0] + link * math.sin(second), elbow[1] + link * math.cos(second))
    canvas.line([middle, elbow], BLUE, 11)
    canvas.line([elbow, tip], ORANGE, 11)
    for joint in (middle, elbow):
        canvas.circle(joint, 8, FAINT, INK)
    canvas.circle(tip, 5.5, ORANGE)
    return canvas.picture()


def _mountain_car(env: GymnaxEnv, view: View) -> Picture:
    """The valley sin 3x, the car on it, and the flag at the goal."""
    low, high = float(env.params.min_position), float(env.params.max_position)
    canvas, scale = Canvas(WIDTH, HEIGHT), WIDTH / (high - low)

    def place(x: float, above: float = 0.0) -> tuple[float, float]:
        return (x - low) * scale, HEIGHT - 40 - 75 * (math.sin(3 * x) + 1) - above

    hill = [place(float(x)) for x in np.linspace(low, high, 120)]
    canvas.polygon([(0, HEIGHT), *hill, (WIDTH, HEIGHT)], FAINT)
    canvas.line(hill, INK, 1.5)
    goal = float(env.params.goal_position)
    foot, top = place(goal), place(goal, 42)
    canvas.line([foot, top], INK, 2)
    canvas.polygon([top, (top[0] + 24, top[1] + 8), (top[0], top[1] + 16)], GREEN)
    x = float(view.state.position)
    slope = math.atan2(75 * 3 * math.cos(3 * x), scale)  # of the hill, in pixels
    along, up = (math.cos(slope), -math.sin(slope)), (-math.sin(slope), -math.cos(slope))
    bottom = place(x)

    def on_car(forward: float, height: float) -> tuple[float, float]:
        return (
            bottom[0] + forward * along[0] + height * up[0],
            bottom[1] + forward * along[1] + height * up[1],
        )

    canvas.polygon([on_car(-18, 5), on_car(18, 5), on_car(13, 20), on_car(-13, 20)], BLUE)
    for wheel in (-11, 11):
        canvas.circle(on_car(wheel, 5), 5, INK)
    return canvas.picture()
