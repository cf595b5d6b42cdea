"""A buffer in the host's memory trains what one on the device trains, and a run with it resumes to the bit."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from conftest import tiny
from safetensors.numpy import load_file

from pqn.config import Config
from pqn.errors import DeviceError, Interrupted
from pqn.programs import host_buffer
from pqn.programs.hosted import HostedProgram
from pqn.progress import Progress
from pqn.training import resume, train
from pqn.training.loop import Loop

REPLAY = {
    "algorithm": "dqn",
    "learner.minibatches": 2,
    "replay.size": 256,
    "replay.start": 100,
    "replay.batch": 8,
    "target.interval": 3,
}


def config(place: str, env: str, **top: object) -> Config:
    return tiny(REPLAY | {"replay.place": place, "env.name": env}, **top)


def tensors(run) -> dict[str, np.ndarray]:
    newest = max((run / "checkpoints").glob("step-*"))
    return load_file(newest / "state.safetensors")


def interrupting(after_chunk):
    """Ctrl-C after the first chunk."""

    def interrupted(self, *arguments):
        after_chunk(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)

    return interrupted


def quietly(config: Config, out):
    return train(config, out=out, progress=Progress(quiet=True))


@pytest.mark.parametrize("env", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_the_host_trains_the_same_bits_as_the_device(env, tmp_path):
    here = quietly(config("device", env, seeds=2), tmp_path / "device")
    there = quietly(config("host", env, seeds=2), tmp_path / "host")
    expected, found = tensors(here.run), tensors(there.run)
    assert expected.keys() == found.keys()
    assert "learner/buffer/experience/inputs/obs" in found
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
    assert np.any(expected["learner/params/head/q/kernel"] != expected["learner/target/params/head/q/kernel"])
    memory = [result.summary["memory_bytes"] for result in (here, there)]
    assert memory[0]["buffer"] == memory[1]["buffer"] > 0
    assert memory[1]["planned"] < memory[0]["planned"]  # the device does not hold it


@pytest.mark.parametrize("env", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_run_with_a_buffer_on_the_host_resumes_to_the_bit(env, tmp_path, monkeypatch):
    whole = quietly(config("host", env), tmp_path / "whole")
    with pytest.raises(Interrupted), monkeypatch.context() as patch:
        patch.setattr(Loop, "after_chunk", interrupting(Loop.after_chunk))
        quietly(config("host", env), tmp_path / "stopped")
    resumed = resume(tmp_path / "stopped", progress=Progress(quiet=True))
    expected, found = tensors(whole.run), tensors(resumed.run)
    for name in [name for name in expected if name.startswith("learner/")]:
        if env == "CartPole-v1" or "buffer" not in name:
            assert expected[name].shape == found[name].shape
        if env == "CartPole-v1":  # Gymnasium's environments cannot be saved: open episodes start anew
            np.testing.assert_array_equal(expected[name], found[name], err_msg=name)


def test_a_buffer_too_large_for_the_device_goes_to_the_host(monkeypatch):
    from pqn.algorithms import replay
    from pqn.envs.source import given
    from pqn.programs.make import make_program

    settings = config("auto", "CartPole-v1")
    program = make_program(settings, given("CartPole-v1", {}))
    assert not isinstance(program, HostedProgram)
    needed = program.algorithm.buffer_bytes
    monkeypatch.setattr(replay, "device_memory", lambda: needed / 0.69)
    assert not isinstance(make_program(settings, given("CartPole-v1", {})), HostedProgram)
    monkeypatch.setattr(replay, "device_memory", lambda: needed / 0.71)
    assert isinstance(make_program(settings, given("CartPole-v1", {})), HostedProgram)


def test_a_jax_without_a_cpu_is_named(monkeypatch):
    from pqn.envs.source import given
    from pqn.programs.make import make_program

    program = make_program(config("device", "CartPole-v1"), given("CartPole-v1", {}))

    def nowhere(*_: object, **__: object) -> list[object]:
        raise RuntimeError("Unknown backend cpu")

    monkeypatch.setattr(host_buffer.jax, "local_devices", nowhere)
    with pytest.raises(DeviceError, match="JAX_PLATFORMS excludes; add ,cpu to it"):
        host_buffer.HostBuffer(program.algorithm, 1)
