"""Arms as tasks of a Ray cluster.

Ray starts a task again where its process or its machine died; the arm then goes on from its checkpoint, which is on the
file system that all machines share. An error is no death: it is the arm's outcome, and is not tried again.

Without an address, Ray is started for these arms alone. It then listens on the loopback interface only, wants a token
that this process makes up, reports nothing to anybody, and leaves nothing in the user's home.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from types import ModuleType

from pqn.errors import ConfigError, Interrupted, how_to_install
from pqn.fleet.arms import INTERRUPTED, Outcome, Task, attempt, log_of, open_log, say
from pqn.fleet.processes import memory_share
from pqn.fleet.signals import stopping
from pqn.fleet.work import from_line, to_line
from pqn.progress import Progress

LOCAL = "local"  # the address of a Ray of our own, on this machine alone
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_CONNECT = 10.0
SECONDS_TO_STOP = 60.0  # for saving what runs, after a signal

# The first one is the switch for "no cluster", on any system: every service is bound to 127.0.0.1.
PRIVATE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def run_on_ray(
    arms: Sequence[Task], address: str, retries: int, cpus: float, gpus: float | None, progress: Progress
) -> list[Outcome]:
    """Brings arms to their end as Ray tasks; see `placement.Placement` for the arguments."""
    arms = [arm.resolved() for arm in arms]
    # Ray prints what it has to say to standard output, which is for the result.
    with contextlib.redirect_stdout(sys.stderr), _connected(address) as ray, stopping() as caught:
        gpus = _check_resources(ray, cpus, gpus)
        variables = memory_share(gpus, os.environ) if 0 < gpus < 1 else {}
        if address == LOCAL:  # elsewhere pqn is installed; here it may be in a checkout
            variables["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
        task = ray.remote(
            num_cpus=cpus,
            num_gpus=gpus,
            max_retries=retries,
            max_calls=1,  # a process for each arm: JAX keeps memory, and a device, for as long as its process lives
            runtime_env={"env_vars": variables},
        )(_work)
        pending = {task.remote(to_line(arm)): arm for arm in arms}
        outcomes: list[Outcome] = []
        stop_at = float("inf")
        while pending and time.monotonic() < stop_at:
            done, _ = ray.wait(list(pending), timeout=SECONDS_BETWEEN_LOOKS)
            for reference in done:
                outcome = _outcome(ray, pending.pop(reference), reference)
                if outcome is not None:
                    outcomes.append(outcome)
                    say(outcome, len(outcomes), len(arms), progress)
            if caught and stop_at == float("inf"):
                stop_at = time.monotonic() + SECONDS_TO_STOP
                for reference in pending:
                    ray.cancel(reference)
        if caught:
            raise Interrupted(f"stopped by {caught[0]}; call the same command again to go on")
    return outcomes


def _work(line: str) -> tuple[str | None, int]:
    """The task: one arm, in a process of its own on some machine. Returns the error and the exit status."""
    arm = from_line(line)
    with open_log(arm) as log:
        try:
            outcome = attempt(arm, Progress(log), log)
        except (Interrupted, KeyboardInterrupt) as stopped:
            return str(stopped), INTERRUPTED
    return outcome.error, outcome.status


def _outcome(ray: ModuleType, arm: Task, reference: object) -> Outcome | None:
    """What a task returned; None where the user has stopped it."""
    try:
        error, status = ray.get(reference)
    except ray.exceptions.TaskCancelledError:
        return None
    except ray.exceptions.RayError as failure:
        words = " ".join(str(failure).split())[:200]
        return Outcome(arm, f"Ray gave it up: {type(failure).__name__}: {words}; {log_of(arm)} has more", 1)
    if status == INTERRUPTED:
        return None
    if error is None and not arm.is_complete():
        error, status = f"it was trained, but {arm.out} is not to be seen here; --out must be on a shared disk", 2
    return Outcome(arm, error, status)


@contextlib.contextmanager
def _connected(address: str) -> Iterator[ModuleType]:
    """Ray, connected to a cluster, or to one of our own that ends with the block.

    Raises:
      ConfigError: it is not installed, or there is no cluster.
    """
    if address == LOCAL:
        _make_private()
    _refuse_unreachable(address)
    folder = tempfile.mkdtemp(prefix="pqn-ray-")
    try:
        ray = _import_ray()
        if ray.is_initialized():  # by the program around us, whose it stays
            yield ray
            return
        _start(ray, address, folder)
        try:
            yield ray
        finally:
            ray.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_private() -> None:
    """Sets the variables of a Ray of our own, for the rest of this process: Ray reads them when it is imported.

    What the user has set stays, and where the program around us has imported Ray, everything is as that program has it.
    """
    if "ray" in sys.modules:
        return
    for name, value in PRIVATE.items():
        os.environ.setdefault(name, value)
    if not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }  # else it writes one to a file


def _refuse_unreachable(address: str) -> None:
    """Knocks at HOST:PORT first: Ray itself would try for a quarter of an hour."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"--ray {address}: nothing answers there ({error}); `ray start --head` starts a cluster and says where"
        ) from error


def _import_ray() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise ConfigError(f"--ray needs the package ray: {how_to_install('ray')}") from error
    return ray


def _start(ray: ModuleType, address: str, folder: str) -> None:
    quiet = {"log_to_driver": False, "configure_logging": False}
    try:
        if address == LOCAL:
            ray.init(address=LOCAL, include_dashboard=False, _temp_dir=folder, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        words = " ".join(str(error).split())[:200]
        remedy = "" if address == LOCAL else "; `ray start --head` starts one, and --ray alone needs none"
        raise ConfigError(f"--ray {address}: there is no Ray cluster to use: {words}{remedy}") from error


def _check_resources(ray: ModuleType, cpus: float, gpus: float | None) -> float:
    """GPUs for an arm. Ray would wait for ever for what no machine has.

    Raises:
      ConfigError: no machine has as much as an arm is to get.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node.get("Alive", node.get("alive"))]
    most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in ("CPU", "GPU")}
    gpus = (1.0 if most["GPU"] else 0.0) if gpus is None else gpus
    for option, name, wanted in (("--cpus-per-run", "CPU", cpus), ("--gpus-per-run", "GPU", gpus)):
        if wanted > most[name]:
            raise ConfigError(f"{option} is {wanted:g}, but no machine of the Ray cluster has more than {most[name]:g}")
    return gpus
