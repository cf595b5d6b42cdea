"""Evaluation against play written out step by step, and what a run reports of it."""

from __future__ import annotations

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from fickle import Fickle, play

import pqn
from pqn.envs.base import Autoreset
from pqn.evaluate import evaluate, means
from pqn.learner import Learner
from pqn.metrics import read_metrics
from pqn.progress import Progress

QUIET = Progress(quiet=True)
CASES = {
    "plain": (Fickle(), {}),
    "gru": (Fickle(), {"network.memory": "gru", "network.memory_size": 8}),
    "masked": (Fickle(masked=True), {}),
    "scored": (Fickle(scored=True), {}),
}
ENVS = 12


def evaluated(case: str, max_steps: int):
    """What `evaluate` says, and what a plain player says."""
    single, options = CASES[case]
    env, learner = Autoreset(single, ENVS), Learner(tiny(options), single.spec)
    state = learner.init(jax.random.key(1))
    key = jax.random.key(2)
    found = jax.jit(lambda key: evaluate(env, learner, state, key, 0.0, max_steps))(key)
    reset_key, _ = jax.random.split(key)
    return jax.device_get(found), play(env, learner, state, reset_key, max_steps)


@pytest.mark.parametrize("case", ["gru", "masked"])
def test_play_is_greedy_with_memory_and_masks(case):
    found, expected = evaluated(case, 40)
    np.testing.assert_allclose(found.ret, expected.ret)
    assert len(np.unique(expected.ret / expected.length)) > 2  # not one action all the time


@pytest.mark.parametrize("case", ["plain", "scored"])
def test_only_the_first_episode_counts(case):
    found, expected = evaluated(case, 40)
    assert expected.finished.all() and len(np.unique(expected.length)) > 2  # the short ones wait for the longest
    np.testing.assert_array_equal(found.finished, True)
    np.testing.assert_array_equal(found.length, expected.length)
    np.testing.assert_allclose(found.ret, expected.ret)
    np.testing.assert_array_equal(found.info["t"], expected.length)


def test_an_evaluation_stops_at_its_limit():
    found, expected = evaluated("plain", 4)
    assert 0 < expected.finished.sum() < ENVS
    np.testing.assert_array_equal(found.finished, expected.finished)
    for ours, theirs in (
        (found.length, expected.length),
        (found.ret, expected.ret),
        (found.info["t"], expected.length),
    ):
        np.testing.assert_allclose(ours, np.where(expected.finished, theirs, np.nan))  # no number of an open episode


def test_rows_hold_means_of_losses_and_sums_of_episodes(finished_run, tmp_path):
    """One row over several updates says what rows of single updates say together."""
    fine = pqn.train(tiny({"save.logs": 10}, seeds=2), out=tmp_path / "run", progress=QUIET)
    rows, single = (
        [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
        for run in (finished_run.run, fine.run)
    )
    assert len(single) == 10 > len(rows) and rows[-1]["update"] == 10
    begin = 0
    for row in rows:
        within = single[begin : row["update"]]
        for name in ("loss", "q", "target", "grad_norm"):
            np.testing.assert_allclose(row[name], np.mean([each[name] for each in within], axis=0), rtol=1e-5)
        for name in ("episodes", "return_sum", "length_sum"):
            np.testing.assert_allclose(row[name], np.sum([each[name] for each in within], axis=0), rtol=1e-5)
        begin = row["update"]
    assert np.sum([row["episodes"] for row in rows]) > 0


def test_means_leave_out_what_is_not_there():
    known = means(np.array([[1.0, np.nan, 4.0], [np.nan] * 3]))
    np.testing.assert_array_equal(known, [2.5, np.nan])


def test_a_resumed_run_remembers_its_last_evaluation(finished_run, tmp_path):
    """Killed after its last checkpoint and before its summary, a run still knows what it reached."""
    run = tmp_path / "run"
    shutil.copytree(finished_run.run, run)
    (run / "summary.json").unlink()
    assert finished_run.summary["eval_return"] is not None
    assert pqn.resume(run, progress=QUIET).summary["eval_return"] == finished_run.summary["eval_return"]


def test_evaluation_explores_where_it_is_told_to():
    single = Fickle()
    env, learner = Autoreset(single, 256), Learner(tiny(), single.spec)
    state = learner.init(jax.random.key(1))
    run = jax.jit(lambda epsilon: evaluate(env, learner, state, jax.random.key(0), epsilon, 40))
    random = jax.device_get(run(jnp.float32(1.0)))
    assert random.ret.sum() / random.length.sum() == pytest.approx(1.0 + (0 + 1 + 4 + 9) / 4, rel=0.1)
