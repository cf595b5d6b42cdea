"""Who is gone, who has failed and who hangs, as the other processes see it."""

from __future__ import annotations

import time

import pytest

from pqn.hosts import watch as watching
from pqn.hosts.meeting import Place
from pqn.hosts.watch import Watch


class Store(dict):
    """JAX's key-value store, in this process."""

    def key_value_set_bytes(self, key, value, allow_overwrite=False):
        self[key] = value

    def key_value_dir_get_bytes(self, key):
        return [(name, value) for name, value in self.items() if name.startswith(key + "/")]


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(watching.time, "monotonic", clock)
    return clock


def watch_of(store, process=0, patience=10.0, processes=3):
    watch = Watch(Place("127.0.0.1:4000", processes, process), store, patience)
    watch._signs = {other: (b"", time.monotonic()) for other in range(processes) if other != process}
    return watch


def sign(store, process, beat, progress=0):
    store[f"pqn/alive/{process}"] = f"{beat} {progress} host-{process}".encode()


def test_signs_of_life_keep_a_process_alive(clock):
    store = Store()
    watch = watch_of(store)
    for beat in range(30):
        clock.now += 1
        sign(store, 1, beat), sign(store, 2, beat)
        assert watch.trouble(10.0) is None


def test_a_silent_process_is_named(clock):
    store = Store()
    watch = watch_of(store)
    sign(store, 1, 0), sign(store, 2, 0)
    assert watch.trouble(10.0) is None
    clock.now += 9
    sign(store, 1, 1)
    assert watch.trouble(10.0) is None
    clock.now += 2
    assert watch.trouble(10.0).startswith("process 2 on host-2 has not been heard of for 11 s; the last checkpoint is")


def test_a_process_that_never_spoke_is_named(clock):
    watch = watch_of(Store(), processes=2)
    clock.now += 11
    assert watch.trouble(10.0).startswith("process 1 has not been heard of")


def test_a_failure_is_passed_on_at_once(clock):
    store = Store()
    watch_of(store, process=1).tell(ValueError("the disk\n is full"))
    assert watch_of(store).trouble(10.0) == "process 1 has ended: the disk is full"
    assert watch_of(store, process=1).trouble(10.0) is None  # its own


def test_a_process_that_is_alive_but_stays_behind_is_named(clock):
    store = Store()
    watch = watch_of(store)
    watch.progress = 5
    for beat in range(102):
        clock.now += 1
        sign(store, 1, beat, 5), sign(store, 2, beat, 4)
        found = watch.trouble(10.0)
        assert (found is None) == (beat < 101), beat
    assert found.startswith("process 2 on host-2 has made no progress for 101 s")


def test_progress_of_any_kind_is_no_hang(clock):
    store = Store()
    watch = watch_of(store, processes=2)
    for beat in range(300):
        clock.now += 1
        watch.progress = 5 + beat // 50  # as long as one message takes
        sign(store, 1, beat, 4 + beat // 50)
        assert watch.trouble(10.0) is None


def test_a_store_that_is_gone_is_process_0(clock):
    class Gone(Store):
        def key_value_dir_get_bytes(self, key):
            raise RuntimeError("UNAVAILABLE")

    assert watch_of(Gone(), process=1).trouble(10.0).startswith("process 0 at 127.0.0.1:4000 cannot be reached")
