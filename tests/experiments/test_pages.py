"""Tables and pages from results that are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import arm_of, later, write

from pqn.errors import ConfigError, RunError
from pqn.experiments import markers, numbers, pages, publish, speed_table, tables
from pqn.experiments.chosen import choices
from pqn.experiments.paper import experiment
from pqn.report.statistics import bootstrap_interval, iqm

ROOT = Path(__file__).parents[2]
GAMES = ("asterix", "breakout", "freeway", "spaceinvaders")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """PQN with four seeds on two games, at half of the budget on one; our preset on one of them; a torn file."""
    write(tmp_path, arm_of("minatar", "pqn-breakout"), [1.0, 2.0, 3.0, 4.0])
    write(tmp_path, arm_of("minatar", "pqn-freeway"), [10.0, 20.0, 30.0, None], share=0.5)
    write(tmp_path, arm_of("minatar", "pqn-ours-breakout"), [0.0, 1.0, 5.0])
    (tmp_path / "minatar" / "pqn-freeway" / "torn.json").write_text("{")
    return tmp_path


def row(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_a_table_has_ours_the_opponents_and_the_numbers_of_seeds(out: Path) -> None:
    text = pages.page(experiment("minatar"), out)
    low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0])
    assert row(text, "Breakout")[0] == f"2.5 [{low:.1f}, {high:.1f}] (4)"
    assert row(text, "Breakout")[1].startswith(f"{iqm([0.0, 1.0, 5.0]):.1f} [")
    assert row(text, "Freeway")[0].endswith("(3, at 50 %)") and row(text, "Freeway")[1] == tables.NOTHING
    assert "Asterix" not in text.split("## How these were made")[0].split("## Results")[1]
    assert "in parentheses the number of seeds (3 to 4)" in text
    assert "`ppo-breakout`" in text.split("No complete result yet")[1]
    assert "torn.json is damaged" in text


def test_probability_of_improvement_is_over_tasks_that_both_have(out: Path) -> None:
    """PQN 1, 2, 3, 4 against 0, 1, 5 on Breakout: wins 1½ + 2 + 2 + 2 of 12."""
    entry = experiment("minatar")
    (found,) = numbers.improvements(entry, choices(entry, out))
    assert (found.ours, found.theirs, found.tasks) == ("PQN", "PQN (our preset)", 1)
    assert found.probability == pytest.approx(7.5 / 12)
    assert f"| PQN better than PQN (our preset) | {7.5 / 12:.2f} [" in pages.page(entry, out)


def test_lower_is_better_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, arm_of("deepsea", "none-20"), [100.0, 200.0])
    write(tmp_path, arm_of("deepsea", "layer-20"), [10.0, 20.0])
    entry = experiment("deepsea")
    (found,) = numbers.improvements(entry, choices(entry, tmp_path))
    assert (found.ours, found.probability) == ("no norm", 0.0)


def test_figures_say_how_many_seeds_there_are(out: Path) -> None:
    panels = tables.drawn(experiment("minatar"), choices(experiment("minatar"), out))
    assert list(panels) == ["Breakout, 3 to 4 seeds", "Freeway, 4 seeds"]
    assert [label for label, _, _ in panels["Breakout, 3 to 4 seeds"]] == ["PQN", "PQN (our preset)"]
    write(out, arm_of("hanabi", "pqn"), [20.0])
    assert list(tables.drawn(experiment("hanabi"), choices(experiment("hanabi"), out))) == ["Hanabi, 1 seed"]


def test_counts_are_shown_as_such(tmp_path: Path) -> None:
    write(tmp_path, arm_of("baird", "expected-layer-l2"), [1.0, 1.0, 0.0])
    text = pages.page(experiment("baird"), tmp_path)
    assert row(text, "expected updates") == ["2 of 3"]


def test_values_are_scaled_and_stand_beside_the_papers(tmp_path: Path) -> None:
    write(tmp_path, arm_of("craftax-rnn", "pqn-ours"), [22.6])
    text = pages.page(experiment("craftax-rnn"), tmp_path)
    assert row(text, "Craftax") == ["10.0 (1)", "16.0"], "one seed has no interval"


def test_aggregates_over_tasks(tmp_path: Path) -> None:
    """SMAX as it is; Overcooked by the best mean of a layout; Atari human-normalised."""
    for name in ("2s3z", "3s5z"):
        write(tmp_path, arm_of("smax", f"pqn-{name}"), [0.0, 1.0])
    for layout, ours in (("cramped_room", 100.0), ("coord_ring", 40.0)):
        write(tmp_path, arm_of("overcooked", f"pqn-{layout}"), [ours])
        write(tmp_path, arm_of("overcooked", f"pqn-ours-{layout}"), [200.0 if layout == "cramped_room" else 20.0])
    write(tmp_path, arm_of("atari-10", "pqn-amidar"), [5.8])  # a random player's
    write(tmp_path, arm_of("atari-10", "pqn-qbert"), [13455.0])  # a human's
    totals = {}
    for name in ("smax", "overcooked", "atari-10"):
        entry = experiment(name)
        totals[name] = numbers.aggregate(entry, choices(entry, tmp_path), entry.methods[0])
    assert totals["smax"].value == 0.5 and totals["smax"].tasks == 2
    assert totals["overcooked"].value == pytest.approx(np.mean([0.5, 1.0]))
    assert totals["atari-10"].value == pytest.approx(50.0)


def test_scores_are_not_divided_by_themselves(tmp_path: Path) -> None:
    for layout in ("cramped_room", "coord_ring"):
        write(tmp_path, arm_of("overcooked", f"pqn-{layout}"), [100.0])
    entry = experiment("overcooked")
    assert numbers.aggregate(entry, choices(entry, tmp_path), "PQN-VDN") is None


def test_speeds_are_of_results_that_have_one(tmp_path: Path) -> None:
    arm = arm_of("minatar", "pqn-breakout")
    write(tmp_path, arm, [1.0] * 10, calls=later("2026-11-17T00:00:00+00:00"), steps_per_second=5e6)
    write(tmp_path, arm, [1.0] * 10, calls=later("2026-11-18T00:00:00+00:00"), steps_per_second=2e6)
    write(tmp_path, arm, [1.0] * 10, calls=later("2026-11-19T00:00:00+00:00"), steps_per_second=None)
    (tmp_path / "public").mkdir()
    (tmp_path / numbers.PUBLIC).write_bytes((ROOT / "results" / numbers.PUBLIC).read_bytes())
    cells = row(speed_table.speed_table(tmp_path), "`minatar-breakout-paper`")
    assert cells == ["10", "2 M", "167", "1.17 M (without evaluations)", "abcdef0"]


def test_the_papers_code_has_its_own_data(tmp_path: Path) -> None:
    found = numbers.public_results(ROOT / "results")
    assert found["minatar:Breakout"].seeds == 3, "the run with the most steps"
    assert found["minatar:Breakout"].value == pytest.approx(87.57, abs=0.01)
    assert numbers.public_results(tmp_path) == {}
    (tmp_path / "public").mkdir()
    for text in ("{", "[]", '{"steps": 1, "seeds": 1}', '{"steps": "x", "seeds": 1, "name": "a", "test": "b"}'):
        (tmp_path / numbers.PUBLIC).write_text(text)
        for read in (numbers.public_results, speed_table.speed_table):
            with pytest.raises(RunError, match="is damaged"):
                read(tmp_path)


def test_generated_parts_are_replaced_and_the_rest_is_not() -> None:
    page = f"a\n{markers.block('overview', 'old')}\nb {markers.block('rule', '')} c\n"
    filled = markers.filled(page, lambda name: f"new {name}")
    assert filled == f"a\n{markers.block('overview', 'new overview')}\nb {markers.block('rule', 'new rule')} c\n"
    assert markers.filled(filled, lambda name: f"new {name}") == filled
    assert markers.names(page) == ["overview", "rule"]
    assert markers.without_generated(page).count("\n") == page.count("\n")
    assert "old" not in markers.without_generated(page)


def test_a_part_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no generated part 'overvew'"):
        pages.part("overvew", tmp_path)
    with pytest.raises(ConfigError, match="there is no experiment 'minatr'"):
        pages.part("table minatr", tmp_path)
    assert pages.part("table minatar", tmp_path) == "No results yet."


def test_a_report_is_built_from_nothing_and_again(out: Path) -> None:
    page = out / "page.md"
    page.write_text(markers.block("table minatar", ""))
    changed = publish.build(out, [page])
    assert {out / "README.md", page, out / "minatar" / "README.md", out / "minatar" / "curves.png"} <= set(changed)
    assert "2.5 [" in page.read_text() and "[MinAtar](minatar/README.md)" in (out / "README.md").read_text()
    assert publish.build(out, [page], figures=False) == [], "the same results make the same pages"


def test_the_pages_of_this_repository_are_those_of_its_results() -> None:
    """Nobody types a number: `pqn reproduce --report` would change nothing."""
    others = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path, text in publish.texts(ROOT / "results", others):
        assert path.read_text() == text, f"{path.relative_to(ROOT)} is not up to date: run `pqn reproduce --report`"
