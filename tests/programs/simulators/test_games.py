"""Lives and games: a lost life ends an episode for the learner, and only whole games are counted."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import tiny
from test_collect import joined

import pqn
from pqn.errors import EnvError
from pqn.play import evaluate_run
from pqn.programs.simulators.program import SimulatorProgram
from pqn.progress import Progress
from pqn.runs.metrics import read_metrics
from pqn.types import EnvSpec, TimeStep

QUIET = Progress(quiet=True)


class Lives:
    """Games of three lives of two steps; a step scores 10, of which the learner sees 1."""

    spec = EnvSpec("lives", (1,), np.dtype("float32"), num_actions=2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seeds):
        self.clock = np.zeros(self.num_envs, int)
        no = np.zeros(self.num_envs, bool)
        return self.time_step(~no, 0.0, no, no, np.zeros(self.num_envs))

    def send(self, action):
        pass

    def recv(self):
        self.clock += 1
        lost, score = self.clock % 2 == 0, 10.0 * self.clock
        over = self.clock == 6
        self.clock[over] = 0
        return self.time_step(lost, 1.0, lost, over, score)

    def time_step(self, first, reward, terminated, ended, score):
        return TimeStep(
            obs=self.clock[:, None, None].astype("float32"),
            first=first[:, None],
            reward=np.full(self.num_envs, reward, "float32"),
            terminated=terminated,
            truncated=np.zeros(self.num_envs, bool),
            ended=ended,
            info={"return": score.astype("float32")},
        )

    def close(self):
        pass


def test_the_learner_sees_lives_and_the_statistics_games():
    program = SimulatorProgram(tiny({"learner.rollout_steps": 12, "simulators.greedy_envs": 2}), Lives, Lives.spec)
    program.compile()
    state = program.init()
    _, unlearned = program.collect(state)
    data, (_, _, finished) = joined(program)(unlearned.collected, program.hyper)
    ends = np.asarray(data.discount[0] == 0)
    np.testing.assert_array_equal(ends, np.repeat([[t % 2 == 1] for t in range(12)], 8, axis=1))
    assert float(finished.episodes[0]) == 8 * 2  # two games of six steps in each environment
    assert float(finished.ret[0]) == 8 * 2 * 60 and float(finished.length[0]) == 8 * 2 * 6
    greedy = program.started.greedy.report()
    np.testing.assert_array_equal(greedy.ret, [[60.0, 60.0]])
    np.testing.assert_array_equal(greedy.length, [[6.0, 6.0]])
    program.close()


def test_the_contract_knows_games():
    assert set(pqn.check_env(Lives(3), steps=30).lengths) == {6}

    class Early(Lives):
        def time_step(self, first, reward, terminated, ended, score):
            return super().time_step(first, reward, terminated, ~terminated, score)

    with pytest.raises(EnvError, match="`ended` is set where no episode ended"):
        pqn.check_env(Early(3), steps=30)


def test_an_evaluation_plays_whole_games(tmp_path):
    run = pqn.train(tiny({"eval.num_envs": 3}), env=Lives, out=tmp_path / "run", progress=QUIET).run
    last = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "eval"][-1]
    assert last["returns"] == [[60.0, 60.0, 60.0]] and last["length_mean"] == [6.0]


def test_atari_trains_saves_and_plays(tmp_path):
    """Eight emulators on a CPU, from the preset to the table of scores, with a network of a few units."""
    pytest.importorskip("ale_py", reason="needs pip install -e '.[atari]'")
    from pqn.report.atari import atari_game
    from pqn.runs.directory import RunDir

    small = {
        "env.num_envs": 8,
        "network.torso": "mlp",
        "network.hidden": (4,),
        "learner.rollout_steps": 4,
        "learner.minibatches": 2,
        "learner.epochs": 1,
        "simulators.greedy_envs": 2,
        "eval.num_envs": 2,
        "eval.max_steps": 20,
        "total_steps": 128,
    }
    result = pqn.train(pqn.preset("atari-breakout", small, seeds=2), out=tmp_path / "run", progress=QUIET)
    assert result.summary["steps"] == 128 and atari_game(RunDir.open(result.run)) == "breakout"
    rows = [row for row in read_metrics(result.run / "metrics.jsonl") if row["kind"] == "train"]
    assert np.isfinite([row["loss"] for row in rows]).all()
    assert pqn.load(result.run, 1).act(np.zeros((4, 84, 84), np.uint8)) in range(4)
    report = evaluate_run(result.run, 2)
    assert report["unfinished"] == 4 and report["max_steps"] == 20
