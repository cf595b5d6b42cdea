"""Observations that are pictures already: MinAtar's channels as colours, screens, frames and binary grids."""

from __future__ import annotations

import numpy as np

from pqn.types import EnvSpec
from pqn.watch.canvas import COLOURS, rgb
from pqn.watch.view import Painter, Picture, enlarged

MOST_CHANNELS = 16
LEAST_PIXELS = 32  # of the sides of what counts as a photograph or a screen
_BACKGROUND = (24, 24, 30)
_PALETTE = np.array([rgb(colour) for colour in COLOURS] + [(240, 228, 66), (255, 255, 255), (160, 90, 200)], np.uint8)


def painter(spec: EnvSpec) -> Painter | None:
    """Draws what the first agent observes; None where that is no picture."""
    shape, kind = spec.obs_shape, np.dtype(spec.obs_dtype).kind
    if len(shape) == 3 and kind == "b" and shape[-1] <= MOST_CHANNELS:
        return Painter(lambda view: channels(view.obs[0]), fps=10)
    if len(shape) == 2 and kind == "b":
        return Painter(lambda view: channels(view.obs[0][..., None]), fps=10)
    if len(shape) == 3 and kind in "uf" and min(_sides(shape)) >= LEAST_PIXELS:
        return Painter(lambda view: screen(view.obs[0]), fps=15)
    return None


def channels(grid: np.ndarray) -> Picture:
    """[height, width, C] bool as coloured squares; where several channels are set, the later one is seen."""
    picture = np.full((*grid.shape[:2], 3), _BACKGROUND, np.uint8)
    for channel in range(grid.shape[-1]):
        picture[grid[..., channel]] = _PALETTE[channel % len(_PALETTE)]
    picture = enlarged(picture)
    lines = picture.shape[0] // grid.shape[0]
    if lines >= 8:  # thin lines between the squares, as on squared paper
        picture[::lines] = picture[:, ::lines] = (44, 44, 52)
    return picture


def screen(image: np.ndarray) -> Picture:
    """A picture of bytes, or of numbers from 0 to 1: colours last, or frames first, of which the newest is shown."""
    if image.shape[-1] not in (1, 3):
        image = image[-1][..., None] if image.shape[0] < image.shape[-1] else image[..., -1:]
    if image.dtype.kind == "f":
        image = 255 * np.clip(image, 0, 1)
    return enlarged(np.broadcast_to(image.astype(np.uint8), (*image.shape[:2], 3)).copy())


def _sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height and width: without the axis of channels, which is the shortest."""
    return tuple(sorted(shape))[1:]
