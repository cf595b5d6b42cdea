"""What a run shows while it runs: one live line on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

# In a log file; of a long run, a fiftieth of its time so far: hundreds of lines in days, not a hundred thousand.
SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES = 5.0, 0.02


class Progress:
    """Reports to a stream; `quiet` keeps everything but warnings to itself."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False):
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.live = self.stream.isatty()
        self._width = 0  # of the live line now on screen
        self._last = 0.0
        self._began = time.monotonic()
        self._pending: str | None = None

    def note(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self._clear()
            print(text, file=self.stream, flush=True)

    def status(self, text: str) -> None:
        """A passing remark, for terminals only."""
        if self.live and not self.quiet:
            self._draw(text)

    def update(self, fields: dict[str, Any]) -> None:
        """The state of the run: step, total, return, eval, epsilon, loss, rate, eta."""
        if self.quiet:
            return
        line = format_line(fields)
        now = time.monotonic()
        if self.live:
            if now - self._last > 0.1:
                self._draw(line)
                self._last = now
        elif now - self._last > max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * (now - self._began)):
            print(line, file=self.stream, flush=True)
            self._last = now
            line = None
        self._pending = line

    def end(self) -> None:
        """Leaves the last state standing."""
        if self._pending is not None and not self.quiet:
            self._clear()
            print(self._pending, file=self.stream, flush=True)
        self._pending = None

    def _draw(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(self._width))
        self.stream.flush()
        self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self._width = 0


def format_line(fields: dict[str, Any]) -> str:
    """`  45 %  230 k steps  return 187.3  eval 203.1  ε 0.20  loss 0.0132  61.2 k steps/s  ETA 0:04`."""
    parts = [f"{100 * fields['step'] / fields['total']:3.0f} %", f"{human(fields['step'])} steps"]
    if fields["return"] is not None:
        parts.append(f"return {fields['return']:.1f}")
    unfinished = fields.get("unfinished")
    if fields["eval"] is not None:
        parts.append(f"eval {fields['eval']:.1f}")
    elif unfinished:
        parts.append(f"eval {unfinished['total']} of {unfinished['episodes']} unfinished")
    parts.append(f"ε {fields['epsilon']:.2f}")
    if fields["loss"] is not None:
        parts.append(f"loss {fields['loss']:.3g}")
    if fields["rate"]:
        parts.append(f"{human(fields['rate'])} steps/s")
    if fields["eta"] is not None:
        parts.append(f"ETA {clock(fields['eta'])}")
    return "  ".join(parts)


def human(number: float) -> str:
    """`1234567` as `1.23 M`."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def clock(seconds: float) -> str:
    """`3725` as `1:02:05`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
