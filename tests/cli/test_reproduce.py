"""`pqn reproduce`: lists, plans, mistakes in one sentence, and exit statuses."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pqn.cli.main import main
from pqn.experiments import campaign
from pqn.experiments.campaign import Outcome
from pqn.experiments.paper import EXPERIMENTS, experiment


def reproduce(*words: str) -> int:
    return main(["reproduce", *words])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "name an experiment, such as `pqn reproduce minatar`"),
        ("minatr", "there is no experiment 'minatr'; did you mean 'minatar'?"),
        ("minatar --arms pqn-brekout", "minatar has no arm 'pqn-brekout'; did you mean 'pqn-breakout'?"),
        ("minatar classic --arms pqn-breakout", "--arms are arms of one experiment"),
        ("minatar --share 2", "it must be in (0, 1]"),
        ("minatar --share 0", "'0' is not a positive number"),
        ("minatar --seeds 0", "'0' is not a number of seeds"),
        ("minatar --minutes nan", "'nan' is not a positive number"),
        ("smoke", "choose an --out, such as runs/smoke"),
        ("smoke minatar --out x", "smoke is every experiment, tiny: leave out other names"),
        ("smoke --share 0.1 --out x", "leave out other names, --arms and --share"),
        ("minatr --list", "there is no experiment 'minatr'"),
        ("--report --update nowhere.md --out x", "--update nowhere.md: there is no such file"),
        (
            "--report --update Makefile --out x",
            "--update Makefile: it has no part of the form <!-- generated: NAME -->",
        ),
        ("--report --update docs --out x", "cannot read docs: is a directory"),
        ("minatar --ray --jobs 2", "--jobs is for this machine"),
        ("minatar --dry-run --gpus-per-run 1", "--gpus-per-run is for --ray"),
        ("minatar --shares 1", "there is no option --shares; did you mean '--share'?"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert reproduce(*shlex.split(words)) == 2
    assert sentence in capsys.readouterr().err


def test_the_list_has_every_experiment_and_imports_no_jax(tmp_path: Path) -> None:
    code = "import sys; from pqn.cli.main import main; main(sys.argv[1:]); assert 'jax' not in sys.modules"
    words = ["reproduce", "--list", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    for entry in EXPERIMENTS.values():
        assert f"{entry.name}: {entry.title}" in done.stdout


def test_the_list_of_one_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("classic", "--list", "--out", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("classic: ") and "minatar: " not in shown


def test_a_dry_run_shows_commands_that_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert reproduce("classic", "--dry-run", "--share", "0.1", "--seeds", "3", "--out", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(experiment("classic").arms) + 1
    first = lines[0].split("#")[0].strip()
    assert first == f"pqn reproduce classic --arms pqn-cartpole --share 0.1 --seeds 3 --out {tmp_path}"
    assert reproduce(*shlex.split(first)[2:], "--dry-run") == 0
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize(("state", "status"), [("done", 0), ("left", 0), ("preset missing", 0), ("failed", 2)])
def test_a_failed_arm_is_told_and_changes_the_status(
    state: str, status: int, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_arms(arms, *_: object, **__: object) -> list[Outcome]:
        return [Outcome(arm, state, why="because") for arm in arms]  # type: ignore[arg-type]

    monkeypatch.setattr(campaign, "run_arms", run_arms)
    assert reproduce("recurrent", "--out", str(tmp_path)) == status
    said = capsys.readouterr()
    assert f"{state}: recurrent/pqn-memory-chain: because" in said.out
    assert ("2 of 2 arms failed" in said.err) == (status == 2)


def test_the_smoke_plan_says_what_stands_for_what(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert reproduce("smoke", "--dry-run", "--out", str(tmp_path)) == 0
    assert "minatar/pqn-asterix: nearly the same program as minatar/pqn-breakout" in capsys.readouterr().out
