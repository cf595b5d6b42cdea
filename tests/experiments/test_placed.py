"""Arms of experiments in other processes and on Ray: their results are those of serial runs."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from made import arm_of
from test_runner import SMALL

from pqn.experiments import campaign, envelope, runner
from pqn.experiments.envelope import Envelope
from pqn.experiments.paper import Arm
from pqn.experiments.placed import PlacedArm
from pqn.fleet.placement import Placement
from pqn.fleet.work import from_line, to_line
from pqn.progress import Progress

QUIET = Progress(quiet=True)
TRAINED, FAILING = arm_of("classic", "pqn-cartpole"), arm_of("classic", "pqn-acrobot")
COMPUTED = arm_of("baird", "sampled-layer-l2")
# Some seconds of the small CartPole, whose program other tests compile.
LONG = SMALL | {"total_steps": 64 * 2500, "save.checkpoints": 40}
SHARE = 0.01


def overrides(arm: Arm) -> dict[str, object]:
    if arm is COMPUTED:
        return {"records": 20}
    return LONG if arm is TRAINED else LONG | {"env.name": "no_such_module:make"}


def results(out: Path, arm: Arm) -> Envelope:
    ((_, found),) = envelope.read_arm(out, arm.experiment, arm.name)
    assert isinstance(found, Envelope)
    return found


def assert_same(found: Envelope, wanted: Envelope) -> None:
    """All but who made it and how long that took."""
    clocks = {"calls", "seconds", "steps_per_second", "peak_bytes", "runs"}
    mine, theirs = ({k: v for k, v in each.to_dict().items() if k not in clocks} for each in (found, wanted))
    for each in (mine, theirs):
        each["final"] = {k: v for k, v in each["final"].items() if "second" not in k}
        each["curves"] = {k: v | {"seconds": None} for k, v in each["curves"].items()}
    assert mine == theirs


def kill_once_begun(run: Path, killed: list[int]) -> None:
    """Kills the process that trains a run, once the run has a checkpoint."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not killed:
        if list(run.glob("*/checkpoints/step-*")):
            (lock,) = run.glob("*/.lock")
            os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
            killed.append(1)
        time.sleep(0.005)


def test_arms_in_processes_one_of_which_is_killed_equal_serial_ones(tmp_path):
    """And one that fails is told, and kept for the list, while the others are done."""
    arms, out, serial = [FAILING, TRAINED, COMPUTED], tmp_path / "out", tmp_path / "serial"
    wanted = campaign.run_arms(arms[1:], SHARE, 1, serial, overrides=overrides, progress=QUIET)
    assert [outcome.state for outcome in wanted] == ["done", "done"]
    killed: list[int] = []
    attempt = out / "runs" / "classic" / "pqn-cartpole" / f"share-{SHARE}-seeds-1-attempt-1"
    killer = threading.Thread(target=kill_once_begun, args=(attempt, killed), daemon=True)
    killer.start()
    outcomes = campaign.run_arms(
        arms, SHARE, 1, out, overrides=overrides, placement=Placement(jobs=2), progress=QUIET
    )  # fmt: skip
    assert killed
    assert [(outcome.arm, outcome.state) for outcome in outcomes] == [
        (FAILING, "failed"), (TRAINED, "done"), (COMPUTED, "done")
    ]  # fmt: skip
    assert "no_such_module" in outcomes[0].why and "no_such_module" in runner.failures(FAILING, out)[0]
    for arm, outcome in zip(arms[1:], outcomes[1:], strict=True):
        assert_same(results(out, arm), results(serial, arm))
        assert outcome.path is not None and outcome.path.is_relative_to(out)
    assert len(results(out, TRAINED).calls) == 2 and len(results(serial, TRAINED).calls) == 1
    # Nothing is left to do; asked for another result, there is one.
    again = campaign.run_arms([COMPUTED], SHARE, 1, out, overrides=overrides, placement=Placement(jobs=2), again=True)
    assert again[0].state == "done" and again[0].path != outcomes[2].path
    same = campaign.run_arms([COMPUTED], SHARE, 1, out, overrides=overrides, placement=Placement(jobs=2))
    assert same[0].path == again[0].path and len(list((out / "baird").rglob("*.json"))) == 2


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="the extra `ray` is not installed")
@pytest.mark.slow  # a Ray of its own; that of sweeps is in the quick suite
def test_arms_on_a_local_ray_equal_serial_ones(tmp_path):
    """With a relative --out, which the workers of Ray would not understand."""
    other = arm_of("baird", "expected-layer-l2")
    campaign.run_arms([COMPUTED, other], SHARE, 2, tmp_path / "serial", progress=QUIET)
    words = ["baird", "--arms", COMPUTED.name, other.name, "--share", str(SHARE), "--seeds", "2", "--out", "out"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    variables |= {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
    command = [sys.executable, "-m", "pqn", "reproduce", *words, "--ray", "--cpus-per-run", "0.5"]
    done = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr
    for arm in (COMPUTED, other):
        assert_same(results(tmp_path / "out", arm), results(tmp_path / "serial", arm))
        assert f"done: baird/{arm.name}: out/baird/{arm.name}/" in done.stdout


def test_after_the_deadline_nothing_is_begun_elsewhere(tmp_path):
    outcomes = campaign.run_arms(
        [TRAINED, COMPUTED], 1.0, 1, tmp_path, minutes=1e-9, placement=Placement(jobs=2), progress=QUIET
    )
    assert [outcome.state for outcome in outcomes] == ["left", "left"] and "are left" in outcomes[0].why
    assert not list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob("attempt-*"))


def test_an_arm_can_be_sent(tmp_path):
    arm = PlacedArm("classic", "pqn-cartpole", 0.5, 3, tmp_path, 1, 0.3, LONG, 1e9)
    assert from_line(to_line(arm)) == arm and arm.paper_arm is TRAINED
    assert arm.label == "classic/pqn-cartpole" and arm.out.parent.parent == tmp_path / "runs"
    with pytest.raises(ValueError, match="os:system is no task of pqn"):
        from_line('{"task": "os:system"}')
