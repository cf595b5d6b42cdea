"""A run on several devices gives the numbers of a run on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pqn.algorithms.packing import ALIGNED
from pqn.errors import ConfigError
from pqn.programs.spread import groups_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def compared(*cases: str) -> dict[str, dict]:
    """Of each case, by number of devices: the largest relative difference to one device; see `spread_cases`."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)]),
    }
    words = [sys.executable, str(HERE / "spread_cases.py"), *cases]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["case"]: row for row in rows}


def check(found: dict[str, dict]) -> None:
    for case, row in found.items():
        by_devices = row["differences"]
        most = 0.0 if case.endswith("seeds") else 1e-6  # only sums are rounded differently
        assert all(difference <= most for difference in by_devices.values()), (case, by_devices)


@pytest.mark.timeout(1200)
def test_numbers_do_not_depend_on_the_number_of_devices():
    found = compared("seeds", "shards", "recurrent, batch statistics", "batch norm")
    check(found)
    assert found["seeds"]["differences"] == {"2": 0.0}  # to the bit, evaluations included
    assert set(found["shards"]["differences"]) == {"2", "4"}
    # A checkpoint of 4 devices goes on with 1 and with 2, one of 2 with 1.
    assert len(found["shards"]["resumed"]) == 2 and max(found["shards"]["resumed"]) <= 1e-6
    assert found["seeds"]["resumed"] == [0.0]
    assert found["seeds"]["init_from"] == 0.0  # each seed gets its own weights, on whichever device it is
    # Two at the end of an update, for metrics and for faults. One in a gradient step: all parameters at once.
    *reports, gradient = found["shards"]["collectives"]
    small, large = 4 * 400 + 400 * 2 + 2 + 6 * 400, 400 * 400  # kernels, the last bias; bias, scale, shift of layers
    assert len(reports) == 2 and max(reports) < 100 and gradient == 4 * (small + -small % ALIGNED + large)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_numbers_of_every_kind_of_run_do_not_depend_on_the_number_of_devices():
    cases = ("four seeds", "two shards on a device", "seeds and shards", "recurrent", "recurrent, batch norm")
    found = compared(*cases, "vdn", "qmix", "ppo", "dqn")
    check(found)
    assert len(found) == 9


def fake_devices(*per_process: int) -> list:
    return [
        SimpleNamespace(process_index=process, id=10 * process + number)
        for process, count in enumerate(per_process)
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("seeds", "shards", "devices", "groups"),
    [
        (1, 1, (8,), [(0, 1, [0])]),  # nothing to spread
        (4, 1, (8,), [(0, 1, [0]), (1, 1, [1]), (2, 1, [2]), (3, 1, [3])]),
        (10, 1, (4,), [(0, 5, [0]), (5, 5, [1])]),
        (4, 2, (8,), [(0, 1, [0, 1]), (1, 1, [2, 3]), (2, 1, [4, 5]), (3, 1, [6, 7])]),
        (2, 4, (4,), [(0, 1, [0, 1]), (1, 1, [2, 3])]),  # seeds first
        (1, 4, (3,), [(0, 1, [0, 1])]),  # as many devices as divide the shards
        (1, 4, (2, 2), [(0, 1, [0, 1, 10, 11])]),
        (2, 1, (4, 4), [(0, 1, [0]), (1, 1, [10])]),  # every process has something to do
        (2, 2, (2, 2), [(0, 1, [0, 1]), (1, 1, [10, 11])]),  # a seed stays on one machine if it can
        (1, 8, (1, 4), [(0, 1, [0, 10])]),  # the same number of devices in each process
    ],
)
def test_devices_are_given_to_seeds_first_and_then_to_shards(seeds, shards, devices, groups):
    found = groups_of(seeds, shards, fake_devices(*devices))
    assert [(group.first, group.seeds, [device.id for device in group.devices]) for group in found] == groups


def test_a_process_without_work_is_refused():
    with pytest.raises(ConfigError, match=r"seeds 1 × shards 3 .* among 2 processes; try shards 6, or seeds 2"):
        groups_of(1, 3, fake_devices(2, 2))
