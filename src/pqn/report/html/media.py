"""Pictures of the agent: films and images in the run directory, as part of the page."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path

from pqn.runs import files
from pqn.runs.opened import Warn

MOST_BYTES = 24 * 2**20  # of all pictures of a run: mail servers refuse more
FOLDERS = (".", "videos")
# A name promises a kind, the first bytes must keep it: a browser believes neither more than we do.
KINDS = {
    ".mp4": ("video/mp4", 4, b"ftyp"),
    ".webm": ("video/webm", 0, b"\x1a\x45\xdf\xa3"),
    ".gif": ("image/gif", 0, b"GIF8"),
}


@dataclasses.dataclass(frozen=True)
class Picture:
    """A film or an animated image."""

    name: str
    kind: str  # of the content, such as "video/mp4"
    content: bytes

    @property
    def is_film(self) -> bool:
        return self.kind.startswith("video/")

    @property
    def uri(self) -> str:
        """The content itself, as the address of an image or a film."""
        return f"data:{self.kind};base64,{base64.b64encode(self.content).decode()}"


def find_pictures(run: Path, warn: Warn) -> list[Picture]:
    """The pictures in a run directory, oldest name first; one that is too large, or is none, is said and left out."""
    found: list[Picture] = []
    left = MOST_BYTES
    for path in sorted(path for folder in FOLDERS for path in _inside(run / folder)):
        kind, place, magic = KINDS[path.suffix.lower()]
        if files.kind_of(path) != "a file":
            continue
        if path.stat().st_size > left:
            warn(f"{path} is not in the report: all pictures of a run may have {MOST_BYTES // 2**20} MB together")
            continue
        content = files.read_bytes(path, left)
        if content[place : place + len(magic)] != magic:
            warn(f"{path} is not in the report: it is not what its name says")
            continue
        found.append(Picture(path.name, kind, content))
        left -= len(content)
    return found


def _inside(folder: Path) -> list[Path]:
    if files.kind_of(folder) != "a directory" and folder.name != "":
        return []
    return [path for path in folder.iterdir() if path.suffix.lower() in KINDS] if folder.is_dir() else []
