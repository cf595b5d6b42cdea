"""How a run was made: versions, commit, command, machine. This module never imports jax by itself."""

from __future__ import annotations

import datetime
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pqn.runs.identity import version, versions_of

BAKED = "baked-commit"  # a file in the package that names its commit
ENVIRONMENTS = ("craftax", "jaxmarl", "ale-py", "gymnasium", "envpool", "brax", "mujoco")


def describe_environment(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Describe what a run depends on besides its configuration: versions, source commit, machine, command, date."""
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv if argv is None else argv),
        "versions": versions(),
        "git": describe_source(),
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
    }


def describe_source() -> dict[str, str | bool | None]:
    """The commit of the code, whether the code differs from it, and who says so.

    git says so, or the variable PQN_COMMIT, or a file in the package (`make baked-commit` writes it). The variable and
    the file are for machines that have the code without its history. git's own answer wins. What the others claim
    cannot be checked: `dirty` is then None.
    """
    commit, dirty = _source_commit()
    if commit is not None:
        return {"commit": commit, "dirty": dirty, "source": "git"}
    for source, claimed in (("PQN_COMMIT", os.environ.get("PQN_COMMIT", "")), (BAKED, _baked_commit())):
        if re.fullmatch(r"[0-9a-f]{7,40}", claimed):
            return {"commit": claimed, "dirty": None, "source": source}
    return {"commit": None, "dirty": None, "source": None}


def versions() -> dict[str, str | None]:
    """Of Python, of pqn and of the packages that every run computes with."""
    return {
        "python": platform.python_version(),
        "pqn": version("pqn-jax") or getattr(sys.modules.get("pqn"), "__version__", None),
        **versions_of(("jax", "jaxlib", "flax", "optax", "gymnax", "numpy")),
    }


def all_versions() -> dict[str, str | None]:
    """`versions`, and those of the packages of environments that are installed."""
    return versions() | {name: found for name, found in versions_of(ENVIRONMENTS).items() if found is not None}


def describe_machine() -> dict[str, str | int | None]:
    """Device, its driver, the system, and what was asked of the compiler. Names no host."""
    asked = {name: value for name, value in os.environ.items() if name.startswith(("XLA_", "JAX_"))}
    return {
        "device": describe_device(),
        "driver": _driver(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "jax_variables": " ".join(f"{name}={asked[name]}" for name in sorted(asked) if name != "XLA_FLAGS"),
    }


def _driver() -> str | None:
    """The version of NVIDIA's driver; None where there is none."""
    try:
        found = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", Path("/proc/driver/nvidia/version").read_text())
    except (OSError, UnicodeDecodeError):
        return None
    return found and found.group()


def _baked_commit() -> str:
    try:
        return (Path(__file__).resolve().parents[1] / BAKED).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def describe_device() -> str:
    """Name the accelerators that JAX uses, such as "gpu: NVIDIA H200"."""
    import jax  # here, so that listing and plotting runs stays instant

    devices = jax.devices()
    return f"{devices[0].platform}: {devices[0].device_kind}" + (f" × {len(devices)}" if len(devices) > 1 else "")


def device_count() -> int:
    """How many devices JAX has, those of other processes included."""
    import jax

    return len(jax.devices())


def peak_memory() -> int | None:
    """The most bytes that this process has held on its first device at once; None where JAX does not count them."""
    import jax

    return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def peak_process_memory() -> int | None:
    """The most bytes of the machine's memory that this process has held at once; None where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def process_age() -> float | None:
    """Seconds since this process was started, to a hundredth; None where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()  # the name before it may hold anything
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, AttributeError, ValueError, IndexError):
        return None


def _source_commit() -> tuple[str | None, bool | None]:
    """Return the commit of the checkout this package runs from and whether the package differs from it."""
    package = Path(__file__).resolve().parents[1]
    top = _git(package, "rev-parse", "--show-toplevel")
    # A virtual environment may lie inside somebody else's repository, whose commit would say nothing about us.
    if top is None or Path(top).resolve() / "src" / "pqn" != package:
        return None, None
    commit = _git(package, "rev-parse", "HEAD")
    status = _git(package, "status", "--porcelain", "--", ".")
    return commit, None if commit is None or status is None else bool(status)


def _git(directory: Path, *arguments: str) -> str | None:
    """Ask git; None where there is no git, no repository or no answer within a few seconds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        result = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(directory), *arguments],
            capture_output=True, text=True, timeout=5, check=True, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return result.stdout.strip()
