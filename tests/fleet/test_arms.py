"""Arms on this machine: here, in processes, after deaths; the results are those of serial runs."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, tiny

from pqn.errors import RunError
from pqn.fleet import placement, processes
from pqn.fleet.arms import Arm, Outcome, exit_status, log_of, open_log, refuse_another
from pqn.fleet.placement import Placement, run_arms
from pqn.presets import preset
from pqn.progress import Progress
from pqn.runs.directory import RunDir, read_summary
from pqn.runs.metrics import read_metrics

QUIET = Progress(quiet=True)
LAMBDAS = (0.0, 0.3, 0.6, 0.9)
SETTINGS = TINY | {"save.checkpoints": 40, "save.keep": 1, "log.rows": 5, "total_steps": 64 * 2500}  # some seconds
LONG = preset("cartpole").replace(SETTINGS).validate()
needs_ray = pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="the extra `ray` is not installed")


def arms(out: Path, config=LONG) -> list[Arm]:
    return [Arm(f"lam-{lam}", config.replace({"learner.lam": lam}), out / f"lam-{lam}") for lam in LAMBDAS]


def learned(run: Path) -> tuple:
    """What a run has learned and seen, without the time it took: rows, and the bytes of the last checkpoint."""
    rows = [
        {name: value for name, value in row.items() if name not in ("wall", "steps_per_second", "peak_memory_bytes")}
        for row in read_metrics(run / "metrics.jsonl")
    ]
    (last,) = [path for path in (run / "checkpoints").iterdir() if path.is_dir()]
    arrays = {file.name: file.read_bytes() for file in last.iterdir() if file.suffix == ".safetensors"}
    assert arrays
    return rows, arrays, read_summary(RunDir.open(run))["eval_return"]


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """What the four arms learn one after the other."""
    out = tmp_path_factory.mktemp("serial")
    outcomes = run_arms(arms(out), Placement(), QUIET)
    assert exit_status(outcomes) == 0
    return [learned(arm.out) for arm in arms(out)]


class Killer(threading.Thread):
    """Kills the process that trains an arm, once the arm has a checkpoint."""

    def __init__(self, run: Path):
        super().__init__(daemon=True)
        self.run_directory, self.killed = run, 0

    def run(self) -> None:
        checkpoints, deadline = self.run_directory / "checkpoints", time.monotonic() + 240
        while time.monotonic() < deadline and not self.killed:
            if checkpoints.is_dir() and any(path.is_dir() for path in checkpoints.glob("[!.]*")):
                self.killed = int((self.run_directory / ".lock").read_text().split()[0])
                os.kill(self.killed, signal.SIGKILL)
                assert not (self.run_directory / "summary.json").exists()
            time.sleep(0.005)


def resumed(arm: Arm) -> bool:
    """Whether the log of an arm has two starts."""
    return log_of(arm).read_text().count("run directory:") == 2


def test_processes_one_of_which_is_killed_equal_serial_runs(tmp_path, serial):
    """And an arm that fails is reported, in its place, and hides none of the others."""
    wanted = arms(tmp_path)
    bad = Arm("bad", LONG.replace({"env.name": "no_such_module:make"}), tmp_path / "bad")
    killer = Killer(wanted[1].out)
    killer.start()
    outcomes = run_arms([wanted[0], bad, *wanted[1:]], Placement(jobs=2), QUIET)
    assert killer.killed and resumed(wanted[1])
    assert [outcome.arm.label for outcome in outcomes] == ["lam-0.0", "bad", "lam-0.3", "lam-0.6", "lam-0.9"]
    assert "no_such_module" in (outcomes.pop(1).error or "")
    assert [outcome.error for outcome in outcomes] == [None] * 4
    assert [learned(arm.out) for arm in wanted] == serial


@needs_ray
def test_a_local_ray_one_of_whose_workers_is_killed_equals_serial_runs(tmp_path, serial):
    """An arm that fails hides none of the others. Ray listens on the loopback interface only, and leaves nothing."""
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    runs = [out / f"name-cartpole-v1_lam-{lam}" for lam in LAMBDAS]
    points = ",".join([*(f"CartPole-v1:{lam}" for lam in LAMBDAS), "CartPole-v7:0.5"])
    killer, before = Killer(runs[2]), listening()
    killer.start()
    process = ray_sweep(out, home, "--over", f"env.name,learner.lam={points}", "--cpus-per-run", "0.5")
    wait_for(lambda: killer.killed or process.poll() is not None)
    heard = listening() - before
    said, errors = process.communicate(timeout=240)
    assert process.returncode == 2, errors
    assert killer.killed and resumed(Arm("", LONG, runs[2]))
    assert "name-cartpole-v7_lam-0.5 failed: There is no environment 'CartPole-v7'" in errors
    assert said.count("failed") == 1 and all(f"lam-{lam} " in said for lam in LAMBDAS)
    assert [learned(run) for run in runs] == serial
    assert heard and all(address.startswith("127.0.0.1:") for address in heard), heard
    assert not (home / ".ray").exists()


@needs_ray
def test_ray_is_asked_for_what_it_has(tmp_path):
    process = ray_sweep(tmp_path / "out", tmp_path, "--over", "learner.lam=0,1", "--gpus-per-run", "4")
    errors = process.communicate(timeout=240)[1]
    assert "--gpus-per-run is 4, but no machine of the Ray cluster has more than 0" in errors, errors
    assert process.returncode == 2 and not (tmp_path / "out").exists()


def ray_sweep(out: Path, home: Path, *words: str) -> subprocess.Popen[str]:
    """A sweep on a Ray of its own, in another process: this one has threads of JAX, which Ray must not fork."""
    import jax

    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    variables |= {"HOME": str(home), "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir)}
    options = [word for name, value in SETTINGS.items() for word in (f"--{name}", *map(str, np.atleast_1d(value)))]
    command = [sys.executable, "-m", "pqn", "sweep", "cartpole", *options, "--ray", "--out", str(out), *words]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def listening() -> set[str]:
    """The addresses on which processes of this machine listen, IPv4 ones also where a socket of IPv6 serves them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else []:
            fields = line.split()
            if fields[3] == "0A":
                host, port = fields[1].split(":")
                octets = [str(byte) for byte in bytes.fromhex(host[-8:])[::-1]]
                mapped = len(host) == 8 or host.startswith("0000000000000000FFFF0000")
                found.add(f"{'.'.join(octets) if mapped else host}:{int(port, 16)}")
    return found


def test_a_process_that_always_dies_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text(
        "import os, pathlib, signal\n"
        "with open(pathlib.Path(__file__).with_name('starts'), 'a') as file: file.write('x')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    arm = Arm("a", tiny({"env.name": "deadly:make"}), tmp_path / "a")
    (outcome,) = run_arms([arm], Placement(jobs=2, retries=1), QUIET)
    assert outcome.error is not None and outcome.error.startswith("its process was killed by SIGKILL; ")
    assert outcome.status == 1 and (tmp_path / "starts").read_text() == "xx"


def test_an_arm_with_another_configuration_is_refused(tmp_path, finished_run):
    config = tiny(seeds=2)
    same, other = (Arm("a", each, finished_run.run) for each in (config, config.replace({"learner.lr": 0.5})))
    assert refuse_another(same, print)
    with pytest.raises(RunError, match=r"learner\.lr is 0\.5 in this sweep and 0\.0001 in that run"):
        refuse_another(other, print)
    assert run_arms([same], Placement(), QUIET)[0].error is None  # complete: nothing is trained


def test_a_failure_elsewhere_is_told_whatever_paths_the_cluster_was_given(tmp_path, monkeypatch):
    """Ray's machines get absolute paths, and outcomes come back with those."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        placement, "run_on_ray", lambda arms, *_: [Outcome(arm.resolved(), "no room", 2) for arm in arms]
    )
    arm = Arm("a", tiny(), Path("runs/a"))
    assert run_arms([arm], Placement(ray="local"), QUIET) == [Outcome(arm, "no room", 2)]


def test_gpus_are_dealt_out_and_shared(monkeypatch, tmp_path):
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert processes.visible_gpus() == ["2", "5"]
    given = [processes.environment(slot, 3, ["2", "5"]) for slot in range(3)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in given] == ["2", "5", "2"]
    assert {each["XLA_PYTHON_CLIENT_MEM_FRACTION"] for each in given} == {"0.450"}
    alone = processes.environment(1, 2, ["2", "5"])
    assert alone["CUDA_VISIBLE_DEVICES"] == "5" and "XLA_PYTHON_CLIENT_MEM_FRACTION" not in alone
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.3")
    assert processes.environment(0, 3, ["2", "5"])["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.3"  # the user's own
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (tmp_path / "0000:01:00.0").mkdir()
    assert processes.visible_gpus(tmp_path) == ["0"] and processes.visible_gpus(tmp_path / "none") == []
    assert "CUDA_VISIBLE_DEVICES" not in processes.environment(0, 2, [])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_wants_them(tmp_path, number):
    """By Ctrl-C they save and stop; where the first is killed, they notice."""
    words = [sys.executable, "-m", "pqn", "sweep", "cartpole", "--over", "learner.lam=0,0.5", "--jobs", "2"]
    words += ["--total-steps", "20_000_000", "--save.checkpoints", "100", "--quiet", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    runs = [tmp_path / "out" / label for label in ("lam-0", "lam-0.5")]
    wait_for(lambda: all((run / "checkpoints").is_dir() for run in runs))
    workers = [int((run / ".lock").read_text().split()[0]) for run in runs]
    process.send_signal(number)
    assert process.wait(120) == (130 if number == signal.SIGINT else -number)
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), 120)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    for run in runs:
        assert not (run / "summary.json").exists()
        RunDir.open(run).lock()  # nobody trains there any more


def test_a_directory_may_be_a_text(tmp_path):
    arm = Arm("a", tiny(), str(tmp_path / "a"))  # pyright: ignore[reportArgumentType]
    assert not arm.is_complete() and arm.out == tmp_path / "a"


def test_a_log_is_a_file_of_the_folder(tmp_path):
    """An old folder of somebody else: a pipe would be waited for, and a link would lead elsewhere."""
    arm = Arm("lam-0", LONG, tmp_path / "sweep" / "lam-0")
    open_log(arm).close()
    log_of(arm).unlink()
    os.mkfifo(log_of(arm))
    with pytest.raises(RunError, match=r"lam-0.log is a pipe where a file of the run itself should be"):
        open_log(arm)
    log_of(arm).unlink()
    log_of(arm).symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="is a symbolic link"):
        open_log(arm)
    assert not (tmp_path / "precious").exists()
