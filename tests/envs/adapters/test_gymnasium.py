"""The Gymnasium adapter: every autoreset mode yields the transitions of the environment, and nothing else."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

import pqn
from pqn.algorithms.base import Hyper
from pqn.envs import check_env, registry
from pqn.errors import EnvError, EnvFailed
from pqn.programs.simulators.joining import join_groups
from pqn.programs.simulators.program import SimulatorProgram
from pqn.progress import Progress
from pqn.types import Seen

QUIET = Progress(quiet=True)


class Marked(gymnasium.Env):
    """A clock like `probe:counter`: an observation (episode, step, length) tells everything about its step.

    The last observation of an episode has step = length, so one that is acted on gives itself away.
    """

    observation_space = spaces.Box(0.0, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self, longest: int = 4):
        self.longest = longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = int(self.np_random.integers(1000))
        self.t, self.length = 0, int(self.np_random.integers(1, self.longest + 1))
        self.cut = bool(self.np_random.integers(2))
        return self._obs(), {}

    def step(self, action):
        assert action in (5, 6)
        self.t += 1
        over = self.t == self.length
        return self._obs(), float(self.t), over and not self.cut, over and self.cut, {}

    def _obs(self):
        return np.array([self.episode, self.t, self.length], np.float64)


class MarkedVector(VectorEnv):
    """The same, vectorised by itself and resetting in the next step, as EnvPool and older vector environments do."""

    metadata: ClassVar[dict] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int = 1, longest: int = 4):
        self.envs, self.num_envs = [Marked(longest) for _ in range(num_envs)], num_envs
        self.single_observation_space, self.single_action_space = Marked.observation_space, Marked.action_space
        self.over = np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        self.over[:] = False
        return np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(self.envs)]), {}

    def step(self, actions):
        outs = [
            (env.reset()[0], 0.0, False, False, {}) if over else env.step(action)
            for env, action, over in zip(self.envs, actions, self.over, strict=True)
        ]
        obs, reward, terminated, truncated = (np.stack(x) for x in list(zip(*outs, strict=True))[:4])
        self.over = terminated | truncated
        return obs, reward, terminated, truncated, {}


class Dying(Marked):
    """Its process ends, or it raises, at step 30 of its life."""

    def __init__(self, how: str = "raise"):
        super().__init__()
        self.how, self.life = how, 0

    def step(self, action):
        self.life += 1
        if self.life == 30:
            if self.how == "die":
                import os

                os._exit(1)
            raise RuntimeError("the battery is empty")
        return super().step(action)


for name, kind in {"Marked-v0": Marked, "Dying-v0": Dying}.items():
    vector = MarkedVector if kind is Marked else None
    gymnasium.register(f"pqn-tests/{name}", entry_point=kind, vector_entry_point=vector)

WAYS = {
    "same_step": {"autoreset_mode": "same_step"},
    "disabled": {"autoreset_mode": "disabled"},
    "next_step": {"autoreset_mode": "next_step"},
    "vectorised by itself": {"vectorization_mode": "vector_entry_point"},
}


def program_for(name, kwargs, options=None):
    config = tiny({"learner.gamma": 0.9, "learner.rollout_steps": 16, "simulators.greedy_envs": 0} | (options or {}))

    def make(num_envs):
        return registry.make(f"gymnasium:{name}", num_envs, **kwargs)

    program = SimulatorProgram(config, make, make(1).spec)
    program.compile()
    return program


def collected(program):
    """One rollout as the learner gets it, its work, and the sums over finished episodes."""
    state = program.init()
    _, unlearned = program.collect(state)
    learner, groups = jax.tree.map(lambda x: x[0], (state.learner, unlearned.collected))
    data, (_, _, finished) = join_groups(program.algorithm.actor, program.layout, groups, program.hyper)
    return learner, data, program.algorithm.prepare(learner, data, jax.random.key(0), program.hyper)[1], finished


@pytest.mark.parametrize("kwargs", WAYS.values(), ids=WAYS)
def test_no_fake_transition_is_learned_from(kwargs):
    """Every step that counts is one of the environment, and its λ-return is that of its own episode."""
    program = program_for("pqn-tests/Marked-v0", kwargs)
    learner, data, work, finished = collected(program)
    valid = np.ones(data.reward.shape, bool) if data.valid is None else np.asarray(data.valid)
    episode, t, length = np.moveaxis(np.asarray(data.inputs.obs)[:, :, 0], -1, 0)
    assert ((t == length) == ~valid).all()  # only the last observation of an episode is no place to act
    assert (valid.all()) == (kwargs.get("autoreset_mode") in ("same_step", "disabled"))
    ended = np.asarray(data.discount) == 0
    np.testing.assert_array_equal(ended, (t + 1 == length) | ~valid)
    assert int(finished.episodes) == (ended & valid).sum()
    assert float(finished.length) == length[ended & valid].sum()

    def value(obs):
        seen = program.algorithm.actor.inputs(
            jnp.asarray(obs)[None, None], jnp.zeros((1, 1), bool), jnp.zeros((1, 1)), jnp.zeros(1)
        )
        return float(program.algorithm.actor.value(learner, (), Seen(seen))[0])

    targets = np.asarray(work.segments.target).reshape(valid.shape)
    lam, bootstrapped = 0.95, 0
    last = np.asarray(data.last_value)
    for n in range(valid.shape[1]):
        following, next_value = last[n], last[n]
        for i in reversed(range(valid.shape[0])):
            if not valid[i, n]:
                continue
            reward = t[i, n] + 1
            if t[i, n] + 1 == length[i, n]:
                terminal = np.array([episode[i, n], t[i, n] + 1, length[i, n]], np.float32)
                cut = not np.isclose(targets[i, n], reward)
                expected = reward + 0.9 * value(terminal) if cut else reward
                bootstrapped += cut
            else:
                expected = reward + 0.9 * ((1 - lam) * next_value + lam * following)
            np.testing.assert_allclose(targets[i, n], expected, rtol=1e-4)
            following, next_value = targets[i, n], float(data.value[i, n])
    assert bootstrapped > 0


def test_all_ways_see_the_same_episodes():
    """The steps that count, in order, are the same for the three autoreset modes."""
    found = []
    for way in ("same_step", "disabled", "next_step"):
        _, data, _, _ = collected(program_for("pqn-tests/Marked-v0", WAYS[way]))
        valid = np.ones(data.reward.shape, bool) if data.valid is None else np.asarray(data.valid)
        obs = np.asarray(data.inputs.obs)[:, :, 0]
        found.append([obs[valid[:, n], n] for n in range(valid.shape[1])])
    for same, disabled, after in zip(*found, strict=True):
        np.testing.assert_array_equal(same, disabled)
        assert 0 < len(after) < len(same)
        np.testing.assert_array_equal(same[: len(after)], after)


def test_the_loss_does_not_see_what_is_no_transition():
    program = program_for("pqn-tests/Marked-v0", WAYS["next_step"])
    learner, _, work, _ = collected(program)
    batch, hyper = work.segments, Hyper.of(program.config)
    assert 0 < int(batch.valid.sum()) < batch.valid.size

    def loss(batch):
        return program.algorithm.loss(learner.params, {}, batch, hyper)[0]

    obs_gradient = jax.grad(lambda obs: loss(batch._replace(inputs=batch.inputs._replace(obs=obs))))(batch.inputs.obs)
    moved = np.abs(np.asarray(obs_gradient)).sum((2, 3))
    assert (moved[~np.asarray(batch.valid)] == 0).all() and (moved[np.asarray(batch.valid)] > 0).any()
    spoiled = batch._replace(target=jnp.where(batch.valid, batch.target, 1e6))
    assert loss(spoiled) == loss(batch)
    chosen = jax.tree.map(lambda x: x[:, np.asarray(batch.valid)[0]], batch._replace(carry=(), valid=None))
    np.testing.assert_allclose(loss(chosen), loss(batch), rtol=1e-5)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_recurrent_training_runs_in_every_mode(mode):
    options = {"network.memory": "gru", "network.memory_size": 8, "learner.minibatches": 2, "simulators.greedy_envs": 2}
    program = program_for("pqn-tests/Marked-v0", WAYS[mode], options)
    _, totals = program.chunk(program.init(), 2)
    assert np.isfinite(totals["loss"]).all() and totals["episodes"][0] > 0
    # An episode of length n pays 1 + … + n, whatever resets it.
    assert program.started.greedy.report().ret.max() <= 10


@pytest.mark.parametrize("kwargs", WAYS.values(), ids=WAYS)
def test_check_env_accepts_every_way(kwargs):
    env = registry.make("gymnasium:pqn-tests/Marked-v0", 3, **kwargs)
    report = check_env(env, steps=60)
    assert report.truncations > 0 and report.terminations > 0 and max(report.lengths) <= 4
    env.close()


def test_worker_processes_step_as_this_process_does():
    def run(**kwargs):
        env = registry.make("gymnasium:CartPole-v1", 2, **kwargs)
        steps = [env.reset(np.array([3, 4])).obs.copy()]
        for _ in range(30):
            env.send(np.ones((2, 1), np.int32))
            steps.append(env.recv().obs.copy())
        env.close()
        return np.stack(steps)

    np.testing.assert_array_equal(run(), run(vectorization_mode="async"))


@pytest.mark.parametrize("how, said", [("raise", "RuntimeError: the battery is empty"), ("die", "worker process")])
def test_a_worker_that_fails_ends_the_run_with_a_sentence_and_a_checkpoint(tmp_path, how, said):
    name = f"gymnasium:{__name__}:pqn-tests/Dying-v0"
    config = tiny(
        {"env.name": name, "env.kwargs": {"vectorization_mode": "async", "how": how}, "env.num_envs": 2}
        | {"learner.minibatches": 2, "simulators.greedy_envs": 0, "eval.count": 0},
        total_steps=640,
    )
    with pytest.raises(EnvFailed, match=f"{said}.*pqn resume") as caught:
        pqn.train(config, out=tmp_path / "run", progress=QUIET)
    assert "\n" not in str(caught.value)
    agent = pqn.load(tmp_path / "run")
    assert agent.step == 3 * 16 and agent.act(np.zeros(3)) in (0, 1)


class Unusual(gymnasium.Env):
    """Spaces of every kind."""

    def __init__(self, obs="box", action="discrete"):
        self.observation_space = {
            "box": spaces.Box(-1, 1, (), np.float64),
            "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
            "discrete": spaces.Discrete(5, start=2),
            "dict": spaces.Dict(x=spaces.Discrete(2)),
            "tuple": spaces.Tuple([spaces.Discrete(2)]),
        }[obs]
        self.action_space = {
            "discrete": spaces.Discrete(2),
            "multi": spaces.MultiDiscrete([2, 2]),
            "box": spaces.Box(-1, 1, (1,)),
        }[action]

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


gymnasium.register("pqn-tests/Unusual-v0", entry_point=Unusual)


@pytest.mark.parametrize(
    ("obs", "shape", "dtype"), [("box", (1,), np.float32), ("image", (4, 4, 3), np.uint8), ("discrete", (5,), bool)]
)
def test_observations_of_usable_kinds(obs, shape, dtype):
    env = registry.make("gymnasium:pqn-tests/Unusual-v0", 3, obs=obs)
    assert env.spec.obs_shape == shape and env.spec.obs_dtype == dtype
    check_env(env, steps=10)
    if obs == "discrete":
        assert (env.reset(np.arange(3)).obs.sum(-1) == 1).all()


@pytest.mark.parametrize(
    ("name", "kwargs", "said"),
    [
        ("CartPol-v1", {}, "did you mean CartPole-v1"),
        ("lunarlander", {}, "did you mean LunarLander-v3"),
        ("zzz-v0", {}, "Gymnasium knows no environment 'zzz-v0'"),
        ("Pendulum-v1", {}, "has continuous actions"),
        ("pqn-tests/Unusual-v0", {"obs": "dict"}, "observations of kind Dict"),
        ("pqn-tests/Unusual-v0", {"obs": "tuple"}, "observations of kind Tuple"),
        ("pqn-tests/Unusual-v0", {"action": "multi"}, "actions of kind MultiDiscrete"),
        ("CartPole-v1", {"gravity_": 1}, "unexpected keyword argument 'gravity_'"),
        ("CartPole-v1", {"autoreset_mode": "never"}, "autoreset_mode is 'never'; it must be one of"),
        ("CartPole-v1", {"vectorization_mode": "asink"}, "vectorization_mode is 'asink'"),
    ],
)
def test_what_cannot_be_made_gets_a_sentence(name, kwargs, said):
    with pytest.raises(EnvError, match=said) as caught:
        registry.make(f"gymnasium:{name}", 2, **kwargs)
    assert "\n" not in str(caught.value)


def test_a_missing_package_names_the_command(monkeypatch):
    import importlib

    def absent(name):
        raise ModuleNotFoundError("No module named 'gymnasium'", name="gymnasium")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(EnvError, match=r"gymnasium is not installed: pip install -e '\.\[gymnasium\]'"):
        registry.make("gymnasium:CartPole-v1", 2)


def test_cartpole_is_learned(tmp_path):
    """Gymnasium's CartPole, to a greedy return of 475; all of five seeds gave 500."""
    config = pqn.preset("cartpole", {"env.name": "gymnasium:CartPole-v1", "eval.num_envs": 16}, total_steps=120_000)
    result = pqn.train(config, out=tmp_path / "run", progress=QUIET)
    assert result.summary["eval_return"]["mean"] >= 475
    rows = [row for row in pqn.runs.metrics.read_metrics(result.run / "metrics.jsonl") if row["kind"] == "eval"]
    assert len(rows) == config.eval.count and np.shape(rows[0]["returns"]) == (1, 8)
    from pqn.play import evaluate_run

    again = evaluate_run(result.run, episodes=8)
    assert again["mean"] >= 475 and again["unfinished"] == 0
