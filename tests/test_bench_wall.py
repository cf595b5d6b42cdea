"""Time to result: what the bench makes of a process, and of the numbers of the paper's code."""

import json

import pytest

from bench import wall

TINY = [
    "env.num-envs=4", "network.hidden=8", "learner.rollout-steps=4", "learner.minibatches=2", "learner.epochs=1",
    "eval.count=2", "eval.num-envs=2", "eval.max-steps=16",
]  # fmt: skip


@pytest.fixture(scope="module")
def row() -> dict:
    (row,) = wall.main(["cartpole", "--cold-only", "--total-steps", "160", *(f"--set={option}" for option in TINY)])
    return row


def test_every_second_of_a_process_belongs_to_a_phase(row):
    seconds = row["seconds"]
    assert set(wall.SPLIT) < seconds.keys() and all(seconds[name] >= 0.0 for name in wall.SPLIT)
    assert all(seconds[name] > 0.0 for name in ("before", "build", "trace", "compile", "train", "evaluate", "write"))
    known = sum(seconds[name] for name in wall.SPLIT)
    assert 0.0 < seconds["until_last_evaluation"] < known < row["whole_process"]
    # Nothing but the end of the process comes after; its start is known to a hundredth of a second.
    assert seconds["trace"] + seconds["compile"] == pytest.approx(row["compile_seconds"], abs=0.05)
    assert row["cpu"] > 0.0 and row["cache"] == "cold" and row["steps"] == 160
    assert row["public_h200"] is None and row["goal_h200"] is None  # those are of longer runs


def test_the_share_between_chunks(row):
    seconds = dict.fromkeys(wall.SPLIT, 100.0) | {"train": 9.0, "evaluate": 0.5, "write": 0.25, "rest": 0.25}
    assert wall.between_chunks(seconds) == pytest.approx(0.1)
    assert 0.0 < wall.between_chunks(row["seconds"]) < 1.0


def test_the_table_has_a_line_for_each_process(row):
    head, rule, line = wall.table([row]).splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    assert line.startswith("| cartpole | here | cold | ")


def test_the_papers_code_is_tracing_compiling_and_running():
    timed = {"name": "cartpole", "seeds": 10, "steps": 1000, "trace_s": 1.0, "compile_s": 9.0, "steps_per_s": 2e6}
    shorter = timed | {"steps": 10, "compile_s": 100.0}
    other = timed | {"seeds": 1, "compile_s": 50.0}
    text = "\n".join(map(json.dumps, (shorter, timed, other)))
    row = wall.ROWS["cartpole-paper"]
    assert wall.public_seconds(row, row.steps, text) == 12.5
    assert wall.public_seconds(wall.ROWS["hanabi"], 10, text) is None


def test_every_row_has_a_number_of_the_papers_code():
    text = wall.PUBLIC.read_text()
    found = {name: wall.public_seconds(row, row.steps, text) for name, row in wall.ROWS.items()}
    assert all(found.values())
    assert found["cartpole-paper"] == 13.4 and found["hanabi"] > 3 * 3600


@pytest.mark.parametrize("text", ["cartpole", "old=nowhere"])
def test_a_tree_is_a_checkout_with_a_name(text, capsys):
    with pytest.raises(SystemExit):
        wall.main(["--tree", text])
    assert "is not NAME=CHECKOUT" in capsys.readouterr().err
