"""Whole runs on environments outside of JAX: resuming, evaluating, and environments that fail."""

from __future__ import annotations

import dataclasses
import json
import os
import signal

import jax
import numpy as np
import pytest
from conftest import tiny
from hostenvs import HostFromJax, Savable
from saved import read_tree
from test_collect import host_program

import pqn
from pqn.algorithms import make_algorithm
from pqn.envs.probe import Counter, Masked, Memory
from pqn.errors import ConfigError, Diverged, EnvError, EnvFailed
from pqn.programs.simulators.groups import split_into_groups
from pqn.programs.simulators.player import Player
from pqn.programs.simulators.simulators import Simulators
from pqn.progress import Progress
from pqn.runs import checkpoint
from pqn.runs.metrics import read_metrics

QUIET = Progress(quiet=True)
GRU = {"network.memory": "gru", "network.memory_size": 8, "learner.segment_length": 4, "learner.minibatches": 2}


class Listening(Progress):
    """Remembers what was said."""

    def __init__(self):
        super().__init__(quiet=True)
        self.said = []

    def note(self, text):
        self.said.append(text)


class Failing(HostFromJax):
    """Raises after a number of steps of its own."""

    patience = 100

    def recv(self):
        self.patience -= 1
        if self.patience < 0:
            raise ValueError("the simulator is broken\nsecond line")
        return super().recv()


class FailingSavable(Failing, Savable):
    pass


def final(run):
    path = checkpoint.latest(run / "checkpoints")
    return read_tree(path)


def make(kind, env=None, **attributes):
    env = env or Counter()

    def build(num_envs):
        made = kind(env, num_envs)
        for name, value in attributes.items():
            setattr(made, name, value)
        return made

    return build


def stop_at(update):
    """A progress that sends the process a Ctrl-C when the run has come this far."""

    class Stopping(Listening):
        sent = False

        def update(self, fields):
            if fields["step"] >= update * 64 and not self.sent:
                self.sent = True  # a second one would act at once
                os.kill(os.getpid(), signal.SIGINT)

    return Stopping()


def test_a_run_leaves_what_runs_in_jax_leave(tmp_path):
    out = tmp_path / "run"
    made = []

    def build(num_envs):
        made.append(HostFromJax(Counter(), num_envs))
        return made[-1]

    result = pqn.train(tiny({"simulators.greedy_envs": 3}, seeds=2), env=build, out=out, progress=QUIET)
    rows = read_metrics(out / "metrics.jsonl")
    evals = [row for row in rows if row["kind"] == "eval"]
    assert [row["update"] for row in evals] == [5, 10]
    assert np.shape(evals[0]["returns"]) == (2, 3) and np.shape(evals[1]["returns"]) == (2, 4)
    assert result.summary["steps"] == 640 and np.isfinite(result.summary["eval_return"]["mean"])
    assert sum(sum(row["episodes"]) for row in rows if row["kind"] == "train") > 0
    agent = pqn.load(out, seed=1)
    assert agent.act(np.zeros(2, np.float32)) in (0, 1)
    assert all(env.closed for env in made)


@pytest.mark.parametrize("env, options", [(Counter(), {}), (Memory(), GRU | {"learner.burn_in": 2})])
def test_resuming_simulators_that_can_be_saved_changes_nothing(tmp_path, env, options):
    config = tiny(options | {"simulators.greedy_envs": 3, "eval.count": 5}, total_steps=640)
    whole = pqn.train(config, env=make(Savable, env), out=tmp_path / "whole", progress=QUIET)
    with pytest.raises(pqn.PqnError, match="continue with: pqn resume"):
        pqn.train(config, env=make(Savable, env), out=tmp_path / "cut", progress=stop_at(4))
    listening = Listening()
    cut = pqn.resume(tmp_path / "cut", env=make(Savable, env), progress=listening)
    assert not any("start" in line for line in listening.said)
    a, b = final(whole.run), final(cut.run)
    jax.tree.map(np.testing.assert_array_equal, a, b)
    clocks = ("wall", "steps_per_second")
    logs = [
        [{k: v for k, v in row.items() if k not in clocks} for row in read_metrics(run / "metrics.jsonl")]
        for run in (whole.run, cut.run)
    ]
    evals = [[row for row in rows if row["kind"] == "eval"] for rows in logs]
    assert evals[0] == evals[1] and len(evals[0]) == 5


def test_resuming_other_simulators_starts_new_episodes_and_says_so(tmp_path):
    with pytest.raises(pqn.PqnError, match="pqn resume"):
        pqn.train(tiny(), env=make(HostFromJax), out=tmp_path / "run", progress=stop_at(4))
    before = final(tmp_path / "run")
    at = int(before["learner"]["updates"][0])
    assert 4 <= at < 10
    listening = Listening()
    result = pqn.resume(tmp_path / "run", env=make(HostFromJax), progress=listening)
    assert any("starts new ones" in line for line in listening.said)
    assert result.summary["steps"] == 640 and int(final(result.run)["learner"]["updates"][0]) == 10


def test_a_restored_learner_is_the_saved_one_to_the_bit():
    program = host_program(Counter())
    state, _ = program.chunk(program.init(), 3)
    saved = program.snapshot(state)
    again = host_program(Counter())
    restored = again.restore(saved, lambda text: None)
    jax.tree.map(np.testing.assert_array_equal, restored.learner, state.learner)
    np.testing.assert_array_equal(jax.random.key_data(restored.key), jax.random.key_data(state.key))
    fresh = again.init().stream.observed[0].obs
    assert not np.array_equal(restored.stream.observed[0].obs, fresh)  # new episodes, not those of the start again


class FailingInThreads(Failing):
    """One with threads of its own."""

    concurrent = property(lambda self: True, lambda self, value: None)


@pytest.mark.parametrize("kind", [Failing, FailingSavable, FailingInThreads])
@pytest.mark.parametrize(("patience", "updates"), [(5, 0), (40, 5)])  # three steps are a check before the run
def test_an_environment_that_raises_ends_the_run_with_a_checkpoint(tmp_path, kind, patience, updates):
    with pytest.raises(EnvFailed) as caught:
        pqn.train(
            tiny({"save.checkpoints": 1, "simulators.greedy_envs": 0, "eval.count": 0}),
            env=make(kind, patience=patience),
            out=tmp_path / "run",
            progress=QUIET,
        )
    message = str(caught.value)
    assert "ValueError: the simulator is broken" in message and "\n" not in message
    assert f"pqn resume {tmp_path / 'run'}" in message
    assert int(final(tmp_path / "run")["learner"]["updates"][0]) == updates
    listening = Listening()
    result = pqn.resume(tmp_path / "run", env=make(kind, patience=10_000), progress=listening)
    assert any("starts new ones" in line for line in listening.said)
    assert result.summary["steps"] == 640


def test_an_environment_that_fails_while_evaluating_leaves_a_checkpoint(tmp_path):
    made = []

    def build(num_envs):
        made.append(Failing(Counter(), num_envs))
        made[-1].patience = 0 if len(made) == 4 else 1000  # the first is looked at, two train, the fourth evaluates
        return made[-1]

    with pytest.raises(EnvFailed, match=r"broken.*pqn resume"):
        pqn.train(tiny(), env=build, out=tmp_path / "run", progress=QUIET)
    assert int(final(tmp_path / "run")["learner"]["updates"][0]) == 10


def test_overlap_runs_and_resumes(tmp_path):
    config = tiny({"simulators.overlap": True})
    with pytest.raises(pqn.PqnError, match="pqn resume"):
        pqn.train(config, env=make(Savable), out=tmp_path / "run", progress=stop_at(3))
    listening = Listening()
    result = pqn.resume(tmp_path / "run", env=make(Savable), progress=listening)
    assert any("starts new ones" in line for line in listening.said)
    assert result.summary["steps"] == 640


def test_one_environment_instead_of_a_function_is_refused(tmp_path):
    with pytest.raises(EnvError, match="lambda num_envs: HostFromJax"):
        pqn.train(tiny(), env=HostFromJax(Counter(), 8), out=tmp_path / "run", progress=QUIET)


def test_options_for_the_other_kind_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="overlap"):
        pqn.train(tiny({"simulators.overlap": True}), out=tmp_path / "run", progress=QUIET)
    with pytest.raises(ConfigError, match="stability"):
        pqn.train(tiny({"log.stability": 1}), env=make(HostFromJax), out=tmp_path / "run", progress=QUIET)
    assert not (tmp_path / "run").exists()


class Sick(HostFromJax):
    """Goes wrong after 20 steps of its own, which is in its third rollout: `wrong` alters a time step."""

    steps, wrong = 0, None

    def recv(self):
        self.steps += 1
        step = super().recv()
        return self.wrong(step) if self.wrong and self.steps > 20 else step


def test_divergence_stops_the_run_and_names_the_update(tmp_path):
    """A reward so large that its square, the loss, is infinite."""
    wrong = staticmethod(lambda step: step._replace(reward=np.full_like(step.reward, 1e30)))
    env = make(type("Huge", (Sick,), {"wrong": wrong}))
    with pytest.raises(Diverged, match="at update 3; the last good checkpoint is"):
        pqn.train(tiny({"save.checkpoints": 10}), env=env, out=tmp_path / "run", progress=QUIET)
    assert int(final(tmp_path / "run")["learner"]["updates"][0]) == 2


def last_infinite(x):
    x = x.copy()
    x[-1] = np.inf
    return x


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda step: step._replace(reward=last_infinite(step.reward)), "seed 6: sick gave a NaN or infinite reward"),
        (lambda step: step._replace(obs=last_infinite(step.obs)), "seed 6: sick gave a NaN or infinite observation"),
        (
            lambda step: step._replace(
                final_obs=step.final_obs * np.nan, truncated=~step.terminated, first=np.ones_like(step.first)
            ),
            "seed 5: sick gave a NaN or infinite final observation",
        ),
    ],
)
def test_a_nan_of_a_simulator_is_its_own_fault_and_nothing_learned_is_lost(tmp_path, wrong, said):
    """Two seeds; the last environments of a group belong to the second."""
    env = Counter()
    env.spec = dataclasses.replace(env.spec, name="sick")
    kind = type("Wrong", (Sick,), {"wrong": staticmethod(wrong)})
    config = tiny({"eval.count": 0}, seed=5, seeds=2)
    with pytest.raises(EnvFailed, match=f"^{said}; update 2 is saved in .* continue from it with: pqn resume"):
        pqn.train(config, env=make(kind, env), out=tmp_path / "run", progress=QUIET)
    assert int(final(tmp_path / "run")["learner"]["updates"][0]) == 2


def test_a_simulator_that_truncates_unannounced_is_named(tmp_path):
    env = Masked()  # whose episodes only terminate
    assert not env.spec.truncates
    cut = staticmethod(lambda step: step._replace(truncated=np.ones_like(step.truncated)))
    kind = type("Cutting", (Sick,), {"wrong": cut})
    with pytest.raises(EnvFailed, match=r"truncated an episode although spec\.truncates is False; update 2 is saved"):
        pqn.train(tiny({"eval.count": 0}), env=make(kind, env), out=tmp_path / "run", progress=QUIET)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda step: step._replace(obs=step.obs[..., :1]), r"`obs` of `recv` has shape \(4, 1, 1\) but must have"),
        (lambda step: step._replace(obs=step.obs.astype(np.float64)), "`obs` of `recv` has dtype float64"),
        (lambda step: step._replace(reward=step.reward[:, None]), r"`reward` of `recv` has shape \(4, 1\)"),
    ],
    ids=["shape", "dtype", "reward"],
)
def test_a_simulator_that_changes_its_form_is_named(tmp_path, wrong, said):
    """Long after the first steps, which are checked as a whole: the network would name its own layers."""
    kind = type("Changing", (Sick,), {"wrong": staticmethod(wrong)})
    with pytest.raises(EnvFailed, match=f"could not step: it raised EnvError: {said}.*; update 2 is saved"):
        pqn.train(tiny({"eval.count": 0}), env=make(kind, Counter()), out=tmp_path / "run", progress=QUIET)


def test_a_simulator_that_cannot_be_closed_is_a_sentence_and_the_others_are_closed():
    closed = []

    class Clinging(HostFromJax):
        def close(self):
            closed.append(self)
            raise OSError("still in use\nby someone")

    simulators = Simulators(lambda n: Clinging(Counter(), n), 1, split_into_groups(4, 0, 2))
    with pytest.raises(EnvFailed, match=r"could not be closed: it raised OSError: still in use$"):
        simulators.close()
    assert len(closed) == 2


# ---- evaluation ----


def test_greedy_environments_report_one_episode_each_and_lose_none():
    """Against a straightforward account of every episode of the greedy environments."""
    program = host_program(Counter(), {"simulators.greedy_envs": 5, "learner.rollout_steps": 4}, total_steps=8 * 4 * 40)
    collected, greedy = [], program.started.greedy
    original = greedy.add
    greedy.add = lambda groups: (collected.extend(groups), original(groups))
    state, reports, length = program.init(), [], [0]
    for _ in range(10):
        state, _ = program.chunk(state, 3)
        reports.append(program.evaluate(state))
        length.append(len(collected) // 2 * 4)
    parts = []
    for number, group in enumerate(program.layout.groups):
        mine = collected[number::2]
        parts.append(
            [
                np.concatenate([getattr(steps, name)[0, :, group.num_train :] for steps in mine])
                for name in ("reward", "terminated", "truncated")
            ]
        )
    reward, terminated, truncated = (np.concatenate(x, axis=1) for x in zip(*parts, strict=True))
    done = terminated | truncated
    for env in range(5):
        ends = np.flatnonzero(done[:, env])
        starts = np.concatenate([[0], ends[:-1] + 1])
        free = 0  # the first step at which this environment may begin the episode of its next report
        for k, report in enumerate(reports):
            due = [(s, e) for s, e in zip(starts, ends, strict=True) if s >= free]
            reported = due and due[0][1] < length[k + 1]
            assert bool(report.finished[0, env]) == bool(reported)
            if reported:
                begin, end = due[0]
                assert report.ret[0, env] == reward[begin : end + 1, env].sum()
                assert report.length[0, env] == end - begin + 1
                free = length[k + 1]
            else:
                assert np.isnan(report.ret[0, env])


def test_play_gives_the_first_full_episode_of_each_environment():
    """The counter pays 1 + 2 + … + length, and its length follows from its first observation."""
    env = Counter()
    actor = make_algorithm(tiny(), env.spec).actor
    policy = jax.vmap(actor.init)(jax.random.split(jax.random.key(0), 2))
    firsts = []

    class Spy(HostFromJax):
        def reset(self, seeds):
            step = super().reset(seeds)
            firsts.append(step.obs[:, 0, 0].copy())
            return step

    keys = jax.random.split(jax.random.key(1), 2)
    player = Player(actor, num_seeds=2, epsilon=0.0)
    result = player.play(lambda n: Spy(env, n), policy, keys, episodes=6, max_steps=100)
    length = 1 + firsts[0].reshape(2, 6) % env.longest
    np.testing.assert_array_equal(result.length, length)
    np.testing.assert_array_equal(result.ret, length * (length + 1) / 2)
    assert np.all(result.finished)
    short = player.play(lambda n: Spy(env, n), policy, keys, episodes=6, max_steps=2)
    np.testing.assert_array_equal(short.finished, length <= 2)


def test_a_row_without_a_finished_episode_is_null_in_the_metrics(tmp_path):
    """Episodes of 60 steps cannot end in the first 40."""
    from pqn.envs.probe import Endless

    config = tiny({"simulators.greedy_envs": 2, "eval.count": 2, "eval.num_envs": 2})
    result = pqn.train(config, env=make(HostFromJax, Endless(limit=60)), out=tmp_path / "run", progress=QUIET)
    rows = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    first, last = (row for row in rows if row["kind"] == "eval")
    assert first["returns"] == [[None, None]] and first["unfinished"] == [2]
    assert last["returns"] == [[60.0, 60.0]] and last["unfinished"] == [0]
