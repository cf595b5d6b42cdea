"""Processes that come together, and those that do not: one sentence each, in time."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pqn.hosts.meeting import HostsError, Place, meet

SAME = {"learner.lr": "0.1", "version of jax": "1"}


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def outcome(place: Place, about: dict[str, str], seconds: float) -> str | None:
    try:
        return meet(place, about, seconds)
    except HostsError as error:
        return str(error)


def meeting(*given: tuple[int, int, dict[str, str]], seconds: float = 5.0) -> list[str | None]:
    """What each process, (number, how many, about), gets to hear; None: go on."""
    address = free_address()
    with ThreadPoolExecutor(len(given)) as threads:
        return list(threads.map(lambda p: outcome(Place(address, p[1], p[0]), p[2], seconds), given))


def test_processes_that_were_started_alike_go_on():
    assert meeting((0, 3, SAME), (1, 3, SAME), (2, 3, SAME)) == [None, None, None]


def test_one_process_alone_waits_for_nobody():
    assert meeting((0, 1, SAME)) == [None]


def test_different_options_or_versions_are_named_to_all():
    other = SAME | {"learner.lr": "0.2"}
    first, second = meeting((0, 2, SAME), (1, 2, other))
    assert first == second
    assert first is not None and first.endswith("something else: learner.lr is 0.2 there and 0.1 in process 0")
    assert first.startswith("process 1 on ")
    first, _ = meeting((0, 2, SAME), (1, 2, SAME | {"version of jax": "2"}))
    assert first is not None and "version of jax is 2 there and 1 in process 0" in first


def test_a_process_too_few_is_named_in_time():
    began = time.monotonic()
    first, second = meeting((0, 3, SAME), (2, 3, SAME), seconds=1.0)
    assert first == second == "process 1 of 3 did not come within 1 s"
    assert time.monotonic() - began < 8


def test_nobody_at_the_coordinator_is_said_in_time():
    address, began = free_address(), time.monotonic()
    said = outcome(Place(address, 2, 1), SAME, 0.5)
    assert said is not None and said.startswith(f"process 0 does not answer at {address} within 0.5 s")
    assert time.monotonic() - began < 5


def test_two_processes_of_one_number_and_another_count_are_refused():
    said = meeting((0, 3, SAME), (1, 3, SAME), (1, 3, SAME), seconds=2.0)
    assert said[0] == "two processes were started with --process 1; each needs its own number"
    said = meeting((0, 2, SAME), (1, 4, SAME))
    assert said[0] is not None and "was started with --processes 4, process 0 with 2" in said[0]


def test_strangers_are_ignored():
    address = free_address()
    host, port = Place(address, 2, 0).address
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(outcome, Place(address, 2, 0), SAME, 10.0)
        for text in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"pqn": 1}\n', b""):
            for _ in range(50):
                try:
                    with socket.create_connection((host, port), timeout=1) as stranger:
                        stranger.sendall(text)
                    break
                except OSError:  # not listening yet
                    time.sleep(0.05)
        assert outcome(Place(address, 2, 1), SAME, 10.0) is None
        assert first.result() is None


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (Place("nowhere", 2, 0), "the coordinator is HOST:PORT"),
        (Place("host:0", 2, 0), "the coordinator is HOST:PORT"),
        (Place("127.0.0.1:4000", 2, 2), "process 2 of 2; they are numbered from 0 to 1"),
        (Place("no-such-host.invalid:4000", 2, 1), "not known here"),
    ],
)
def test_an_impossible_place_is_one_sentence(place, sentence):
    with pytest.raises(HostsError, match=sentence):
        meet(place, SAME, 0.5)


def test_a_port_that_is_taken_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = Place(f"127.0.0.1:{server.getsockname()[1]}", 2, 0)
        with pytest.raises(HostsError, match=r"process 0 cannot listen at 127.0.0.1:\d+: "):
            meet(place, SAME, 0.5)
