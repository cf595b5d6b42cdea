"""TensorBoard and W&B: what reaches them, and what a missing package says."""

from __future__ import annotations

import io
import struct
import sys
import types

import pytest
from conftest import tiny

import pqn
from pqn.cli.main import main
from pqn.errors import ConfigError
from pqn.progress import Progress
from pqn.runs import loggers
from pqn.runs.loggers import scalars


def test_scalars_average_over_seeds_and_weigh_episodes_equally():
    row = {
        "kind": "train",
        "update": 1,
        "step": 64,
        "episodes": [3, 1],
        "return_sum": [30.0, 50.0],
        "loss": [1.0, 3.0],
        "lr": 0.1,
    }
    assert scalars(row) == {"train/episodes": 2.0, "train/loss": 2.0, "train/lr": 0.1, "train/return": 20.0}
    assert scalars({"kind": "eval", "step": 64, "returns": [[1.0, 3.0], [5.0, 7.0]]}) == {"eval/returns": 4.0}


def test_tensorboard_gets_every_row(tmp_path):
    pqn.train(tiny({"log.to": ("tensorboard",)}), out=tmp_path / "run", progress=Progress(quiet=True))
    events = list((tmp_path / "run" / "tensorboard").glob("events*"))
    assert events and b"eval/returns" in events[0].read_bytes()


def test_wandb_gets_every_row(tmp_path, monkeypatch):
    """Against a stand-in with wandb's three calls: the real one wants an account or a server process."""
    logged, opened = [], {}

    class Run:
        def log(self, values, step):
            logged.append((step, values))

        def finish(self):
            opened["finished"] = True

    monkeypatch.setitem(
        sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: opened.update(options) or Run())
    )
    pqn.train(tiny({"log.to": ("wandb",)}), out=tmp_path / "run", progress=Progress(quiet=True))
    assert opened["project"] == "pqn" and opened["finished"]
    assert [step for step, values in logged if "eval/returns" in values] == [0, 320, 640]


class Broken:
    """A logger that fails at one of its calls."""

    def __init__(self, fails: str):
        self.fails, self.written = fails, 0
        self._maybe("init")

    def write(self, step, scalars):
        self.written += 1
        self._maybe("write")

    def close(self):
        self._maybe("close")

    def _maybe(self, call):
        if call == self.fails:
            raise RuntimeError("the server\nis gone") if call != "close" else SystemExit(3)


@pytest.mark.parametrize(
    ("fails", "why"), [("init", "the server is gone"), ("write", "the server is gone"), ("close", "3")]
)
def test_a_broken_logger_never_ends_a_run(fails, why, tmp_path, monkeypatch):
    made = []
    monkeypatch.setitem(loggers.LOGGERS, "wandb", lambda *_: made.append(Broken(fails)) or made[-1])
    monkeypatch.setattr(loggers, "check_loggers", lambda _: None)
    monkeypatch.setattr("pqn.training.start.check_loggers", lambda _: None)
    progress = Progress(io.StringIO(), quiet=True)
    result = pqn.train(tiny({"log.to": ("wandb",)}), out=tmp_path / "run", progress=progress)
    assert result.summary["steps"] == 640
    lines = progress.stream.getvalue().splitlines()
    assert lines == [f"wandb gets no more metrics: {why}; the run goes on, and metrics.jsonl has them all"]
    assert not made if fails == "init" else (made[0].written == 1) == (fails == "write")


def test_tensorboard_on_a_full_disk(tmp_path):
    said = []
    (logger,) = loggers.open_loggers(("tensorboard",), tmp_path, {}, said.append)
    logger.write(0, {"a": 1.0})
    logger.logger.writer._py_recordio_writer._writer = io.BufferedWriter(io.FileIO("/dev/full", "w"))
    for step in range(20):  # more than its queue would hold, if it had one
        logger.write(step, {"a": 1.0})
    logger.close()
    assert len(said) == 1 and "No space left" in said[0]


def test_tensorboards_files_can_be_read(tmp_path):
    from tensorboardX.proto import event_pb2

    (logger,) = loggers.open_loggers(("tensorboard",), tmp_path, {"lr": 0.1}, pytest.fail)
    logger.write(3, {"train/loss": 0.5})
    logger.close()
    data = next((tmp_path / "tensorboard").iterdir()).read_bytes()
    events = []
    while data:  # length, its checksum, the event, its checksum
        (size,) = struct.unpack("<Q", data[:8])
        events.append(event_pb2.Event.FromString(data[12 : 12 + size]))
        data = data[16 + size :]
    assert events[0].file_version and "0.1" in str(events[1])
    (value,) = events[2].summary.value
    assert (events[2].step, value.tag, value.simple_value) == (3, "train/loss", 0.5)


def test_a_package_that_cannot_be_imported(tmp_path, monkeypatch):
    (tmp_path / "wandb.py").write_text("raise ValueError('broken\\nindeed')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(ConfigError, match=r"^wandb cannot be imported: broken indeed$"):
        loggers.check_loggers(("wandb",))


def test_a_missing_extra_is_one_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "--log.to", "wandb"]) == 2
    assert capsys.readouterr().err == "pqn: wandb is not installed: pip install -e '.[wandb]' in the checkout of pqn\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_logger():
    with pytest.raises(ConfigError, match="did you mean 'tensorboard'"):
        tiny({"log.to": ("tensorbord",)})
