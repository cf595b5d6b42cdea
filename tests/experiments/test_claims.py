"""Numbers in text: which look like measurements, and whether they are those of their data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pqn.errors import RunError
from pqn.experiments.claims import CLAIMS, Claim, check, measurements, number, problems, read_claims, read_value

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "CHANGELOG.md",
    "results/README.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md"))),
]


def test_every_measurement_of_this_repository_agrees_with_its_data() -> None:
    found = problems(ROOT, PAGES, read_claims(ROOT / CLAIMS))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("It takes 3.3 s and 20 seconds, then 4 minutes or 1.5 hours.", ["3.3", "20", "4", "1.5"]),
        ("at 141 k steps/s, 2.08 M steps/s or 300 steps/s", ["141", "2.08", "300"]),
        ("85 % of it in 8.2 GB, 3.2× the speed, 4.2-fold, 15 µs, 3 ms", ["85", "8.2", "3.2", "4.2", "15", "3"]),
        ("24 to 44 seconds and 85 and 91 %", ["24", "44", "85", "91"]),
        ("17 of 20 seeds, 40 of 57 games", ["17", "40"]),
        ("| a | b |\n|---|---|\n| x | 85.3 |\n| y | **−88.2** [−91, −85] |", ["85.3", "−88.2"]),
        ("its 95 % bootstrap interval, a 95 % interval", []),
        ("for 10 seeds, 64 environments, a grid of 4 × 5, step 3, 20 updates, T = 128, 2s3z, 1e9 steps", []),
        ("`--learner.lr 3 s`, [20 s](page#20-s)\n\n```\n20 s\n```\n\n    20 s\n\n## In 20 s\n\n<!-- 20 s -->", ["20"]),
        ("| 1 | first column |\n|---|---|\n| 2 | 3 layers |", []),
        ("<!-- not measured: a setting --> waits 20 s\n\nwaits 30 s", ["30"]),
        ("<!-- not measured: settings -->\n\n| a | b |\n|---|---|\n| x | 5 |\n\n20 s", ["20"]),
        ("<!-- generated: overview -->\n20 s\n<!-- end of generated -->\n30 s", ["30"]),
    ],
)
def test_what_looks_like_a_measurement(text: str, seen: list[str]) -> None:
    assert [each.text for each in measurements(text)] == seen


def test_a_measurement_is_found_on_its_line() -> None:
    text = "one\n\ntwo 20 s\n"
    (found,) = measurements(text)
    assert found.line == 3 and text[found.start :].startswith("20 s")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "page.md").write_text("It reaches 475\nafter 3.3 s here.\n")
    (tmp_path / "data.json").write_text(json.dumps({"rows": [{"seconds": 3.26}], "all": [1, 2, None, 9]}))
    (tmp_path / "data.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    return tmp_path


def claim(**changes: object) -> Claim:
    values = {
        "page": "page.md", "says": "reaches 475 after [3.3] s", "file": "data.json", "field": "rows/0/seconds",
        "tolerance": 0.05,
    }  # fmt: skip
    return Claim(**(values | changes))  # type: ignore[arg-type]


def test_a_claim_that_holds(root: Path) -> None:
    assert problems(root, ["page.md"], [claim()]) == []


def test_a_second_measurement_needs_a_second_claim(root: Path) -> None:
    (root / "page.md").write_text("It reaches 475 after 3.3 s, in all 3.3 s.")
    (found,) = problems(root, ["page.md"], [claim()])
    assert "3.3 looks like a measurement" in found


def test_a_measurement_without_a_claim(root: Path) -> None:
    (found,) = problems(root, ["page.md"], [])
    assert found.startswith("page.md:2: 3.3 looks like a measurement and no claim")


def test_a_sentence_that_parts_from_its_data(root: Path) -> None:
    (found,) = problems(root, ["page.md"], [claim(tolerance=0.01)])
    assert "but data.json has 3.26 in rows/0/seconds" in found
    (root / "page.md").write_text("It reaches 475 after 3.4 s here.")
    found = problems(root, ["page.md"], [claim()])
    assert "is there 0 times" in found[0] and "3.4 looks like a measurement" in found[1]


@pytest.mark.parametrize("change", [{"field": "rows/1/seconds"}, {"field": "none"}, {"file": "none.json"}])
def test_data_that_do_not_exist(root: Path, change: dict[str, str]) -> None:
    (found,) = check(root, claim(**change))
    assert "has no" in found


def test_claims_of_pages_that_nobody_checks_are_told(root: Path) -> None:
    assert "claims of page.md" in problems(root, [], [claim()])[0]


def test_values_of_files(root: Path) -> None:
    assert read_value(root / "data.jsonl", "2/a") == 2.0, "the second line"
    for reduce, value in {"min": 1, "max": 9, "mean": 4, "median": 2, "sum": 12, "last": 9}.items():
        assert read_value(root / "data.json", "all", reduce) == value
    assert number("−1 234.5") == -1234.5
    (root / "claims.toml").write_text("[[claim]]\npage = 1\n")
    with pytest.raises(RunError, match="is damaged"):
        read_claims(root / "claims.toml")
