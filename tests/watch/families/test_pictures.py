"""Pictures show the state: what is in another place is drawn in another place."""

from __future__ import annotations

import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from pqn.envs import registry
from pqn.errors import EnvError
from pqn.types import EnvSpec
from pqn.watch.canvas import BLUE, GREEN, ORANGE, YELLOW, rgb
from pqn.watch.families import grids, hanabi, overcooked, smax
from pqn.watch.painters import find_painter
from pqn.watch.view import Picture, View


def where(picture: Picture, colour: str) -> np.ndarray:
    """The mean place (y, x) of the pixels of a colour."""
    near = np.abs(picture.astype(int) - rgb(colour)).sum(axis=-1) < 60
    assert near.sum() > 20, "nothing has this colour"
    return np.argwhere(near).mean(axis=0)


def paint(name: str, **state: float) -> Picture:
    env = registry.make(name, 1)
    return np.asarray(find_painter(env).paint(View(SimpleNamespace(**state), np.zeros((1, 4)))))


def test_cart_pole():
    left, right = (paint("CartPole-v1", x=x, theta=0.0) for x in (-1.2, 1.2))
    assert left.shape == (260, 400, 3) and left.dtype == np.uint8
    assert where(right, BLUE)[1] - where(left, BLUE)[1] == pytest.approx(2.4 * (400 - 60) / 4.8, abs=2)
    leaning = paint("CartPole-v1", x=0.0, theta=0.2)
    assert where(leaning, YELLOW)[1] > where(leaning, BLUE)[1] + 5  # a positive angle leans to the right


def test_acrobot():
    hanging = paint("Acrobot-v1", joint_angle1=0.0, joint_angle2=0.0)
    up = paint("Acrobot-v1", joint_angle1=np.pi, joint_angle2=0.0)
    goal = where(hanging, GREEN)[0]
    assert where(hanging, ORANGE)[0] > where(hanging, BLUE)[0] > goal
    assert where(up, ORANGE)[0] < goal < where(up, BLUE)[0]  # the tip is above the line
    folded = paint("Acrobot-v1", joint_angle1=0.0, joint_angle2=np.pi / 2)
    assert where(folded, ORANGE)[1] > where(hanging, ORANGE)[1] + 20


def test_mountain_car():
    low, high = (paint("MountainCar-v0", position=x, velocity=0.0) for x in (-0.52, 0.4))
    assert where(high, BLUE)[1] > where(low, BLUE)[1] + 150 and where(high, BLUE)[0] < where(low, BLUE)[0] - 80
    assert where(low, GREEN)[1] > 350  # the flag


def test_channels_are_colours():
    grid = np.zeros((10, 10, 4), bool)
    grid[2, 3, 0] = grid[7, 8, 1] = grid[7, 8, 0] = True
    painter = grids.painter(EnvSpec("game", (10, 10, 4), np.dtype(bool), 3))
    assert painter is not None
    picture = np.asarray(painter.paint(View(None, grid[None])))
    side = picture.shape[0] // 10
    assert picture.shape == (240, 240, 3)
    assert where(picture, BLUE) // side == pytest.approx([2, 3])
    assert where(picture, ORANGE) // side == pytest.approx([7, 8])  # the later channel is seen


def test_screens_show_the_newest_frame():
    frames = np.zeros((4, 84, 84), np.uint8)
    frames[3, 10] = 200
    painter = grids.painter(EnvSpec("game", (4, 84, 84), np.dtype(np.uint8), 3))
    assert painter is not None
    assert np.asarray(painter.paint(View(None, frames[None]))).max() == 200
    frames[:3], frames[3] = frames[3], 0
    assert np.asarray(painter.paint(View(None, frames[None]))).max() == 0
    colours = grids.painter(EnvSpec("game", (63, 63, 3), np.dtype(np.float32), 3))
    assert colours is not None
    orange = np.tile(np.array(rgb(ORANGE)) / 255, (63, 63, 1)).astype(np.float32)
    assert where(np.asarray(colours.paint(View(None, orange[None]))), ORANGE) == pytest.approx([126, 126], abs=1)


@pytest.mark.parametrize("name", ["FourRooms-misc", "probe:two-step"])
def test_no_pictures(name):
    with pytest.raises(EnvError, match=f"{name} has no pictures: give it a method `render`"):
        find_painter(registry.make(name, 1))


def test_the_health_of_units():
    units = SimpleNamespace(
        unit_positions=np.array([[8.0, 16.0], [24.0, 16.0], [24.0, 4.0]]),
        unit_alive=np.array([True, True, False]),
        unit_types=np.array([0, 2, 2]),
        unit_health=np.array([45.0, 80.0, 0.0]),
    )
    game = SimpleNamespace(
        map_width=32,
        num_allies=1,
        unit_type_health=np.array([45.0, 125.0, 160.0]),
        unit_type_radiuses=np.array([0.4, 0.5, 0.6]),
    )
    painter = smax.painter(SimpleNamespace(env=game))  # pyright: ignore[reportArgumentType]
    whole = np.asarray(painter.paint(View(SimpleNamespace(state=units), np.zeros(1))))
    assert where(whole[40:], BLUE)[1] == pytest.approx(85, abs=2)
    assert where(whole[40:], ORANGE)[1] == pytest.approx(255, abs=2)
    units.unit_health = np.array([45.0, 160.0, 0.0])
    healthy = np.asarray(painter.paint(View(SimpleNamespace(state=units), np.zeros(1))))
    green = [
        (np.abs(picture.astype(int) - rgb(GREEN)).sum(axis=-1) < 60)[:, 170:].sum() for picture in (whole, healthy)
    ]
    assert green[1] == pytest.approx(2 * green[0], rel=0.3)


def played(name: str, steps: int, **options: object) -> tuple[object, list[View]]:
    """The first environment after a reset and after some random steps."""
    env = registry.make(name, 1, **options)

    @jax.jit
    def play(key):
        state, first = env.reset(key)
        masked = first.avail is not None

        def step(carry, key):
            state, avail = carry
            draw = jax.random.uniform(key, (1, env.spec.num_agents, env.spec.num_actions))
            action = jax.numpy.argmax(draw * (avail if masked else 1), axis=-1)
            after, timestep = env.step(state, action)
            return (after, timestep.avail), (state.inner, timestep.obs, action)

        return jax.lax.scan(step, (state, first.avail), jax.random.split(key, steps))[1]

    states, obs, actions = jax.device_get(play(jax.random.key(0)))
    views = [View(jax.tree.map(lambda x, t=t: x[t, 0], states), obs[t, 0], actions[t, 0]) for t in range(steps)]
    return env, views


def test_a_kitchen():
    maze = np.full((2 + 8, 3 + 8, 3), 1)  # jaxmarl pads its map by four on each side
    maze[4, 4] = (8, 0, 10)  # a pot, half cooked
    maze[4, 5, 0], maze[4, 6, 0] = 7, 4  # out, onions
    kitchen = SimpleNamespace(
        maze_map=maze,
        agent_pos=np.array([[2, 1], [0, 1]]),
        agent_dir=np.array([[0, -1], [0, -1]]),
        agent_inv=np.array([1, 5]),  # nothing, a plate
    )
    env = SimpleNamespace(env=SimpleNamespace(height=2, width=3), spec=SimpleNamespace(num_agents=2))
    paint = overcooked.painter(env).paint  # pyright: ignore[reportArgumentType]
    picture = np.asarray(paint(View(SimpleNamespace(kitchen=kitchen), np.zeros(1))))
    assert picture.shape == (2 * 52, 3 * 52, 3)
    assert where(picture, BLUE) == pytest.approx([1.5 * 52, 2.5 * 52], abs=4)
    assert where(picture[:52], GREEN) == pytest.approx([26, 1.5 * 52], abs=4)
    assert where(picture[:52, 104:], YELLOW) == pytest.approx([26, 26], abs=5)
    assert where(picture[:52, :52], ORANGE)[1] > 30  # half of the clock, which runs from the top to the right
    assert picture[78, 26].tolist() == [0xFD] * 3  # the second cook holds a plate


@pytest.mark.slow
def test_overcooked():
    env, views = played("overcooked:cramped_room", 4)
    pictures = [np.asarray(find_painter(env).paint(view)) for view in views]
    assert pictures[0].shape == (4 * 52, 5 * 52, 3)
    for view, picture in zip(views, pictures, strict=True):
        x, y = view.state.kitchen.agent_pos[0]
        assert where(picture, BLUE) == pytest.approx([(y + 0.5) * 52, (x + 0.5) * 52], abs=6)
    pot = np.argwhere(np.asarray(views[0].state.kitchen.maze_map)[..., 0] == 8)[0] - 4
    assert pictures[0][pot[0] * 52 + 26, pot[1] * 52 + 26].tolist() == [0x4A] * 3


@pytest.mark.slow
def test_particles():
    env, views = played("mpe:simple_spread", 3)
    picture = np.asarray(find_painter(env).paint(views[0]))
    x, y = views[0].state.p_pos[0] / 1.6
    assert where(picture, BLUE) == pytest.approx([(1 - y) * 150, (1 + x) * 150], abs=4)


@pytest.mark.slow
def test_hanabi():
    """The moves are those of jaxmarl's own list, in our words."""
    env, views = played("hanabi:3", 6)
    words = {"D": "discards card {}", "P": "plays card {}"}
    for action, code in env.env.env.action_encoding.items():
        said = hanabi.move(env.env, 1, int(action))
        if code[0] in words and code[1:].isdigit():
            assert said == words[code[0]].format(int(code[1:]) + 1)
        elif hint := re.match(r"H(\w) to P(\d) relative", code):
            assert said.startswith(f"tells player {(1 + int(hint[2])) % 3} about "), (code, said)
            assert said.endswith(f" {hint[1]}"), (code, said)
        else:
            assert said == "waits"
    text = str(find_painter(env).paint(views[0]))
    assert text.startswith("turn 1   score 0   hints 8   lives 3   deck 35   fireworks R0 Y0 G0 W0 B0\n> player 0   ")
    assert text.count("player") == 4 + text.count("tells")
    for view in views:
        hand = np.argwhere(view.state.player_hands[0, 0])[0]
        assert f"player 0   {'RYGWB'[hand[0]]}{hand[1] + 1}[" in str(find_painter(env).paint(view))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "columns"), [("Craftax-Classic-Symbolic-v1", 7, 9)])
def test_craftax(name, rows, columns):
    env, views = played(name, 3)
    paint = find_painter(env).paint
    picture = np.asarray(paint(views[0]))
    assert picture.shape == (rows * 32 + 60, columns * 32, 3)
    night = views[0].state.replace(light_level=np.float32(0))
    assert np.asarray(paint(views[0]._replace(state=night)))[: rows * 32].mean() < 0.3 * picture[: rows * 32].mean()
    zombie = views[0].state.zombies
    beside = zombie.replace(
        position=np.tile(views[0].state.player_position + np.array([0, 2]), (len(zombie.mask), 1)),
        mask=np.ones_like(zombie.mask),
    )
    changed = np.asarray(paint(views[0]._replace(state=views[0].state.replace(zombies=beside)))) != picture
    squares = changed.any(-1)[: rows * 32].reshape(rows, 32, columns, 32).any((1, 3))
    assert squares[rows // 2, columns // 2 + 2]
