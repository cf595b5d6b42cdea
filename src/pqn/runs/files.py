"""Reading and writing the files of a run without trusting them.

A run directory may come from anybody. Its files are data: only regular files that lie in the run itself are opened, so
a pipe cannot hang the program and a link cannot lead it elsewhere; sizes are checked before anything is read, so a
small file cannot fill the memory; and what is not as it should be is a `RunError` with one sentence.

This module never imports jax: listing and plotting runs must be instant.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from pathlib import Path

from pqn.errors import RunError, reason
from pqn.fields import brief
from pqn.runs.json_text import parse_json

PathLike = str | os.PathLike[str]

MOST_JSON = 16 * 2**20  # bytes of a JSON file; ours are a few kilobytes

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFREG: "a file",
}


class NotOurs(RunError):
    """Something stands where a regular file or a directory of the run should."""


def as_path(name: str, given: object) -> Path:
    """What a user gave as the place of a file or a directory; a sentence calls it `name`.

    Raises:
        RunError: it is no path.
    """
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise RunError(f"{name} is {brief(given)}; it must be a path, not empty")
    return Path(text)


# ---------------------------------------------------------------------------------------------------------- reading


def kind_of(path: Path, *, follow: bool = False) -> str | None:
    """What stands at `path` ("a file", "a directory", "a symbolic link", …), or where it leads; None: nothing."""
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path, follow_symlinks=follow).st_mode), "something strange")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise RunError(f"cannot read {path}: {_why(error)}") from error


def is_file(path: Path) -> bool:
    """Whether a regular file stands at `path`.

    Raises:
        NotOurs: something else does.
    """
    return _is(path, "a file")


def is_directory(path: Path) -> bool:
    """Whether a directory stands at `path`.

    Raises:
        NotOurs: something else does.
    """
    return _is(path, "a directory")


def _is(path: Path, wanted: str) -> bool:
    kind = kind_of(path)
    if kind not in (None, wanted):
        raise NotOurs(f"{path} is {kind} where {wanted} of the run itself should be")
    return kind is not None


def open_to_read(path: Path) -> io.BufferedReader:
    """Opens a regular file.

    Raises:
        FileNotFoundError: there is none.
        NotOurs: something else stands there.
        OSError: the system refuses.
    """
    if not is_file(path):  # asked first: merely opening some devices does something
        raise FileNotFoundError(path)
    # And asked again of what was opened, which nobody can exchange any more; a pipe must not be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK"))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotOurs(f"{path} is not a regular file")
    return open(descriptor, "rb")


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes.

    Raises:
        FileNotFoundError, OSError: there is none, or the system refuses.
        NotOurs: something else stands there, or it is larger.
    """
    with open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotOurs(f"{path} has {size} bytes; at most {most} are read")
        return file.read(most + 1)[:most]


def read_given(path: PathLike, most: int) -> bytes:
    """The content of a file that the user names. A link of the user's leads to it.

    Raises:
        RunError: there is none, it is too large, or it cannot be read.
    """
    kind = kind_of(Path(path), follow=True)
    if kind != "a file":  # a device may have no end, and a pipe nobody who writes into it
        raise RunError(f"{path} is {kind}; name a file" if kind else f"{path}: there is no such file")
    try:
        return read_bytes(Path(os.path.realpath(path)), most)
    except OSError as error:
        raise RunError(f"cannot read {path}: {reason(error)}") from error


def read_json(path: Path, most: int = MOST_JSON) -> object:
    """The content of a JSON file.

    Raises:
        RunError: it is missing, unreadable, too large, too deeply nested, or not JSON.
    """
    try:
        data = read_bytes(path, most)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {_why(error)}") from error
    try:
        return parse_json(data)
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error


def shown(text: str) -> str:
    """Text from a file, safe to print: what would move a terminal's cursor or colour it is spelled out."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


# ---------------------------------------------------------------------------------------------------------- writing


def output(path: PathLike) -> Path:
    """The file to write where the user names one for a result. A link of the user's leads to it.

    Raises:
        RunError: something else stands there. A device or a pipe would be replaced by a file, /dev/null included.
    """
    kind = kind_of(Path(path), follow=True)
    if kind not in (None, "a file"):
        raise RunError(f"cannot write {path}: it is {kind}; name a file")
    return Path(os.path.realpath(path))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` such that a crash at any moment leaves the old content or the new, never a mixture.

    Raises:
        OSError: the disk is full or cannot be written; the old content is intact.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with create(temporary) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # replaces a link itself, never what it points to
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def create(path: Path) -> io.BufferedWriter:
    """Opens a new file to write; a leftover or a planted link of that name is removed, never followed."""
    path.unlink(missing_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "wb")


def open_to_append(path: Path) -> io.FileIO:
    """Opens a regular file of the run, or makes it; unbuffered: after a full disk nothing is left to write again.

    Raises:
        NotOurs: something else stands there.
        OSError: the system refuses.
    """
    is_file(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK"), 0o644)
    return open(descriptor, "ab", buffering=0)


def open_lock(path: Path) -> int:
    """The descriptor of a regular file to lock, made if it is not there.

    Raises:
        OSError: the system refuses, also where something else has taken the file's place.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK"), 0o644)


def fsync_directory(path: Path) -> None:
    """Make renames within a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flag(name: str) -> int:
    return getattr(os, name, 0)  # Windows has neither


def _why(error: OSError | ValueError) -> str:
    return reason(error) if isinstance(error, OSError) else str(error)
