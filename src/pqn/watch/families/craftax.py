"""Craftax and Craftax-Classic: what the player sees, drawn with the icons that craftax brings.

craftax's own renderer reads a cache of scaled textures, which takes minutes to make and is written into the package.
Here only the icons are read, as files. So a film needs no cache, of the symbolic games too.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

import numpy as np
from PIL import Image

from pqn.envs.adapters.craftax import CraftaxEnv
from pqn.types import PyTree
from pqn.watch.canvas import Canvas
from pqn.watch.view import Painter, Picture, View

TILE = 32  # pixels of a square of the map
ROW = 30  # pixels of a row of the inventory
DARKEST = 0.18  # so much of the light is left where there is none
# Blocks whose icon has another name than the block.
ICONS = {
    "invalid": None, "out_of_bounds": None, "darkness": None, "crafting_table": "table", "plant": "plant_on_grass",
    "ripe_plant": "ripe_plant_on_grass", "wall": "wall2",
}  # fmt: skip
ITEMS = (None, "torch_in_inventory", "ladder_down", "ladder_up", "ladder_down_blocked")
PLAYERS = {1: "player-left", 2: "player-right", 3: "player-up", 4: "player-down"}  # by the number of the move
# Kinds of creatures: the field of the state, and the icon of each type.
CREATURES = {
    "zombies": ("zombie",),
    "cows": ("cow",),
    "skeletons": ("skeleton",),
    "arrows": ("arrow-up",),
    "melee_mobs": (
        "zombie", "gnome_warrior", "orc_soldier", "lizard", "knight", "troll", "pigman", "frost_troll",
    ),
    "passive_mobs": ("cow", "bat", "snail"),
    "ranged_mobs": (
        "skeleton", "gnome_archer", "orc_mage", "kobold", "knight_archer", "deep_thing", "fire_elemental",
        "ice_elemental",
    ),
    "mob_projectiles": (
        "arrow-up", "dagger", "fireball", "iceball", "arrow-up", "slimeball", "fireball", "iceball",
    ),
    "player_projectiles": ("arrow-up", "dagger", "fireball", "iceball"),
}  # fmt: skip
NEEDS = {"player_health": "health", "player_food": "food", "player_drink": "drink", "player_energy": "energy"}
GOODS = ("wood", "stone", "coal", "iron", "diamond", "sapphire", "ruby", "sapling")


def painter(env: CraftaxEnv) -> Painter:
    return Painter(lambda view: _paint(env, view), fps=8)


def _paint(env: CraftaxEnv, view: View) -> Picture:
    folder, blocks, shape = _package("Classic" in env.spec.name)
    state, floor = view.state, int(getattr(view.state, "player_level", 0))
    rows, columns = shape
    corner = np.asarray(state.player_position) - np.array(shape) // 2
    world = np.asarray(state.map if state.map.ndim == 2 else state.map[floor])
    image = Image.new("RGB", (columns * TILE, rows * TILE), "black")
    light = _light(state, floor, world.shape)
    for y in range(rows):
        for x in range(columns):
            place = (int(corner[0]) + y, int(corner[1]) + x)
            if 0 <= place[0] < world.shape[0] and 0 <= place[1] < world.shape[1]:
                _put(image, folder, blocks[int(world[place])], (y, x))
                if hasattr(state, "item_map"):
                    _put(image, folder, ITEMS[int(state.item_map[floor][place])], (y, x))
    for field, icons in CREATURES.items():
        for place, kind in _creatures(state, field, floor):
            _put(image, folder, icons[kind % len(icons)], (place[0] - int(corner[0]), place[1] - int(corner[1])))
    player = "player-sleep" if state.is_sleeping else PLAYERS.get(int(state.player_direction), "player-down")
    _put(image, folder, player, (rows // 2, columns // 2))
    shades = np.ones(shape)
    for y, x in np.ndindex(*shape):
        place = (int(corner[0]) + y, int(corner[1]) + x)
        if 0 <= place[0] < world.shape[0] and 0 <= place[1] < world.shape[1]:
            shades[y, x] = light[place]
    lit = np.asarray(image) * shades.repeat(TILE, 0).repeat(TILE, 1)[..., None]
    return np.concatenate([lit.astype(np.uint8), _belongings(env, state, folder, columns * TILE)])


def _light(state: PyTree, floor: int, shape: tuple[int, ...]) -> np.ndarray:
    """How bright each square is [height, width]: by day and night on the surface, by torches below."""
    if floor == 0:
        return np.full(shape, DARKEST + (1 - DARKEST) * float(np.clip(state.light_level, 0, 1)))
    return DARKEST + (1 - DARKEST) * np.clip(np.asarray(state.light_map[floor]), 0, 1)


def _creatures(state: PyTree, field: str, floor: int) -> list[tuple[tuple[int, int], int]]:
    """Place and type of the creatures of one kind on a floor."""
    mobs = getattr(state, field, None)
    if mobs is None:
        return []
    types = getattr(mobs, "type_id", None)
    position, mask = (np.asarray(x if types is None else x[floor]) for x in (mobs.position, mobs.mask))
    kinds = np.zeros(len(mask), int) if types is None else np.asarray(types[floor])
    return [((int(position[i][0]), int(position[i][1])), int(kinds[i])) for i in np.flatnonzero(mask)]


def _belongings(env: CraftaxEnv, state: PyTree, folder: Path, width: int) -> Picture:
    """Two rows below the map: what the player needs, and what it has."""
    needs = NEEDS | ({"player_mana": "mana"} if hasattr(state, "player_mana") else {})
    rows = [
        [(icon, round(float(getattr(state, field)))) for field, icon in needs.items()],
        [(icon, int(getattr(state.inventory, icon, 0))) for icon in GOODS],
    ]
    canvas = Canvas(width, ROW * len(rows), "#1B1B1F")
    icons: list[tuple[str, int, int]] = []
    for number, row in enumerate(rows):
        shown = [(icon, count) for icon, count in row if count or number == 0]
        for place, (icon, count) in enumerate(shown):
            left = 6 + place * (46, 34)[number]
            icons.append((icon, left, number * ROW + 5))
            canvas.text((left + 23, number * ROW + 15), str(count), "#FFFFFF", 14, "lm")
    done = int(np.sum(state.achievements))
    canvas.text((width - 8, 15), f"{done} of {len(env.achievements)} done", "#E69F00", 13, "rm")
    image = Image.fromarray(canvas.picture())
    for icon, left, top in icons:
        if (drawn := _icon(folder, icon, ROW - 10)) is not None:
            image.paste(drawn, (left, top), drawn)
    return np.asarray(image)


def _put(image: Image.Image, folder: Path, name: str | None, square: tuple[int, int]) -> None:
    """Draws an icon into a square of the map; outside of the map, Pillow draws nothing."""
    icon = None if name is None else _icon(folder, name, TILE)
    if icon is not None:
        image.paste(icon, (square[1] * TILE, square[0] * TILE), icon)


@functools.cache
def _icon(folder: Path, name: str, side: int) -> Image.Image | None:
    """An icon of craftax; None where this version of craftax has none of that name."""
    try:
        with Image.open(folder / f"{name}.png") as image:
            return image.convert("RGBA").resize((side, side), Image.Resampling.LANCZOS)
    except FileNotFoundError:
        return None


@functools.cache
def _package(classic: bool) -> tuple[Path, dict[int, str | None], tuple[int, int]]:
    """Of one of the two games: the folder of icons, the icon of each block, and how many squares are seen."""
    constants = importlib.import_module(f"craftax.{'craftax_classic' if classic else 'craftax'}.constants")
    names = {block.value: block.name.lower() for block in constants.BlockType}
    blocks = {number: ICONS.get(name, name) for number, name in names.items()}
    return Path(constants.TEXTURE_CACHE_FILE).parent.parent / "assets", blocks, tuple(constants.OBS_DIM)
