"""Trials trained as one program: their values, their curves, and which of them are left out."""

from __future__ import annotations

import pytest
from conftest import tiny

from pqn.errors import Interrupted
from pqn.progress import Progress
from pqn.search import together
from pqn.search.together import groups, train_together
from pqn.training import train

BASE = tiny({"eval.count": 5}, seeds=2)
CONFIGS = [BASE.replace({"learner.lr": lr}) for lr in (1e-4, 1e-2, 1e30, 3e-2)]


def test_values_are_those_of_the_runs_and_what_has_ended_is_left_out(tmp_path, monkeypatch):
    widths, curves = [], {place: [] for place in range(4)}
    narrowed = together.TrialsProgram.narrowed
    monkeypatch.setattr(
        together.TrialsProgram, "narrowed", lambda self, kept, state: widths.append(kept) or narrowed(self, kept, state)
    )

    def report(place, step, value):
        curves[place].append((step, value))
        return not (place == 0 and step >= 256)

    endings = train_together(CONFIGS, report, lambda: None)
    assert endings[0] == (None, "below the median at update 4") and len(curves[0]) == 2
    assert endings[2].value is None and endings[2].reason.startswith("diverged at update ") and not curves[2]
    assert widths == [[1, 3]]  # at update 4, when two of four had ended
    for place in (1, 3):
        result = train(CONFIGS[place], out=tmp_path / str(place), progress=Progress(quiet=True))
        assert endings[place] == (result.summary["eval_return"]["mean"], "")
        assert [step for step, _ in curves[place]] == [128, 256, 384, 512, 640]
        assert curves[place][-1][1] == endings[place].value


def test_a_signal_stops_everything():
    with pytest.raises(Interrupted, match="stopped by SIGTERM; call the same command again"):
        train_together(CONFIGS[:1], lambda *_: True, lambda: "SIGTERM")


def test_only_trials_of_one_shape_are_one_program():
    other = BASE.replace({"learner.epochs": 1})
    assert groups([CONFIGS[0], other, CONFIGS[1], other.replace({"learner.lam": 0.5})]) == [[0, 2], [1, 3]]
