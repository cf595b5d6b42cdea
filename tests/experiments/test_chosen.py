"""Which result counts: a rule that does not look at the score."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import arm_of, later, write

from pqn.errors import RunError
from pqn.experiments.chosen import RETIRED, choices, choose
from pqn.experiments.envelope import read
from pqn.experiments.paper import experiment

BREAKOUT = arm_of("minatar", "pqn-breakout")


@pytest.mark.parametrize("better", [[9.0, 9.0], [-9.0, -9.0]])
def test_the_score_plays_no_part(tmp_path: Path, better: list[float]) -> None:
    """Share first, then seeds, then the date; whatever the values are."""
    write(tmp_path, BREAKOUT, better, share=0.5, calls=later("2026-12-01T00:00:00+00:00"))
    write(tmp_path, BREAKOUT, [better[0]], calls=later("2026-12-02T00:00:00+00:00"))
    older = write(tmp_path, BREAKOUT, better, calls=later("2026-11-01T00:00:00+00:00"))
    choice = choose(BREAKOUT, tmp_path)
    assert choice is not None and choice.path == older and len(choice.others) == 2
    newer = write(tmp_path, BREAKOUT, [0.0, 0.0], calls=later("2026-11-02T00:00:00+00:00"))
    choice = choose(BREAKOUT, tmp_path)
    assert choice is not None and choice.path == newer


def test_half_a_result_is_not_used(tmp_path: Path) -> None:
    write(tmp_path, BREAKOUT, [1.0, 2.0], complete=False)
    assert choose(BREAKOUT, tmp_path) is None
    assert choices(experiment("minatar"), tmp_path) == {}


def test_retired_results_are_not_used_and_say_why(tmp_path: Path) -> None:
    kept = write(tmp_path, BREAKOUT, [1.0])
    gone = write(tmp_path, BREAKOUT, [1.0, 2.0])
    text = f'[[retired]]\nfile = "{gone.relative_to(tmp_path).as_posix()}"\nreason = "Made by a mistake."\n'
    (tmp_path / RETIRED).write_text(text)
    choice = choose(BREAKOUT, tmp_path)
    assert choice is not None and choice.path == kept
    for text in ("[[retired]]\nfile = 1", "\xff", "a = " + "[" * 3000):
        (tmp_path / RETIRED).write_text(text, encoding="latin-1")
        with pytest.raises(RunError, match=r"retired\.toml is damaged"):
            choose(BREAKOUT, tmp_path)


def test_retired_files_of_this_repository_exist() -> None:
    from pqn.experiments.chosen import retired

    root = Path(__file__).parents[2] / "results"
    for name, why in retired(root).items():
        assert read(root / name).complete and len(why) > 20, name
