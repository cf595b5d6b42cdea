"""What a run shows while it runs: one live line on a terminal, plain lines anywhere else."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import NotRequired, TextIO, TypedDict

from pqn.terminal import cells, columns, cut, safe, showable

# Between two lines of a log file: 5 s, or 2 % of the time so far where that is more, so that days give few lines.
SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES = 5.0, 0.02
# What is left out of the line on a narrow terminal, in this order.
DISPENSABLE = ("loss", "epsilon", "step", "rate", "eval", "eta")

Status = TypedDict(
    "Status",
    {
        "step": int,
        "total": int,
        "return": float | None,
        "eval": float | None,
        "unfinished": NotRequired[Mapping[str, int] | None],  # of the last evaluation: "total" and "episodes"
        "epsilon": float | None,
        "loss": float | None,
        "rate": float | None,
        "eta": float | None,
    },
)
"""The state of a run, as the progress line shows it; None where there is nothing to show yet."""


class Progress:
    """Reports to a stream. Nothing is shown where the stream fails; with `quiet`, only warnings are."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False):
        self.stream = safe(sys.stderr if stream is None else stream)
        self.quiet = quiet
        self.live = self.stream.isatty()
        self._width = 0  # of the live line now on screen
        self._last = 0.0
        self._began = time.monotonic()
        self._pending: Status | None = None

    def note(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """A line that stays, also when quiet."""
        self._clear()
        print(text, file=self.stream, flush=True)

    def status(self, text: str) -> None:
        """A line that the next one replaces; for terminals only."""
        if self.live and not self.quiet:
            self._draw(cut(text, self._room()))

    @contextlib.contextmanager
    def working(self, text: str, every: float = 1.0) -> Iterator[None]:
        """Shows on a terminal what is being done and since when, renewed every `every` seconds."""
        began, done = time.monotonic(), threading.Event()

        def show() -> None:
            while not done.wait(every):
                self.status(f"{text} {clock(time.monotonic() - began)}")

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self._clear()
            self.stream.flush()

    def update(self, fields: Status) -> None:
        """Shows the state of the run."""
        if self.quiet:
            return
        now = time.monotonic()
        self._pending = fields
        if self.live:
            if now - self._last > 0.1:
                self._draw(fitted_line(fields, self._room()))
                self._last = now
        elif now - self._last > max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * (now - self._began)):
            print(format_line(fields), file=self.stream, flush=True)
            self._last = now
            self._pending = None

    def end(self) -> None:
        """Shows the last state in a line that stays."""
        if self._pending is not None and not self.quiet:
            self._clear()
            line = fitted_line(self._pending, self._room()) if self.live else format_line(self._pending)
            print(line, file=self.stream, flush=True)
        self._pending = None

    def _room(self) -> int:
        """Columns for the live line now: a terminal may be resized, and one that fills its last column scrolls.

        Letters that the terminal cannot show are written in other letters, which take more room.
        """
        return columns(self.stream) - 1 - (len(showable("ε…", self.stream)) - 2)

    def _draw(self, text: str) -> None:
        left_over = min(self._width, self._room()) - cells(text)
        self.stream.write("\r" + text + " " * max(0, left_over))
        self.stream.flush()
        self._width = cells(text)

    def _clear(self) -> None:
        if self._width:
            self.stream.write("\r" + " " * min(self._width, self._room()) + "\r")
            self._width = 0


def format_line(fields: Status, without: tuple[str, ...] = ()) -> str:
    """`  45 %  230 k steps  return 187.3  eval 203.1  ε 0.20  loss 0.0132  61.2 k steps/s  ETA 0:04`."""
    parts = {"share": f"{100 * fields['step'] / fields['total']:3.0f} %", "step": f"{human(fields['step'])} steps"}
    if fields["return"] is not None:
        parts["return"] = f"return {fields['return']:.1f}"
    unfinished = fields.get("unfinished")
    if fields["eval"] is not None:
        parts["eval"] = f"eval {fields['eval']:.1f}"
    elif unfinished:
        parts["eval"] = f"eval {unfinished['total']} of {unfinished['episodes']} unfinished"
    if fields["epsilon"] is not None:
        parts["epsilon"] = f"ε {fields['epsilon']:.2f}"
    if fields["loss"] is not None:
        parts["loss"] = f"loss {fields['loss']:.3g}"
    if fields["rate"]:
        parts["rate"] = f"{human(fields['rate'])} steps/s"
    if fields["eta"] is not None:
        parts["eta"] = f"ETA {clock(fields['eta'])}"
    return "  ".join(text for name, text in parts.items() if name not in without)


def fitted_line(fields: Status, width: int) -> str:
    """The line of a run in at most `width` columns: what matters least is left out first."""
    lines = (format_line(fields, DISPENSABLE[:count]) for count in range(len(DISPENSABLE) + 1))
    return next((line for line in lines if cells(line) <= width), cut(format_line(fields, DISPENSABLE), width))


def human(number: float, digits: int = 3) -> str:
    """A number in few letters: `1234567` as `1.23 M`."""
    number = float(f"{number:.{digits}g}")  # rounded first, so that 999 999 is 1 M and not 1000 k
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.{digits}g}{unit}"
    return f"{number:.{digits}g}" if number else "0"  # -0.0 too


def clock(seconds: float) -> str:
    """`3725` as `1:02:05`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
