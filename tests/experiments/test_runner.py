"""One arm to its result: batches of seeds, interruptions anywhere, and what is never reported as whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made import arm_of

from pqn import training
from pqn.errors import ConfigError, Diverged, Interrupted, RunError
from pqn.experiments import envelope, runner
from pqn.experiments.deadline import Deadline
from pqn.experiments.paper import Arm
from pqn.progress import Progress
from pqn.runs.provenance import describe_source
from pqn.training.loop import Loop

CARTPOLE = arm_of("classic", "pqn-cartpole")
BAIRD = arm_of("baird", "expected-layer-l2")
# The programs of these are the ones that other tests compile: CartPole with eight environments (tests/conftest.py).
SMALL = {
    "total_steps": 640,
    "learner.schedule_steps": 0,
    "env.num_envs": 8,
    "network.hidden": (16,),
    "learner.rollout_steps": 8,
    "learner.epochs": 2,
    "learner.minibatches": 4,
    "eval.num_envs": 4,
    "eval.count": 2,
    "log.rows": 4,
    "save.checkpoints": 5,
}
QUIET = Progress(quiet=True)


def run(out: Path, seeds: int = 2, **options: object) -> Path:
    """Two seeds, each in a batch of its own, so that one compiled program serves both."""
    settings = {"gigabytes": 0.1 / runner.USABLE, "overrides": SMALL, "progress": QUIET} | options
    return runner.run_arm(CARTPOLE, 1.0, seeds, out, **settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of an arm that was never interrupted."""
    out = tmp_path_factory.mktemp("whole")
    run(out)
    return out


def only(out: Path) -> envelope.Envelope:
    ((_, found),) = envelope.read_arm(out, "classic", "pqn-cartpole")
    assert isinstance(found, envelope.Envelope)
    return found


def test_a_result_has_all_seeds_and_says_how_it_was_made(whole: Path) -> None:
    found = only(whole)
    assert found.seeds == [0, 1] and found.complete and found.share == 1.0 and found.steps == 640
    assert found.command == "pqn reproduce classic --arms pqn-cartpole --seeds 2"
    assert len(found.runs) == 2 and len(found.final["return"]) == 2
    assert found.curves["greedy"].array("return").shape == (3, 2)
    (call,) = found.calls
    assert {"jax", "gymnax", "craftax", "jaxmarl", "ale-py"} <= set(call.versions)
    assert {"device", "driver", "xla_flags", "platform"} <= set(call.machine)
    source = describe_source()  # a copy of the code may have no history
    assert (call.commit, call.commit_from) == (source["commit"], source["source"])
    assert found.seconds["wall"] > found.seconds["compile"] > 0 and found.seconds["train"] > 0
    assert found.config["learner"]["rollout_steps"] == 8 and "network.hidden = (16,)" in found.notes
    assert found.evaluation["episodes_per_seed"] == 4 and min(found.final["steps_per_second"]) > 0
    assert found.replay_bytes == 10**6 * (4 * 4 + 4 + 5)


def test_a_finished_arm_is_not_run_again_unless_asked(whole: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    monkeypatch.setattr(training, "train", pytest.fail)
    assert run(out) == next(out.glob("classic/pqn-cartpole/*.json"))
    assert run(out, seeds=1) == run(out), "fewer seeds than there are"
    monkeypatch.undo()
    again = run(out, again=True)
    assert len(list(out.glob("classic/pqn-cartpole/*.json"))) == 2 and again.exists()
    results = [found for _, found in envelope.read_arm(out, "classic", "pqn-cartpole")]
    assert results[0].final["return"] == results[1].final["return"], "the same seeds, to the bit"


def test_an_interrupted_arm_goes_on_where_it_stopped(whole: Path, tmp_path: Path, monkeypatch) -> None:
    """Stopped in the second batch, by a signal in the middle of training; the first is not trained again."""
    real, started = training.train, []

    def stopped(config, **options):
        started.append(config.seed)
        if config.seed == 1 and len(started) == 2:
            monkeypatch.setattr(Loop, "after_chunk", _interrupting(Loop.after_chunk))
        return real(config, **options)

    monkeypatch.setattr(training, "train", stopped)
    with pytest.raises(Interrupted):
        run(tmp_path)
    assert not list(tmp_path.glob("classic/**/*.json")), "half a result is no result"
    assert runner.finished(CARTPOLE, 1.0, 2, tmp_path) is None
    monkeypatch.undo()
    monkeypatch.setattr(training, "train", pytest.fail)  # the second batch is resumed, the first is done
    moved = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    shutil.copytree(tmp_path, moved)  # as if on another machine
    run(moved)
    found = only(moved)
    assert len(found.calls) == 2
    assert found.final["return"] == only(whole).final["return"]
    assert found.curves["greedy"].values == only(whole).curves["greedy"].values


def _interrupting(real):
    def after_chunk(self, *arguments):
        real(self, *arguments)
        if self.update >= 4:
            signal.raise_signal(signal.SIGTERM)

    return after_chunk


@pytest.mark.parametrize("where", ["before the envelope", "after the envelope"])
def test_killed_around_the_writing_of_the_result(where: str, whole: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    (attempt,) = out.glob("runs/classic/pqn-cartpole/*")
    (attempt / runner.DONE).unlink()
    if where == "before the envelope":
        next(out.glob("classic/pqn-cartpole/*.json")).unlink()
    monkeypatch.setattr(training, "train", pytest.fail)
    monkeypatch.setattr(training, "resume", pytest.fail)
    assert only(out).seeds == [0, 1] if run(out) else False
    assert (attempt / runner.DONE).exists()


def test_the_final_policy_counts_and_not_the_best_one(whole: Path, tmp_path: Path) -> None:
    """An evaluation in the middle of the run was far better."""
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    next(out.glob("classic/pqn-cartpole/*.json")).unlink()
    (attempt,) = out.glob("runs/classic/pqn-cartpole/*")
    (attempt / runner.DONE).unlink()
    path = attempt / "seed-0" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    middle = [row for row in rows if row["kind"] == "eval"][1]
    middle["returns"] = [[1e6] * len(middle["returns"][0])]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(out)
    found = only(out)
    assert found.curves["greedy"].array("return")[1, 0] == 1e6
    assert found.final["return"] == only(whole).final["return"]


def test_a_full_disk_at_the_end_loses_nothing(whole: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    (attempt,) = out.glob("runs/classic/pqn-cartpole/*")
    (attempt / runner.DONE).unlink()
    next(out.glob("classic/pqn-cartpole/*.json")).unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(RunError, match="the disk is full"):
        run(out)
    assert not list(out.glob("classic/**/*.json"))
    monkeypatch.undo()
    run(out)
    assert only(out).final == only(whole).final


def test_a_line_torn_by_a_kill_is_forgotten(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    (attempt,) = out.glob("runs/classic/pqn-cartpole/*")
    (attempt / runner.DONE).unlink()
    next(out.glob("classic/pqn-cartpole/*.json")).unlink()
    with (attempt / runner.CALLS).open("a") as file:
        file.write('{"date": "2026')
    run(out)
    assert len(only(out).calls) == 2


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"date": 1}', "\xff", "[" * 100_000])
def test_a_line_that_names_no_process_is_told(line: str, tmp_path: Path) -> None:
    attempt = runner.new_attempt(CARTPOLE, 1.0, 1, tmp_path)
    (attempt / runner.CALLS).write_text(f"{line}\n", encoding="latin-1")
    with pytest.raises(RunError, match=r"calls.jsonl is damaged: a line of it does not say which process worked here"):
        runner.calls(attempt)
    (attempt / runner.CALLS).unlink()
    os.mkfifo(attempt / runner.CALLS)
    with pytest.raises(RunError, match="is a pipe"):
        runner.calls(attempt)


def test_attempts_are_numbered_whatever_lies_beside_them(tmp_path: Path) -> None:
    """Somebody copied one and removed another."""
    first = runner.new_attempt(CARTPOLE, 1.0, 1, tmp_path)
    second = runner.new_attempt(CARTPOLE, 1.0, 1, tmp_path)
    shutil.copytree(first, first.with_name(f"{first.name}-old"))
    first.rename(tmp_path / "elsewhere")
    assert runner.unfinished(CARTPOLE, 1.0, 1, tmp_path) == second
    assert runner.new_attempt(CARTPOLE, 1.0, 1, tmp_path).name.endswith("-attempt-3")


def test_runs_of_another_configuration_are_refused(whole: Path, tmp_path: Path) -> None:
    """The preset changed since: what was trained is not what was asked for."""
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    (attempt,) = out.glob("runs/classic/pqn-cartpole/*")
    (attempt / runner.DONE).unlink()
    with pytest.raises(RunError, match="was trained before with another configuration"):
        run(out, overrides=SMALL | {"learner.lr": 0.5}, again=True)


def test_the_deadline_saves_and_stops(tmp_path: Path, monkeypatch) -> None:
    """A training that takes too long is interrupted as by Ctrl-C, with a checkpoint."""
    real = Loop.after_chunk
    for minutes in (0.05, 0.4, 2.0):  # on a busy machine the first may end before training begins
        out, deadline = tmp_path / f"{minutes}", Deadline(minutes)

        def slow(self, *arguments, deadline=deadline):
            real(self, *arguments)
            while not deadline.passed:
                time.sleep(0.05)

        monkeypatch.setattr(Loop, "after_chunk", slow)
        with pytest.raises(runner.TimeIsUp, match="goes on at the next call"):
            run(out, seeds=1, deadline=deadline)
        assert runner.unfinished(CARTPOLE, 1.0, 1, out) is not None
        if list(out.glob("runs/**/metrics.jsonl")) and list(out.glob("runs/**/manifest.json")):
            return
    pytest.fail("there is no checkpoint")


def test_seeds_are_batched_by_memory() -> None:
    config = CARTPOLE.config(seeds=7)
    sizes = [[part.seeds for part in runner.batches(config, CARTPOLE, room)] for room in (None, 0.3, 0.01, 100.0)]
    assert sizes == [[7], [2, 2, 2, 1], [1] * 7, [7]]
    assert [part.seed for part in runner.batches(config, CARTPOLE, 0.3)] == [0, 2, 4, 6]


def test_commands_make_the_result_again() -> None:
    assert runner.command(CARTPOLE) == "pqn reproduce classic --arms pqn-cartpole"
    assert runner.command(CARTPOLE, 0.1, 3) == "pqn reproduce classic --arms pqn-cartpole --share 0.1 --seeds 3"


def test_an_arm_without_a_preset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no preset 'none-such' yet"):
        runner.run_arm(Arm("a", "A", "t", "none-such", experiment="classic"), 1.0, 1, tmp_path)


def test_experiments_that_are_no_trainings_run_in_the_same_way(tmp_path: Path) -> None:
    options = {"records": 20}
    path = runner.run_arm(BAIRD, 0.01, 2, tmp_path, overrides=options, progress=QUIET)
    found = envelope.read(path)
    assert (found.steps, found.budget, found.share, found.seeds) == (200, 20_000, 0.01, [0, 1])
    assert found.curves["run"].array("log10_error").shape == (20, 2)
    assert set(found.final) == {"converged", "diverged", "error", "growth"}
    assert runner.run_arm(BAIRD, 0.01, 2, tmp_path, overrides=options) == path


def test_a_failure_is_kept_until_the_arm_succeeds(tmp_path: Path) -> None:
    attempt = runner.new_attempt(CARTPOLE, 1.0, 1, tmp_path)
    runner.note_failure(CARTPOLE, 1.0, 1, tmp_path, Diverged("NaN in seed 3"))
    (why,) = runner.failures(CARTPOLE, tmp_path)
    assert "NaN in seed 3" in why
    (attempt / runner.FAILED).write_text('{"date": "\\u001b[2J", "error": 1}')
    assert runner.failures(CARTPOLE, tmp_path) == ["\\x1b[2J: 1"], "it cannot steer a terminal"
    (attempt / runner.FAILED).write_text("{")
    (why,) = runner.failures(CARTPOLE, tmp_path)
    assert "failed.json is damaged" in why, "and does not keep the others from being listed"
    (attempt / runner.DONE).write_text("x")
    assert runner.failures(CARTPOLE, tmp_path) == []


@pytest.mark.slow
def test_killed_at_any_moment_the_next_call_goes_on(whole: Path, tmp_path: Path) -> None:
    """kill -9 after ever longer times, until a call gets through: the result is that of an uninterrupted one."""
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/experiments']\n"
        "import conftest, test_runner; from pathlib import Path; test_runner.run(Path(sys.argv[1]))"
    )
    root = Path(__file__).parents[2]
    for attempt in range(40):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root)
        try:
            assert process.wait(timeout=2 + attempt) == 0
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert all(json.loads(path.read_text())["complete"] for path in tmp_path.glob("classic/**/*.json"))
    found, wanted = (only(out).final | {"steps_per_second": None} for out in (tmp_path, whole))
    assert found == wanted, "but for the clock's"
