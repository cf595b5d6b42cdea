"""Errors a user can cause and can fix.

Each carries one sentence: what is wrong, where, and what would do instead. The command line prints that sentence
and exits with status 2; a library user catches `PqnError`.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from typing import Any


class PqnError(Exception):
    """Base of every error that is addressed to the user."""


class ConfigError(PqnError, ValueError):
    """An option, or a combination of options, that cannot be trained."""


class EnvError(PqnError, ValueError):
    """An environment that does not exist, is not installed or breaks the contract."""


class EnvFailed(PqnError):
    """An environment outside of JAX that raised, or whose worker died, in the middle of a run.

    Raised out of a chunk of updates it carries what had been done by then: the state after the last complete update,
    how many the chunk had completed, and their totals.
    """

    state: Any = None
    totals: Any = None
    done: int = 0


class RunError(PqnError):
    """A run directory that cannot be created, opened, locked or written."""


class CheckpointError(PqnError):
    """A checkpoint that cannot be written, is damaged or belongs to another network."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint whose files are torn, altered or missing; an older one may do."""


class Diverged(PqnError):
    """Training produced NaN or infinity."""


class Interrupted(PqnError):
    """The user stopped the run; it was saved and can be resumed."""


def reason(error: OSError) -> str:
    """Say in plain words why the file system refused."""
    words = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.EROFS: "the file system is read-only",
    }
    return words.get(error.errno or 0) or (error.strerror or str(error)).lower()


def suggest(word: str, known: Iterable[str]) -> str:
    """A closing question such as `; did you mean 'lam'?`, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
