"""How the processes of a run find each other, before JAX connects them.

JAX ends a process without a sentence when the others do not come, and does not ask whether they were started with the
same options. So process 0 listens first at the address that JAX will use. The others say who they are and what they
were started with. All get the same answer: to go on, or why not.

Nothing is authenticated here or in JAX's own coordinator: the address belongs on a private network.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from typing import NamedTuple

from pqn.errors import PqnError, reason

MOST_BYTES = 2**20  # of a message
SECONDS_TO_SPEAK = 5.0  # for whoever has connected

About = Mapping[str, str]  # what a process was started with: name -> value


class HostsError(PqnError):
    """Processes that did not come together, or that did not stay together."""


class Place(NamedTuple):
    """One process among those of a run."""

    coordinator: str
    """Where process 0 listens, HOST:PORT."""
    processes: int
    process: int
    """Its number, from 0 on."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the coordinator.

        Raises:
          HostsError: it is not of the form HOST:PORT.
        """
        host, colon, port = self.coordinator.rpartition(":")
        if not (colon and host and port.isdigit() and 0 < int(port) < 2**16):
            raise HostsError(f"the coordinator is HOST:PORT, such as 10.0.0.1:4321, not {self.coordinator!r}")
        return host.strip("[]"), int(port)


def meet(place: Place, about: About, seconds: float) -> None:
    """Returns when all processes are there and were started with the same.

    Raises:
      HostsError: in every process that has come, with the same sentence.
    """
    _check(place)
    if place.processes > 1:
        (_receive if place.process == 0 else _announce)(place, about, seconds)


def _check(place: Place) -> None:
    _ = place.address
    if place.processes < 1:
        raise HostsError(f"there is at least 1 process, not {place.processes}")
    if not 0 <= place.process < place.processes:
        raise HostsError(
            f"this is process {place.process} of {place.processes}; they are numbered from 0 to {place.processes - 1}"
        )


def _receive(place: Place, about: About, seconds: float) -> None:
    """Process 0: hears all others, then answers all of them."""
    came: dict[int, tuple[socket.socket, str]] = {}
    refusal, deadline = None, time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(_listen(*place.address))
        except OSError as error:
            raise HostsError(f"process 0 cannot listen at {place.coordinator}: {reason(error)}") from error
        while len(came) < place.processes - 1 and refusal is None:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                missing = [str(number) for number in range(1, place.processes) if number not in came]
                refusal = f"process {', '.join(missing)} of {place.processes} did not come within {seconds:g} s"
                break
            stack.enter_context(connection)
            said = _read(connection)
            if said is None:  # somebody else: a browser, a scanner
                continue
            number, host, refusal = _hear(said, place, about, came)
            came[number] = connection, host
        for connection, _ in came.values():
            with contextlib.suppress(OSError):
                connection.sendall(_line({"refused": refusal}))
    if refusal is not None:
        raise HostsError(refusal)


def _hear(
    said: Mapping[str, object], place: Place, about: About, came: Mapping[int, tuple[socket.socket, str]]
) -> tuple[int, str, str | None]:
    """Number and host of a process that has come, and why it does not fit; None if it does."""
    number, host, theirs = said.get("process"), str(said.get("host"))[:100], said.get("about")
    if not isinstance(number, int) or not isinstance(theirs, dict):
        return -1, host, f"a process on {host} speaks another version of pqn"
    where = f"process {number} on {host}"
    if said.get("processes") != place.processes:
        return (
            number,
            host,
            f"{where} was started with --processes {said.get('processes')}, process 0 with {place.processes}",
        )
    if not 0 < number < place.processes or number in came:
        return number, host, f"two processes were started with --process {number}; each needs its own number"
    names = [name for name in sorted(about.keys() | theirs.keys()) if about.get(name) != theirs.get(name)]
    if names:
        differences = ", ".join(
            f"{name} is {theirs.get(name)} there and {about.get(name)} in process 0" for name in names[:3]
        )
        return number, host, f"{where} was started with something else: {differences}"
    return number, host, None


def _announce(place: Place, about: About, seconds: float) -> None:
    """The others: say who they are, and wait for the answer."""
    deadline = time.monotonic() + seconds
    hello = {"process": place.process, "processes": place.processes, "host": socket.gethostname(), "about": dict(about)}
    nobody = HostsError(
        f"process 0 does not answer at {place.coordinator} within {seconds:g} s; does it run, and is this its address?"
    )
    while True:
        try:
            with socket.create_connection(place.address, timeout=max(0.05, deadline - time.monotonic())) as connection:
                connection.sendall(_line(hello))
                answer = _read(connection, max(0.05, deadline + SECONDS_TO_SPEAK - time.monotonic()))
        except socket.gaierror as error:
            raise HostsError(f"the host of the coordinator {place.coordinator} is not known here") from error
        except OSError:
            answer = None
        if answer is not None and "refused" in answer:
            break
        if time.monotonic() > deadline:
            raise nobody
        time.sleep(0.1)
    if answer["refused"] is not None:
        raise HostsError(str(answer["refused"]))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=128)


def _line(message: Mapping[str, object]) -> bytes:
    return json.dumps({"pqn": "meeting", **message}).encode() + b"\n"


def _read(connection: socket.socket, seconds: float = SECONDS_TO_SPEAK) -> dict[str, object] | None:
    """One message; None where what came is none."""
    text, deadline = b"", time.monotonic() + seconds
    try:
        while not text.endswith(b"\n") and len(text) < MOST_BYTES:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            more = connection.recv(65536)
            if not more:
                return None
            text += more
        message = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.get("pqn") == "meeting" else None
