"""A larger share goes on from a smaller one, and ends as if it had been trained in one go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from test_runner import CARTPOLE, SMALL

from pqn import training
from pqn.errors import Interrupted, RunError
from pqn.experiments import envelope, longer, runner
from pqn.progress import Progress
from pqn.training.loop import Loop

QUIET = Progress(quiet=True)
# A share keeps the schedules of the whole, which here has 640 steps.
HALF = SMALL | {"total_steps": 320, "learner.schedule_steps": 640}


def run(out: Path, share: float, **options: object) -> envelope.Envelope:
    changed = (HALF if share == 0.5 else SMALL) | options
    path = runner.run_arm(CARTPOLE, share, 2, out, gigabytes=0.1 / runner.USABLE, overrides=changed, progress=QUIET)
    found = dict(envelope.read_arm(out, "classic", "pqn-cartpole"))[path]
    assert isinstance(found, envelope.Envelope)
    return found


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("half")
    run(out, 0.5)
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained in one go."""
    out = tmp_path_factory.mktemp("whole")
    run(out, 1.0)
    return out


def tensors(out: Path, share: str) -> list[dict]:
    """The last checkpoint of each seed, byte by byte."""
    runs = sorted(out.glob(f"runs/classic/pqn-cartpole/share-{share}-*/seed-*"))
    last = [max(path.glob("checkpoints/*"), key=lambda step: step.name) for path in runs]
    found = [{file.name: load_file(file) for file in path.glob("*.safetensors")} for path in last]
    assert len(found) == 2 and all(found)
    return [{name: array.tobytes() for one in files.values() for name, array in one.items()} for files in found]


def test_the_whole_goes_on_from_the_half(half: Path, whole: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "out"
    shutil.copytree(half, out)
    trained = []
    real = Loop.after_chunk
    monkeypatch.setattr(
        Loop, "after_chunk", lambda self, totals, count, s: (trained.append(count), real(self, totals, count, s))[1]
    )
    monkeypatch.setattr(training, "train", pytest.fail)
    result = run(out, 1.0)
    assert sum(trained) == 2 * 5, "two seeds, half of ten updates each"
    assert result.share == 1.0 and result.steps == 640 and result.complete
    assert [call.command for call in result.calls] == [
        "pqn reproduce classic --arms pqn-cartpole --share 0.5 --seeds 2",
        "pqn reproduce classic --arms pqn-cartpole --seeds 2",
    ]
    assert tensors(out, "1") == tensors(whole, "1")
    one_go = dict(envelope.read_arm(whole, "classic", "pqn-cartpole")).popitem()[1]
    assert isinstance(one_go, envelope.Envelope) and result.final["return"] == one_go.final["return"]
    shares = [getattr(found, "share", 0.0) for _, found in envelope.read_arm(out, "classic", "pqn-cartpole")]
    assert sorted(shares) == [0.5, 1.0] and tensors(out, "0.5") == tensors(half, "0.5"), "the smaller result stays"
    assert run(out, 1.0).runs == result.runs, "and the larger one is not made again"


@pytest.mark.parametrize("moment", ["copied", "planned"])
def test_interrupted_while_it_goes_on(half: Path, whole: Path, tmp_path: Path, moment: str, monkeypatch) -> None:
    out = tmp_path / "out"
    shutil.copytree(half, out)

    def interrupted(*_given: object, **_named: object) -> None:
        raise Interrupted("here")

    with monkeypatch.context() as patch:
        if moment == "copied":
            patch.setattr(training, "resume", interrupted)
        else:  # config.json has the longer plan by now
            patch.setattr(Loop, "after_chunk", interrupted)
        with pytest.raises(Interrupted):
            run(out, 1.0)
    assert runner.finished(CARTPOLE, 1.0, 2, out) is None
    assert run(out, 1.0).steps == 640
    assert tensors(out, "1") == tensors(whole, "1")


def test_a_copy_that_was_not_completed_is_made_again(half: Path, whole: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "out"
    shutil.copytree(half, out)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(RunError("killed")))
        with pytest.raises(RunError, match="killed"):
            run(out, 1.0)
    assert list(out.glob(f"runs/**/*{longer.COPYING}"))
    assert run(out, 1.0).steps == 640 and tensors(out, "1") == tensors(whole, "1")


@pytest.mark.parametrize("options", [{"learner.lr": 0.5}, {"learner.schedule_steps": 6400}])
def test_another_configuration_is_trained_from_the_start(
    half: Path, tmp_path: Path, options: dict, monkeypatch
) -> None:
    out = tmp_path / "out"
    shutil.copytree(half, out)
    started = []
    monkeypatch.setattr(training, "train", lambda config, **_: started.append(config))
    with pytest.raises(RunError):  # nothing was trained, so there is no result
        run(out, 1.0, **options)
    assert started
