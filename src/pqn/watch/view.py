"""What a painter gets to see of one environment, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pqn.errors import EnvError
from pqn.types import PyTree

Picture = np.ndarray  # [height, width, 3] uint8
LEAST_SIDE = 240  # pixels; smaller pictures are enlarged by a whole number


class View(NamedTuple):
    """One environment at one moment."""

    state: PyTree  # of numpy arrays; of a simulator, what it drew itself
    obs: np.ndarray  # [M, *obs_shape]
    action: np.ndarray | None = None  # [M] what the agents are about to do; None where the episode is over


class Painter(NamedTuple):
    """Draws environments of one kind."""

    paint: Callable[[View], Picture | str]
    fps: int = 15
    """How many steps a second are pleasant to watch."""
    is_text: bool = False


def checked_picture(picture: object, source: str) -> Picture:
    """A picture of somebody else's code, as [height, width, 3] bytes.

    Raises:
      EnvError: it is none.
    """
    array = np.asarray(picture)
    if array.ndim != 3 or array.shape[-1] != 3 or array.dtype.kind not in "uif" or not array.size:
        raise EnvError(
            f"{source} returned {array.dtype} of shape {array.shape}; a picture is uint8 of shape [height, width, 3]"
        )
    if array.dtype.kind == "f":  # from 0 to 1, as several libraries draw
        array = 255 * np.nan_to_num(array)
    return np.clip(array, 0, 255).astype(np.uint8)


def enlarged(picture: Picture) -> Picture:
    """Small pictures larger by a whole number, so that their pixels stay sharp squares."""
    factor = -(-LEAST_SIDE // min(picture.shape[:2]))
    return picture.repeat(factor, 0).repeat(factor, 1) if factor > 1 else picture
