"""`--distributed`: two real processes with the environment variables that a launcher gives its processes."""

from __future__ import annotations

import socket

import pytest
from pair import LIMIT, Launch, Pair, arrays_of, assert_close, one_process, words_of

from pqn.cli.main import main
from pqn.hosts import processes
from pqn.hosts.meeting import HostsError, Place

pytestmark = pytest.mark.timeout(2 * LIMIT)
FIRST_PORT = 2**16 - 2**12  # JAX derives the port of a job from the job's number, in this range
SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
OPEN_MPI = ("OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")


def free_number() -> int:
    """The number of a job whose port is free."""
    for number in range(2**12):
        try:
            socket.create_server(("127.0.0.1", FIRST_PORT + number)).close()
        except OSError:
            continue
        return number
    raise AssertionError("no port is free")


def by_slurm(job: int) -> Launch:
    """As `srun --ntasks 2` on one machine of two."""

    def launch(number: int) -> tuple[list[str], dict[str, str]]:
        values = (str(job), "localhost,node[002-004]", "2", str(number), "0")
        return ["--distributed"], dict(zip(SLURM, values, strict=True))

    return launch


def by_open_mpi(job: int) -> Launch:
    """As `mpirun -n 2`."""

    def launch(number: int) -> tuple[list[str], dict[str, str]]:
        values = (f"{job * 2**12}.0;tcp://127.0.0.1,10.0.0.1:34911", "2", str(number), str(number))
        return ["--distributed"], dict(zip(OPEN_MPI, values, strict=True))

    return launch


@pytest.mark.parametrize("by", [by_slurm, pytest.param(by_open_mpi, marks=pytest.mark.slow)])
def test_processes_that_a_launcher_started_train_together(tmp_path, by):
    with Pair(tmp_path, [*words_of(10), "--out", "run"], launch=by(free_number())) as pair:
        assert [pair.wait(0), pair.wait(1)] == [0, 0], pair.said(0) + pair.said(1)
    assert_close(arrays_of(tmp_path / "run"), arrays_of(one_process(tmp_path, 10)), 1e-6)
    assert "greedy return" in pair.logs[0].read_text() and "greedy return" not in pair.logs[1].read_text()


def test_the_place_of_a_process_is_read_from_its_launcher(monkeypatch):
    for name in (*SLURM, *OPEN_MPI, "JAX_COORDINATOR_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(HostsError, match="finds neither; give --coordinator"):
        processes.detect(1.0)
    monkeypatch.setenv("SLURM_JOB_ID", "5000")
    with pytest.raises(HostsError, match="finds neither"):  # in a job, but not started by `srun`
        processes.detect(1.0)
    for name, value in zip(SLURM, ("5000", "gpu[007,009-12]", "16", "9", "1"), strict=True):
        monkeypatch.setenv(name, value)
    assert processes.detect(1.0) == (Place(f"gpu007:{FIRST_PORT + 904}", 16, 9), (1,))
    for name in SLURM:
        monkeypatch.delenv(name)
    for name, value in by_open_mpi(3)(1)[1].items():
        monkeypatch.setenv(name, value)
    assert processes.detect(1.0) == (Place(f"127.0.0.1:{FIRST_PORT + 3}", 2, 1), (1,))
    monkeypatch.delenv(OPEN_MPI[0])  # newer versions have other ways to say it, which JAX does not read
    with pytest.raises(HostsError, match="not where the first one is; give --coordinator HOST:PORT --processes"):
        processes.detect(1.0)


def test_without_a_launcher_there_is_one_sentence(monkeypatch, capsys):
    for name in (*SLURM, *OPEN_MPI):
        monkeypatch.delenv(name, raising=False)
    assert main(["train", "cartpole", "--distributed"]) == 2
    assert "--distributed is for processes that Slurm or Open MPI has started" in capsys.readouterr().err
