"""Generated parts of pages that people write: what stands between two markers is replaced, the rest is left alone.

<!-- generated: overview -->
…
<!-- end of generated -->
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pqn.errors import RunError, reason
from pqn.runs import files

_BLOCK = re.compile(r"<!-- generated: (?P<name>[a-z0-9 -]+?) -->\n(?P<text>.*?)<!-- end of generated -->", re.DOTALL)


def block(name: str, text: str) -> str:
    """A generated part with its markers."""
    return f"<!-- generated: {name} -->\n{text.rstrip()}\n<!-- end of generated -->"


def filled(page: str, make: Callable[[str], str]) -> str:
    """The page with every generated part made anew; `make` is given its name."""
    return _BLOCK.sub(lambda found: block(found["name"], make(found["name"])), page)


def without_generated(page: str) -> str:
    """What people wrote. Lines keep their numbers: generated ones are empty."""
    return _BLOCK.sub(lambda found: "\n" * found.group().count("\n"), page)


def names(page: str) -> list[str]:
    """The generated parts of a page."""
    return [found["name"] for found in _BLOCK.finditer(page)]


def read_page(path: Path) -> str | None:
    """The text of a page; None where there is none.

    Raises:
      RunError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"cannot read {path}: {reason(error) if isinstance(error, OSError) else error}") from error


def write_page(path: Path, text: str) -> bool:
    """Writes a page if it changed, and says whether it did.

    Raises:
      RunError: it cannot be written.
    """
    if read_page(path) == text:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(path, text.encode())
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error
    return True
