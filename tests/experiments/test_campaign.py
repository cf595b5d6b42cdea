"""Many arms: what was begun first, what fits, and failures that are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import arm_of, write

from pqn.errors import Diverged, Interrupted
from pqn.experiments import campaign, runner
from pqn.experiments.deadline import Deadline
from pqn.experiments.paper import Arm
from pqn.progress import Progress

ARMS = [arm_of("minatar", f"pqn-{game}") for game in ("asterix", "breakout", "freeway")]
QUIET = Progress(quiet=True)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of arms in the order in which they were run, by a runner that only writes a result."""
    names: list[str] = []

    def run_arm(arm: Arm, share: float, seeds: int, out: Path, **_: object) -> Path:
        names.append(arm.name)
        return write(out, arm, [1.0] * seeds, share=share)

    monkeypatch.setattr(runner, "run_arm", run_arm)
    return names


def test_all_arms_are_run_with_the_experiments_seeds(ran: list[str], tmp_path: Path) -> None:
    outcomes = campaign.run_arms(ARMS, 0.5, None, tmp_path, progress=QUIET)
    assert [outcome.state for outcome in outcomes] == ["done"] * 3
    assert ran == [arm.name for arm in ARMS]
    found = [runner.envelope.read(outcome.path) for outcome in outcomes if outcome.path]
    assert {(len(each.seeds), each.share) for each in found} == {(10, 0.5)}


def test_what_was_begun_comes_first_and_what_failed_last(ran: list[str], tmp_path: Path) -> None:
    runner.new_attempt(ARMS[2], 1.0, 1, tmp_path)
    runner.new_attempt(ARMS[0], 1.0, 1, tmp_path)
    runner.note_failure(ARMS[0], 1.0, 1, tmp_path, Diverged("NaN"))
    outcomes = campaign.run_arms(ARMS, 1.0, 1, tmp_path, progress=QUIET)
    assert ran == ["pqn-freeway", "pqn-breakout", "pqn-asterix"]
    assert [outcome.arm for outcome in outcomes] == ARMS, "told in the order asked for"


@pytest.mark.parametrize(
    "error", [Diverged("NaN in seed 3"), RuntimeError("the emulator\n died"), ImportError("no ale")]
)
def test_an_arm_that_fails_is_told_and_the_others_go_on(
    error: Exception, ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = runner.run_arm

    def run_arm(arm: Arm, share: float, seeds: int, out: Path, **options: object) -> Path:
        if arm is ARMS[0]:
            runner.new_attempt(arm, share, seeds, out)
            raise error
        return good(arm, share, seeds, out, **options)

    monkeypatch.setattr(runner, "run_arm", run_arm)
    first, *others = campaign.run_arms(ARMS, 1.0, 1, tmp_path, progress=QUIET)
    assert (first.state, first.why) == ("failed", " ".join(str(error).split()))
    assert [outcome.state for outcome in others] == ["done", "done"]
    assert " ".join(str(error).split()) in runner.failures(ARMS[0], tmp_path)[0]


def test_ctrl_c_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_arm(*_: object, **__: object) -> Path:
        raise Interrupted("stopped by SIGINT")

    monkeypatch.setattr(runner, "run_arm", run_arm)
    with pytest.raises(Interrupted):
        campaign.run_arms(ARMS, 1.0, 1, tmp_path, progress=QUIET)


def test_presets_that_are_missing_are_told(ran: list[str], tmp_path: Path) -> None:
    (outcome,) = campaign.run_arms([Arm("a", "A", "t", "none-such", experiment="classic")], 1.0, 1, tmp_path)
    assert outcome.state == "preset missing" and "none-such" in outcome.why and not ran


def test_only_what_fits_is_begun() -> None:
    """A training may be interrupted and needs time to start only; DeepSea is begun if all of it should fit."""
    training, deepsea = arm_of("craftax", "pqn"), arm_of("deepsea", "layer-40")
    assert campaign.fits(training, 1.0, 10, Deadline(5.0)) and not campaign.fits(training, 1.0, 10, Deadline(1.0))
    assert campaign.fits(deepsea, 1.0, 10, Deadline(5.0)) and not campaign.fits(deepsea, 1.0, 10, Deadline(2.0))
    assert campaign.fits(deepsea, 0.1, 10, Deadline(2.0)) and campaign.fits(deepsea, 1.0, 10, Deadline(None))


def test_after_the_deadline_nothing_is_begun(ran: list[str], tmp_path: Path) -> None:
    outcomes = campaign.run_arms(ARMS, 1.0, 1, tmp_path, minutes=1e-9, progress=QUIET)
    assert [outcome.state for outcome in outcomes] == ["left"] * 3 and not ran
