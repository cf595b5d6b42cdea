"""The processes of a run after they have met: JAX across all of them, and small messages between them.

Messages go through the key-value store of JAX's coordinator, not through the devices: they have a time limit, and who
did not answer is known.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import ipaddress
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from pqn.errors import PqnError
from pqn.hosts.meeting import About, HostsError, Place, meet
from pqn.hosts.watch import HINT, TIMES_STUCK, Store, Watch

if TYPE_CHECKING:
    from pqn.types import PyTree

_TIMES_PATIENCE = 3  # JAX's own watch over its processes is the second to notice


class Joined:
    """This process among the others."""

    def __init__(self, place: Place, store: Store, watch: Watch, seconds: float):
        self.place, self.store, self.watch, self.seconds = place, store, watch, seconds
        self.messages = 0  # rounds so far: the same in all processes

    def gather(self, message: bytes) -> list[bytes]:
        """What each process gave to this call, in their order.

        Raises:
          HostsError: one did not come to it.
        """
        self.messages += 1
        self.watch.progress = self.messages
        here, before = f"pqn/round/{self.messages}", f"pqn/round/{self.messages - 1}"
        self.store.key_value_set_bytes(f"{here}/{self.place.process:06d}", message)
        try:
            self.store.wait_at_barrier(f"{here}/all", int(1000 * self.seconds))
        except Exception as error:
            first = " ".join(str(error).split())[:200]
            raise self.watch.find_gone() or HostsError(f"the processes lost each other ({first}); {HINT}") from error
        found = sorted(self.store.key_value_dir_get_bytes(here))
        with contextlib.suppress(Exception):  # everybody has read the round before; only tidying up
            self.store.key_value_delete(f"{before}/{self.place.process:06d}")
        return [value for _, value in found]


class _ThisProcess:
    """What this process is to others."""

    joined: Joined | None = None
    failed = False  # among others


_THIS = _ThisProcess()


def index() -> int:
    """The number of this process."""
    return 0 if _THIS.joined is None else _THIS.joined.place.process


def count() -> int:
    """How many processes train this run."""
    return 1 if _THIS.joined is None else _THIS.joined.place.processes


def gather(message: bytes) -> list[bytes]:
    """What each process gave to this call; all must make the same calls."""
    return [message] if _THIS.joined is None else _THIS.joined.gather(message)


def gather_json(value: object) -> list[PyTree]:
    """`gather` for what has a JSON form."""
    return [json.loads(message) for message in gather(json.dumps(value).encode())]


def detect(seconds: float) -> tuple[Place, tuple[int, ...] | None]:
    """The place that Slurm or Open MPI gave this process, and which of the machine's devices are its own.

    Raises:
      HostsError: neither of them has started it.
    """
    from jax._src.clusters import ClusterEnv

    address, processes, process, devices = ClusterEnv.auto_detect_unset_distributed_params(
        None, None, None, None, None, int(seconds)
    )
    if address is None or processes is None or process is None:
        if {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"} <= os.environ.keys():  # of Open MPI 5, for one
            raise HostsError(
                "--distributed finds that Open MPI has started this process, but not where the first one is; give "
                "--coordinator HOST:PORT --processes $OMPI_COMM_WORLD_SIZE --process $OMPI_COMM_WORLD_RANK instead"
            )
        raise HostsError(
            "--distributed is for processes that Slurm or Open MPI has started, and finds neither; give --coordinator "
            "HOST:PORT --processes P --process I instead"
        )
    return Place(address, processes, process), None if devices is None else tuple(devices)


@contextlib.contextmanager
def joined(
    place: Place, about: About, wait: float, patience: float, devices: tuple[int, ...] | None = None
) -> Iterator[None]:
    """While its block runs, this process is one of those that train a run. JAX must not have been used before.

    Args:
      place: which one it is.
      about: what it was started with; the same in all.
      wait: seconds for all to come.
      patience: seconds after which a process that is not heard of ends the others.
      devices: numbers of the machine's devices that are its own; None: all.

    Raises:
      HostsError: they did not come together.
    """
    meet(place, about, wait)
    store = _connect(place, wait, patience, devices)
    watch = Watch(place, store, patience)
    _THIS.joined = Joined(place, store, watch, 2 * TIMES_STUCK * patience)
    try:
        with watch:
            try:
                yield
                gather(b"end")  # nobody leaves before the last checkpoint is sealed
            except BaseException as error:
                _THIS.failed = True
                known = isinstance(error, PqnError) or not isinstance(error, Exception)
                gone = None if known else watch.find_gone()
                watch.tell(gone or error)
                if gone is not None:
                    raise gone from error
                raise
    finally:
        _THIS.joined = None
    _disconnect()


def _connect(place: Place, wait: float, patience: float, devices: tuple[int, ...] | None) -> Store:
    import jax
    from jax._src import distributed

    logging.getLogger("jax._src.distributed").setLevel(logging.ERROR)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM from us
    if _is_loopback(place.address[0]):  # otherwise gloo listens at the address that the name of this machine has
        library = importlib.import_module("jaxlib._jax")
        make = functools.partial(library.make_gloo_tcp_collectives, hostname=place.address[0])
        library.__dict__["make_gloo_tcp_collectives"] = make
    jax.distributed.initialize(
        place.coordinator,
        place.processes,
        place.process,
        local_device_ids=devices,
        cluster_detection_method="deactivate",
        initialization_timeout=int(max(10, wait)),
        heartbeat_timeout_seconds=int(_TIMES_PATIENCE * patience),
        shutdown_timeout_seconds=int(max(5, patience)),
        coordinator_bind_address=place.coordinator,  # by default it would be every address of this machine
    )
    return cast(Store, distributed.global_state.client)


def _disconnect() -> None:
    import jax

    with contextlib.suppress(Exception):  # the work is done
        jax.distributed.shutdown()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return False


def leave_if_failed(status: int) -> None:
    """Ends this process at once if it has failed among others: JAX would wait for them to end."""
    if _THIS.failed:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
