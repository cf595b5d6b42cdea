"""Drawing on Pillow: a canvas with round edges and text, whose units are pixels of the finished picture."""

from __future__ import annotations

import functools

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pqn.watch.view import Picture

Point = tuple[float, float]
Colour = str | tuple[int, int, int]

SMOOTH = 3  # drawn so much larger, then reduced: Pillow's own lines have steps
PAPER, INK, FAINT = "#FFFFFF", "#262626", "#DADADA"
# Okabe and Ito's colours, which colour-blind viewers can distinguish too.
BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A7A7A",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, GREY)


class Canvas:
    """A picture to draw on."""

    def __init__(self, width: int, height: int, colour: Colour = PAPER):
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), colour)
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: list[Point], colour: Colour) -> None:
        self._draw.polygon([(x * SMOOTH, y * SMOOTH) for x, y in points], fill=colour)

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        self.polygon([(left, top), (right, top), (right, bottom), (left, bottom)], colour)

    def line(self, points: list[Point], colour: Colour, width: float = 2) -> None:
        scaled = [(x * SMOOTH, y * SMOOTH) for x, y in points]
        self._draw.line(scaled, fill=colour, width=max(1, round(width * SMOOTH)), joint="curve")

    def circle(self, centre: Point, radius: float, colour: Colour | None, outline: Colour | None = None) -> None:
        x, y = centre
        box = [(x - radius) * SMOOTH, (y - radius) * SMOOTH, (x + radius) * SMOOTH, (y + radius) * SMOOTH]
        self._draw.ellipse(box, fill=colour, outline=outline, width=2 * SMOOTH if outline else 0)

    def arc(self, centre: Point, radius: float, share: float, colour: Colour, width: float = 3) -> None:
        """A part of a circle, clockwise from the top."""
        x, y = centre
        box = [(x - radius) * SMOOTH, (y - radius) * SMOOTH, (x + radius) * SMOOTH, (y + radius) * SMOOTH]
        self._draw.arc(box, -90, -90 + 360 * share, fill=colour, width=max(1, round(width * SMOOTH)))

    def text(self, place: Point, words: str, colour: Colour = INK, size: float = 13, anchor: str = "la") -> None:
        """Words at a place; `anchor` is Pillow's: "la" left and top, "mm" the middle of both."""
        x, y = place
        self._draw.text((x * SMOOTH, y * SMOOTH), words, fill=colour, font=font(size * SMOOTH), anchor=anchor)

    def picture(self) -> Picture:
        return np.asarray(self._image.resize((self.width, self.height), Image.Resampling.BOX))


@functools.cache
def font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own letters: the same picture on every machine."""
    return ImageFont.load_default(size)


def rgb(colour: str) -> tuple[int, int, int]:
    """`#0072B2` as (0, 114, 178)."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
