"""Frames into files: MP4 by ffmpeg, GIF by Pillow; whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from PIL import Image

from pqn.errors import RunError, how_to_install, reason
from pqn.runs import files
from pqn.watch.view import Picture

SUFFIXES = (".mp4", ".gif", ".txt")
GIF_FPS = 50  # the most that viewers of GIFs keep up with


def check_output(path: Path, is_text: bool, name: str) -> None:
    """Refuses, before anything is played, a file that could not be written.

    Raises:
      RunError: a suffix that does not fit, no ffmpeg, or something that is no file in its place.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RunError(f"cannot write {path}: the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if is_text != (suffix == ".txt"):
        want = "a text: use -o with a name that ends in .txt" if is_text else "pictures: use -o with .gif or .mp4"
        raise RunError(f"cannot write {path}: {name} is shown as {want}")
    if suffix == ".mp4" and not has_ffmpeg():
        raise RunError(f"MP4 needs imageio-ffmpeg: {how_to_install('video')}; or write a GIF: -o {path.stem}.gif")
    files.output(path)


def has_ffmpeg() -> bool:
    """Whether MP4 can be written."""
    try:
        _ffmpeg().get_ffmpeg_exe()
    except (ImportError, RuntimeError):  # the package is missing, or the program that it brings
        return False
    return True


def write_frames(path: Path, frames: Iterator[Picture], fps: int) -> None:
    """Writes a film.

    Raises:
      RunError: it cannot be written.
    """
    write = {".mp4": _write_mp4, ".gif": _write_gif}[path.suffix.lower()]
    _whole(path, lambda temporary: write(temporary, frames, fps))


def write_text(path: Path, text: str) -> None:
    """Writes a text.

    Raises:
      RunError: it cannot be written.
    """
    _whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with the name of a temporary file, and gives that its name when it is complete."""
    place = files.output(path)
    temporary = place.with_name(f".{place.stem}.tmp{path.suffix}")  # the suffix says what to write
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.create(temporary).close()  # the directory may be a run of somebody else, with a link of this name
        write(temporary)
        temporary.replace(place)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_gif(path: Path, frames: Iterator[Picture], fps: int) -> None:
    images = (Image.fromarray(frame).quantize(128, Image.Quantize.FASTOCTREE) for frame in frames)
    first = next(images)
    first.save(path, save_all=True, append_images=images, duration=1000 / min(fps, GIF_FPS), loop=0, optimize=False)


def _write_mp4(path: Path, frames: Iterator[Picture], fps: int) -> None:
    first = next(frames)
    size = (first.shape[1], first.shape[0])
    film = _ffmpeg().write_frames(str(path), size, fps=fps, quality=7, macro_block_size=2, ffmpeg_log_level="error")
    with warnings.catch_warnings():
        # JAX warns of any new process; this one is another program at once.
        warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
        film.send(None)
    try:
        for frame in itertools.chain([first], frames):
            film.send(frame.tobytes())
    finally:
        film.close()


def _ffmpeg() -> ModuleType:
    return importlib.import_module("imageio_ffmpeg")
