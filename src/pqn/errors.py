"""Errors a user can cause and can fix.

Each carries one sentence: what is wrong, where, and what would do instead. The command line prints that sentence
and exits with status 2; a library user catches `PqnError`.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
from collections.abc import Iterable, Iterator
from typing import Any

RUN_DIRECTORY = "run directory:"  # starts the note on an error that says which run it has ended


class PqnError(Exception):
    """Base of every error that is addressed to the user."""


class ConfigError(PqnError, ValueError):
    """An option, or a combination of options, that cannot be trained."""


class EnvError(PqnError, ValueError):
    """An environment that does not exist, is not installed or breaks the contract."""


class ObservationError(PqnError, ValueError):
    """Something given to an agent that it cannot act on."""


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


class DeviceError(PqnError):
    """A device that JAX cannot use, or that has too little memory."""


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
        errno.ENAMETOOLONG: "the name is too long",
        errno.ENOMEM: "there is not enough memory",
    }
    return words.get(error.errno or 0) or (error.strerror or str(error)).lower()


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turns what JAX and numpy say of a device, or of its memory, into one sentence. Also a decorator.

    Raises:
      DeviceError: instead of an error of JAX or numpy that the user can do something about.
    """
    try:
        yield
    except (MemoryError, RuntimeError, ValueError, OSError) as error:
        sentence = _of_device(error)
        if sentence is None:
            raise
        raise DeviceError(sentence) from error


def out_of_memory(detail: str = "") -> str:
    """The sentence for a run that is too large, with what to do about it."""
    return (
        f"there is not enough memory for this run{detail}; lower env.num_envs, learner.rollout_steps, network.hidden, "
        "seeds or eval.num_envs (of `pqn eval`: --episodes)"
    )


def no_device(why: str) -> str:
    """The sentence for a JAX that does not start."""
    asked = os.environ.get("JAX_PLATFORMS")
    remedy = f"; JAX_PLATFORMS is {asked!r}: unset it, or set it to cpu" if asked else ""
    return f"JAX cannot start: {why}{remedy}"


def _of_device(error: Exception) -> str | None:
    """What a device's error means; None for an error of another kind."""
    text = " ".join(str(error).split())
    foreign = type(error).__module__.partition(".")[0] in ("jaxlib", "jax")
    full = ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory", "OUT_OF_MEMORY", "Failed to allocate")
    if isinstance(error, MemoryError) or (foreign and any(word in text for word in full)):
        return out_of_memory()
    if isinstance(error, OSError):
        return out_of_memory() if error.errno == errno.ENOMEM else None
    if "initialize backend" in text or "for environment 'JAX" in text:  # or a variable such as JAX_ENABLE_X64=maybe
        return no_device(text[:200])
    return None


def suggest(word: str, known: Iterable[str]) -> str:
    """A closing question such as `; did you mean 'lam'?`, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def how_to_install(extra: str) -> str:
    """The command that installs one of the package's extras. Nothing is released: there is only the checkout."""
    return f"pip install -e '.[{extra}]' in the checkout of pqn"
