"""Text for a terminal, a pipe or a file that may be closed, full, narrow, or unable to show a letter.

Output that fails must not end a run: training goes on when nobody reads its progress any more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable
from typing import Any, TextIO, cast

_ASCII = {
    "ε": "eps", "λ": "lambda", "γ": "gamma", "ρ": "rho", "η": "eta", "σ": "sigma", "α": "alpha",
    "±": "+-", "×": "x", "÷": "/", "−": "-", "–": "-", "·": "*", "…": "...", "≥": ">=", "≤": "<=", "½": "1/2",
    "²": "^2", "³": "^3", "¹": "^1", "√": "sqrt", "→": "->", "‖": "||", "‘": "'", "’": "'", "“": '"', "”": '"',
}  # fmt: skip


class SafeStream:
    """A text stream that never raises: what cannot be written is dropped, what cannot be shown is transliterated.

    Attributes:
      failure: why nothing is written any more, or None.
    """

    def __init__(self, stream: TextIO | None):
        self.failure: Exception | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        self._attempt(lambda stream: stream.write(showable(text, stream)))
        return len(text)

    def flush(self) -> None:
        self._attempt(lambda stream: stream.flush())

    def isatty(self) -> bool:
        try:
            return self._stream is not None and self.failure is None and self._stream.isatty()
        except (OSError, ValueError):
            return False

    def settle(self) -> None:
        """Writes what is left. If that fails, it is sent to the null device: Python would try once more at its exit."""
        self.flush()
        if self.failure is not None and self._stream is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _attempt(self, action: Callable[[TextIO], object]) -> None:
        if self._stream is None or self.failure is not None:
            return
        try:
            action(self._stream)
        except (OSError, ValueError) as error:  # gone, full; or closed, which Python calls a wrong value
            self.failure = error


def safe(stream: TextIO | SafeStream | None) -> TextIO:
    """`stream`, or nothing at all, as a stream that never raises."""
    return cast(TextIO, stream if isinstance(stream, SafeStream) else SafeStream(stream))


def open_missing() -> None:
    """Opens the null device for standard input, output and error where they are closed (`2>&-`).

    Otherwise the next file that is opened gets the number, and what a library prints ends up in a checkpoint.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, so this one


def showable(text: str, stream: object) -> str:
    """`text` in letters that the stream's encoding has: ε as eps, and a question mark where there is none like it."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        plain = "".join(_ASCII.get(letter, letter) for letter in text)
        return plain.encode(encoding, "replace").decode(encoding)
    except LookupError:  # an encoding that Python does not know: let the stream decide
        return text


def columns(stream: TextIO | None = None) -> int:
    """The width of the terminal behind a stream now; 80 where there is none."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        width = os.get_terminal_size((sys.stderr if stream is None else stream).fileno()).columns
        if width > 0:
            return width
    return shutil.get_terminal_size().columns or 80


def cells(text: str) -> int:
    """How many columns a text takes: wide letters take two, accents none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns.

    >>> cut("compiling", 6)
    'compi…'
    """
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return text + "…" if width > 0 else ""
