"""Run directories: created once, locked against a second process, written whole."""

from __future__ import annotations

import datetime
import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pqn.errors import RunError
from pqn.runs import directory as runs
from pqn.runs import provenance
from pqn.runs.directory import RunDir, default_path
from pqn.runs.provenance import describe_environment

SOURCE = str(Path(runs.__file__).parents[2])


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------- create and open


def test_create_makes_parents_and_open_finds_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with RunDir.create(path) as run:
        run.write_json(runs.CONFIG, {"env": "x"})
    opened = RunDir.open(path)
    assert opened.path == path and opened.read_json("config.json") == {"env": "x"}
    assert opened.metrics == path / "metrics.jsonl" and opened.checkpoints == path / "checkpoints"


def test_create_refuses_a_run_and_says_how_to_resume(tmp_path: Path) -> None:
    with RunDir.create(tmp_path) as run:
        run.write_json(runs.CONFIG, {})
    with pytest.raises(RunError, match=re.escape(f"already holds a run: continue it with `pqn resume {tmp_path}`")):
        RunDir.create(tmp_path)
    RunDir.open(tmp_path).lock()  # the refusal holds no lock


def test_create_accepts_what_a_crash_before_the_configuration_left(tmp_path: Path) -> None:
    RunDir.create(tmp_path).unlock()
    RunDir.create(tmp_path).unlock()


def test_open_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, what in [("absent", "it does not exist"), ("file", "it is a file"), (".", "it has no config.json")]:
        with pytest.raises(RunError, match=f"is not a run directory: {what}$"):
            RunDir.open(tmp_path / name)
    for name in ("b", "a"):  # as in the directory of a sweep
        (tmp_path / "sweep" / name).mkdir(parents=True)
        (tmp_path / "sweep" / name / "config.json").write_text("{}")
    with pytest.raises(RunError, match=f"it has no config.json, but holds runs, such as {tmp_path / 'sweep' / 'a'}$"):
        RunDir.open(tmp_path / "sweep")


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(RunError, match=r"cannot create the run directory .*: a file is in the way"):
            RunDir.create(path)
    with pytest.raises(RunError, match="a file is in the way"):
        RunDir.create(root=tmp_path / "file")


def test_an_unwritable_place(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    place = Path("/proc/pqn") if os.geteuid() == 0 else tmp_path / "run"
    for create in (lambda: RunDir.create(place), lambda: RunDir.create(root=place)):
        with pytest.raises(RunError, match=r"cannot create the run directory"):
            create()
    tmp_path.chmod(0o700)


def test_default_directory_is_named_after_preset_and_time(tmp_path: Path) -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5)
    first = default_path("cartpole", tmp_path, now)
    assert first == tmp_path / "cartpole-20260102-030405"
    first.mkdir()
    second = default_path("cartpole", tmp_path, now)
    assert second.name == "cartpole-20260102-030405-2"
    second.mkdir()
    assert default_path("cartpole", tmp_path, now).name == "cartpole-20260102-030405-3"
    assert default_path("my.module:make/env", tmp_path, now).name == "my.module-make-env-20260102-030405"


def test_default_runs_of_the_same_second_get_two_directories(tmp_path: Path) -> None:
    made = [RunDir.create(preset="p", root=tmp_path / "runs") for _ in range(3)]
    assert len({run.path for run in made}) == 3
    assert all(re.fullmatch(r"p-\d{8}-\d{6}(-\d)?", run.path.name) for run in made)


# -------------------------------------------------------------------------------------------------------------- lock

HOLD = """
import sys
from pqn.runs.directory import RunDir
run = RunDir.create(sys.argv[1])
run.write_json("config.json", {})
print("held", flush=True)
sys.stdin.read()
"""

TRY = """
import sys
from pqn.errors import RunError
from pqn.runs.directory import RunDir
try:
    RunDir.open(sys.argv[1]).lock()
except RunError as error:
    print(error)
else:
    print("locked")
"""


def test_a_second_process_refuses_until_the_first_is_gone(tmp_path: Path) -> None:
    holder = python(HOLD, str(tmp_path))
    assert holder.stdout and holder.stdout.readline() == "held\n"
    assert (tmp_path / ".lock").read_text().split()[0] == str(holder.pid)
    with pytest.raises(RunError, match=f"is in use by process {holder.pid}: wait"):
        RunDir.open(tmp_path).lock()
    said, _ = python(TRY, str(tmp_path)).communicate(timeout=20)
    assert f"in use by process {holder.pid}" in said
    holder.send_signal(signal.SIGKILL)  # cleans nothing up
    holder.communicate(timeout=20)
    with RunDir.open(tmp_path) as run:
        run.lock()
        assert (tmp_path / ".lock").read_text().split()[0] == str(os.getpid())


def test_two_creators_of_one_directory(tmp_path: Path) -> None:
    """The second comes after the first took the lock and before it wrote its configuration."""
    first = RunDir.create(tmp_path)
    with pytest.raises(RunError, match="is in use by process"):
        RunDir.create(tmp_path)
    first.unlock()


def test_lock_and_unlock_may_be_repeated(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path)
    run.lock()
    run.unlock()
    run.unlock()
    run.lock()
    run.unlock()


def test_a_lock_held_on_another_machine_names_it(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path)
    (tmp_path / ".lock").write_text("123 elsewhere\n")
    with pytest.raises(RunError, match="in use by process 123 on elsewhere"):
        RunDir(tmp_path).lock()
    (tmp_path / ".lock").write_text("")  # locked, but its process id not yet written
    with pytest.raises(RunError, match="in use by another process"):
        RunDir(tmp_path).lock()
    run.unlock()


def test_file_systems_without_locks_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.warns(UserWarning, match="has no locks"):
        RunDir.create(tmp_path)


# -------------------------------------------------------------------------------------------------------------- files


def test_json_is_valid_and_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir.create(tmp_path)
    run.write_json("summary.json", {"mean": float("nan"), "steps": 3})
    assert json.loads((tmp_path / "summary.json").read_text()) == {"mean": None, "steps": 3}

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        monkeypatch.context() as patch,
        pytest.raises(RunError, match=r"cannot write .*summary.json: the disk is full"),
    ):
        patch.setattr(os, "fsync", full)
        run.write_json("summary.json", {"steps": 4})
    assert run.read_json("summary.json")["steps"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "summary.json"]


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    with pytest.raises(RunError, match=r"has no summary.json"):
        run.read_json("summary.json")
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(RunError, match=r"summary.json is damaged: it is not valid JSON"):
        run.read_json("summary.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(RunError, match=r"folder.json is a directory where a file of the run itself should be"):
        run.read_json("folder.json")


# ------------------------------------------------------------------------------------------------------- environment


def test_environment_names_versions_command_and_time() -> None:
    description = describe_environment(["pqn", "train", "cartpole"])
    json.dumps(description, allow_nan=False)
    assert description["command"] == ["pqn", "train", "cartpole"]
    assert {"python", "pqn", "jax", "jaxlib", "flax", "optax", "gymnax", "numpy"} == set(description["versions"])
    assert description["versions"]["jax"]
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(description["time"])
    assert abs(age) < datetime.timedelta(minutes=1)


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


def test_commit_is_that_of_the_checkout_and_of_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if provenance._git(tmp_path, "--version") is None:
        pytest.skip("no git")
    package = tmp_path / "src" / "pqn"
    package.mkdir(parents=True)
    (package / "any.py").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    monkeypatch.setattr(provenance, "__file__", str(package / "runs" / "provenance.py"))
    commit, dirty = provenance._source_commit()
    assert commit is not None and re.fullmatch("[0-9a-f]{40}", commit) and dirty is False
    (tmp_path / "notes").write_text("not the package")
    assert provenance._source_commit() == (commit, False)
    (package / "any.py").write_text("changed")
    assert provenance._source_commit() == (commit, True)
    # installed into an environment inside somebody's repository
    installed = tmp_path / "venv" / "site-packages" / "pqn"
    installed.mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(installed / "runs" / "provenance.py"))
    assert provenance._source_commit() == (None, None)


def test_no_git_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert describe_environment()["git"] == {"commit": None, "dirty": None, "source": None}


def test_a_commit_may_be_claimed_where_there_is_no_git(monkeypatch):
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    monkeypatch.setenv("PQN_COMMIT", "0123abc")
    assert provenance.describe_source() == {"commit": "0123abc", "dirty": None, "source": "PQN_COMMIT"}
    monkeypatch.setenv("PQN_COMMIT", "main; rm")
    assert provenance.describe_source()["commit"] is None
    monkeypatch.setattr(provenance, "_source_commit", lambda: ("f" * 40, True))
    monkeypatch.setenv("PQN_COMMIT", "0123abc")
    assert provenance.describe_source() == {"commit": "f" * 40, "dirty": True, "source": "git"}


def test_a_commit_may_be_baked_into_the_package(monkeypatch, tmp_path):
    """For a copy of the code that has neither git nor the variable; `make baked-commit` writes it."""
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    monkeypatch.delenv("PQN_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "runs" / "provenance.py"))
    assert provenance.describe_source() == {"commit": None, "dirty": None, "source": None}
    (tmp_path / provenance.BAKED).write_text(f"{'a' * 40}\n")
    assert provenance.describe_source() == {"commit": "a" * 40, "dirty": None, "source": "baked-commit"}
    monkeypatch.setenv("PQN_COMMIT", "0123abc")
    assert provenance.describe_source()["source"] == "PQN_COMMIT"


def test_a_machine_is_described_with_what_was_asked_of_the_compiler(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    found = provenance.describe_machine()
    assert found["xla_flags"] == "--xla_dump_to=x" and "JAX_PLATFORMS=cpu" in str(found["jax_variables"])
    assert found["device"] == "cpu: cpu" and "host" not in found
    assert {"jax", "gymnax", "craftax"} <= set(provenance.all_versions())


def test_listing_and_plotting_runs_never_import_jax() -> None:
    code = (
        "import sys, pqn.runs.directory, pqn.runs.metrics, pqn.errors, pqn.report.statistics, pqn.report.figures\n"
        "from pqn.report.terminal_chart import terminal_curve\n"
        "terminal_curve([1, 2], [1.0, 2.0])\n"
        "print(sorted({'jax', 'flax', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    out, error = python(code).communicate(timeout=20)
    assert out == "[]\n", error
