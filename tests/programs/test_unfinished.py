"""Episodes that do not end within an evaluation: in no mean, and reported as what they are, by every reader of them."""

from __future__ import annotations

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from hostenvs import HostFromJax, JaxTwin

import pqn
from pqn.algorithms.pqn import PQN
from pqn.cli.main import main
from pqn.envs.contract import Outcome
from pqn.play import histogram
from pqn.programs.evaluation import evaluate, mean, means, say_unfinished
from pqn.programs.simulators.player import Player
from pqn.progress import Progress, format_line
from pqn.runs.loggers import scalars
from pqn.runs.metrics import curve, read_metrics
from pqn.types import EnvSpec

LIMIT = 6


class LongOrShort:
    """Episodes of 4 or of 400 steps, told by the first observation; shaped rewards, and a score of 100 at the end."""

    spec = EnvSpec("long-or-short", (2,), np.dtype(np.float32), 2)

    def reset(self, key):
        state = (jax.random.bernoulli(key), jnp.int32(0))
        return state, self.observe(state)

    def step(self, key, state, action):
        state = (state[0], state[1] + 1)
        end = state[1] >= jnp.where(state[0], 400, 4)
        return Outcome(state, self.observe(state), jnp.float32(0.5), end, info={"return": 100.0 + 0 * end, "win": end})

    def observe(self, state):
        return jnp.stack([state[0], state[1]]).astype(jnp.float32)


def played():
    """The same episodes by the compiled evaluation and by that of simulators, and which of them are long."""
    learner = PQN(tiny(), LongOrShort.spec)
    state, key = learner.init(jax.random.key(0)), jax.random.key(1)
    env = JaxTwin(LongOrShort(), 16)
    long = np.asarray(env.reset(jax.random.split(key)[0])[1].obs[:, 0, 0]) > 0
    compiled = jax.jit(lambda: evaluate(env, learner.actor, state, key, 0.0, LIMIT))()
    several = jax.tree.map(lambda x: x[None], state)
    player = Player(learner.actor, num_seeds=1, epsilon=0.0)
    on_host = player.play(lambda n: HostFromJax(LongOrShort(), n), several, key[None], 16, LIMIT)
    return compiled, on_host, long


def test_an_episode_that_did_not_end_has_no_numbers():
    compiled, on_host, long = played()
    assert 0 < long.sum() < 16
    np.testing.assert_array_equal(compiled.finished, ~long)
    for values, at_the_end in ((compiled.ret, 100), (compiled.length, 4), (compiled.info["win"], 1)):
        np.testing.assert_array_equal(values, np.where(long, np.nan, at_the_end))
    assert int(compiled.unfinished) == long.sum()
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[0]), compiled, on_host)
    assert means(on_host.ret).tolist() == [100.0] and mean(on_host.info["win"]) == 1.0


def test_means_are_over_what_is_known():
    values = [[1.0, None, 3.0], [None, None, None], [5.0, 5.0, 5.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(means(values), [2.0, np.nan, 5.0])
        assert mean(values) == 3.5 and mean([[None]]) is None
        assert histogram(np.array([[np.nan, 1.0]])) == {"1": 1} and histogram(np.array([np.nan])) is None
        row = {"kind": "eval", "step": 1, "returns": values, "info/win": [0.5, None, 1.0], "unfinished": [1, 3, 0]}
        assert scalars(row) == pytest.approx({"eval/returns": 3.5, "eval/info/win": 0.75, "eval/unfinished": 4 / 3})
        assert scalars({"kind": "eval", "step": 1, "returns": [[None]]}) == {}
        for metric, expected in (("return", [2.0, math.nan, 5.0]), ("win", [0.5, math.nan, 1.0])):
            np.testing.assert_array_equal(curve([row], metric=metric)[1], [expected])
    assert say_unfinished(3, 64, 500) == "3 of 64 episodes unfinished after 500 steps"


@pytest.mark.parametrize("kind", [LongOrShort, HostFromJax])
def test_a_run_reports_them(tmp_path, kind):
    """Rows, summary and checkpoint of a run in JAX and of one outside of it."""
    env = LongOrShort() if kind is LongOrShort else lambda n: HostFromJax(LongOrShort(), n)
    config = tiny(
        {"eval.max_steps": LIMIT, "eval.num_envs": 16, "eval.count": 1, "simulators.greedy_envs": 0}, total_steps=64
    )
    result = pqn.train(config, env=env, out=tmp_path / "run", progress=Progress(quiet=True))
    rows = read_metrics(result.run / "metrics.jsonl")
    row = [row for row in rows if row["kind"] == "eval"][-1]
    unfinished = row["returns"][0].count(None)
    assert 0 < unfinished < 16 and set(row["returns"][0]) == {None, 100.0}
    assert row["unfinished"] == [unfinished] and row["length_mean"] == [4.0]
    assert row["info/win"] == [1.0] and row["info/return"] == [100.0]
    assert result.summary["eval_return"] == {"mean": 100.0, "per_seed": [100.0]}
    counts = {"episodes": 16, "total": unfinished, "per_seed": [unfinished], "max_steps": LIMIT}
    assert result.summary["eval_unfinished"] == counts
    (result.run / "summary.json").unlink()  # as when killed between checkpoint and summary
    again = pqn.resume(result.run, env=env, progress=Progress(quiet=True))
    assert again.summary["eval_unfinished"] == counts and again.summary["eval_return"]["mean"] == 100.0


@pytest.fixture(scope="module")
def nothing_ended(tmp_path_factory):
    """CartPole, which no policy loses in two steps, in a folder of a sweep."""
    out = tmp_path_factory.mktemp("sweep")
    options = {"eval.max_steps": 2, "eval.count": 1}
    return pqn.train(tiny(options, seeds=2), out=out / "lam-0.5", progress=Progress(quiet=True))


@pytest.mark.filterwarnings("error:.*empty slice:RuntimeWarning")
def test_where_none_ended_there_is_no_number_but_a_sentence(nothing_ended, capsys):
    from pqn.cli.show import show_result
    from pqn.cli.sweep import compare

    summary, run = nothing_ended.summary, nothing_ended.run
    assert summary["eval_return"] == {"mean": None, "per_seed": [None, None]}
    assert summary["eval_unfinished"]["total"] == summary["eval_unfinished"]["episodes"] == 8
    row = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "eval"][-1]
    assert row["returns"] == [[None] * 4] * 2 and row["unfinished"] == [4, 4] and row["length_mean"] == [None, None]

    show_result(nothing_ended)
    assert "greedy return   none: 8 of 8 episodes unfinished after 2 steps\n" in capsys.readouterr().out
    compare(run.parent, [run.name])
    printed = capsys.readouterr().out
    assert "none" in printed and "nan" not in printed and "8 of 8 unfinished" in printed
    assert main(["plot", str(run)]) == 2
    assert "no finished episode" in capsys.readouterr().err


def test_eval_says_so_too(nothing_ended, capsys):
    assert main(["eval", str(nothing_ended.run), "--episodes", "3"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("3 of 3 episodes unfinished after 2 steps") == 2 and "return" not in printed
    assert main(["eval", str(nothing_ended.run), "--episodes", "3", "--json"]) == 0
    assert '"mean": null' in capsys.readouterr().out


def test_the_live_line_says_so():
    fields = {"step": 1, "total": 2, "return": None, "epsilon": 0.1, "loss": None, "rate": None, "eta": None}
    line = format_line(fields | {"eval": None, "unfinished": {"total": 8, "episodes": 8}})
    assert "eval 8 of 8 unfinished" in line
    assert "unfinished" not in format_line(fields | {"eval": 1.0, "unfinished": {"total": 3, "episodes": 8}})
