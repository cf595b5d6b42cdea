"""Collection from simulators: the data are those of the collector inside JAX, however the pool is split."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Clock, run_updates, tiny
from hostenvs import HostFromJax, JaxTwin

from pqn.envs import check_env
from pqn.envs.contract import Outcome
from pqn.envs.probe import Counter, Gridworld, Masked, Memory, TeamMatch, TwoStepGame
from pqn.programs import rollout
from pqn.programs.compiled import CompiledProgram
from pqn.programs.simulators.collect import _side_by_side, over_seeds_but_last
from pqn.programs.simulators.pool import shares
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.records import Shifted
from pqn.types import EnvSpec

GRU = {"network.memory": "gru", "network.memory_size": 8, "learner.segment_length": 4, "learner.minibatches": 2}
PAST = {"network.last_action": True, "network.last_reward": True}
# With truncations the two collectors value the final observations in batches of different sizes, which may round the
# last bit otherwise; everything else, and everything without truncations, is equal to the bit.
CASES = [
    pytest.param(Counter(), {}, (), id="feed-forward"),
    pytest.param(Masked(), {}, (), id="masked"),
    pytest.param(Memory(), GRU | PAST, (), id="recurrent"),
    pytest.param(Memory(), GRU | {"learner.burn_in": 2}, (), id="burn-in"),
    pytest.param(Memory(), GRU | {"learner.burn_in": 4, "network.memory": "lstm"}, (), id="burn-in-whole-segment"),
    pytest.param(Counter(), GRU | PAST, ("reward", "last_value"), id="recurrent-truncated"),
    pytest.param(Counter(), {"learner.bootstrap_truncation": False}, (), id="unbootstrapped"),
    pytest.param(TwoStepGame(), {"learner.mixer": "qmix"}, (), id="team-with-a-world"),
    pytest.param(TeamMatch(), {"learner.mixer": "qmix"}, (), id="team-without-a-world"),
    pytest.param(Clock(), {"learner.mixer": "qmix"}, ("reward", "value", "last_value"), id="truncated-team"),
    pytest.param(Clock(), {"learner.mixer": "independent"}, ("reward", "last_value"), id="each-agent-alone"),
]


def host_program(env, options=None, groups=2, concurrent=False, seeds=1, kind=HostFromJax, **top) -> SimulatorProgram:
    config = tiny(options, seeds=seeds, **top)
    program = SimulatorProgram(config, lambda n: kind(env, n, concurrent), env.spec, groups)
    program.compile()
    return program


def host_rollouts(program: SimulatorProgram, count: int) -> list:
    """`count` successive rollouts with the first parameters, and the sums over their finished episodes."""
    pack = jax.jit(over_seeds_but_last(program.collector.pack_one, program.config.seeds))
    state, found = program.init(), []
    for _ in range(count):
        before = state.stream
        state, lesson = program._collect(state, state.learner, lambda: None)
        last = lesson.collected.stream._replace(episode=before.episode, window=before.window)
        data, episode, window, finished = pack(lesson.collected._replace(stream=last), program.hyper)
        state = state._replace(stream=state.stream._replace(episode=episode, window=window))
        found.append((data, finished))
    return found


def jax_rollouts(program: CompiledProgram, count: int) -> list:
    def collect(state):
        key, collect_key, _ = jax.random.split(state.key, 3)
        stream, data, finished = rollout.collect(
            program.env, program.algorithm, state.learner, state.stream, collect_key, program.hyper
        )
        return state._replace(stream=stream, key=key), data, finished

    collect = jax.jit(program.over_seeds(collect))
    state, found = jax.jit(program.over_seeds(program.init_one))(program.seeds), []
    for _ in range(count):
        state, data, finished = collect(state)
        assert not np.any(finished.fault)
        found.append((data, finished._replace(fault=None)))  # the host's pool looks at what its simulators give itself
    return found


def assert_same(a, b, loose=()):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for name in a._fields:
        check = np.testing.assert_array_equal
        if name in loose:
            check = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)  # noqa: E731
        jax.tree.map(check, getattr(a, name), getattr(b, name))


@pytest.mark.parametrize(("env", "options", "loose"), CASES)
def test_the_host_collects_what_the_compiled_loop_collects(env, options, loose):
    """Bit for bit, over three rollouts in a row, on the same environments behind both interfaces."""
    inside = jax_rollouts(CompiledProgram(tiny(options), lambda n: JaxTwin(env, n)), 3)
    outside = host_rollouts(host_program(env, options), 3)
    for (a, ended), (b, ended_too) in zip(inside, outside, strict=True):
        assert_same(a, b, loose)
        assert_same(ended, ended_too)
    assert sum(int(ended.episodes[0]) for _, ended in inside) > 0


def test_a_whole_run_on_the_host_equals_one_inside_jax():
    env = Counter()
    inside = run_updates(CompiledProgram(tiny(), lambda n: JaxTwin(env, n)), 4)
    program = host_program(env)
    outside, totals = program.chunk(program.init(), 4)
    jax.tree.map(np.testing.assert_array_equal, inside.learner, outside.learner)
    np.testing.assert_array_equal(jax.random.key_data(inside.key), jax.random.key_data(outside.key))
    assert totals["episodes"][0] > 0 and np.isfinite(totals["loss"][0])


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("env, options", [(Counter(), {}), (Memory(), GRU | PAST | {"learner.burn_in": 2})])
def test_two_groups_collect_what_one_does(env, options, concurrent):
    one = host_rollouts(host_program(env, options, groups=1), 2)
    for groups in (2, 3):
        several = host_rollouts(host_program(env, options, groups=groups, concurrent=concurrent), 2)
        for (a, ended), (b, ended_too) in zip(one, several, strict=True):
            assert_same(a, b)
            assert_same(ended, ended_too)


def test_overlap_learns_the_same_from_threads():
    """Which thread queues a gradient step, and when, is chance; what is learned is not."""
    ends = []
    for concurrent in (False, True):
        program = host_program(Counter(), {"simulators.overlap": True}, groups=3, concurrent=concurrent)
        ends.append(program.chunk(program.init(), 4)[0].learner)
    jax.tree.map(np.testing.assert_array_equal, *ends)


class Noting(HostFromJax):
    """Says how many of its kind are under way at once."""

    now: set = set()  # noqa: RUF012
    most = 0

    def send(self, action):
        super().send(action)
        Noting.now.add(self)
        Noting.most = max(Noting.most, len(Noting.now))

    def recv(self):
        time.sleep(0.002)  # time enough for the others to come
        step = super().recv()
        Noting.now.discard(self)
        return step


@pytest.mark.parametrize(("concurrent", "most"), [(True, 2), (False, 1)])
def test_of_many_groups_two_are_under_way(concurrent, most):
    Noting.most = 0
    host_rollouts(host_program(Counter(), groups=4, concurrent=concurrent, kind=Noting), 1)
    assert Noting.most == most


def test_when_one_group_fails_the_others_stop():
    turns = 0

    def endless():
        nonlocal turns
        while True:
            turns += 1
            yield

    def failing():
        while turns < 5:  # the other is under way
            yield
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        _side_by_side([endless(), failing(), endless()])
    then = turns
    time.sleep(0.05)
    assert turns == then  # nobody goes on


def test_greedy_environments_beside_training_do_not_touch_it():
    runs = []
    for beside in (0, 8):
        program = host_program(Counter(), {"simulators.greedy_envs": beside})
        assert sum(share.size for share in program.pool.shares) == 8 + beside
        runs.append(program.chunk(program.init(), 4))
    (without, totals), (beside, totals_too) = runs
    jax.tree.map(np.testing.assert_array_equal, without.learner, beside.learner)
    for name, value in totals.items():
        np.testing.assert_array_equal(value, totals_too[name])


def test_a_seed_among_others_equals_the_seed_alone():
    both = host_program(Counter(), {"simulators.greedy_envs": 2}, seeds=2)
    alone = host_program(Counter(), {"simulators.greedy_envs": 2}, seed=1)
    (many, _), (one, _) = both.chunk(both.init(), 3), alone.chunk(alone.init(), 3)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1], b[0]), many.learner, one.learner)


def test_chunks_can_be_cut_anywhere():
    whole, parts = host_program(Counter()), host_program(Counter())
    state, _ = parts.chunk(parts.init(), 1)
    jax.tree.map(
        np.testing.assert_array_equal, whole.chunk(whole.init(), 4)[0].learner, parts.chunk(state, 3)[0].learner
    )


@pytest.mark.parametrize(("train", "beside", "groups"), [(8, 3, 2), (7, 0, 2), (1, 4, 1), (5, 8, 3)])
def test_every_environment_is_in_one_group(train, beside, groups):
    found = shares(train, beside, groups)
    assert [i for share in found for i in range(train)[share.train]] == list(range(train))
    assert [i for share in found for i in range(beside)[share.beside]] == list(range(beside))
    sizes = [share.size for share in found]
    assert max(sizes) - min(sizes) <= 1 + (groups > 2)


def test_observations_cross_once_and_in_their_own_dtype():
    """Of 2·(T + 1) calls a rollout, those that get an observation from the host are one for each step of a group."""
    program, moved = host_program(Gridworld(), {"simulators.greedy_envs": 2}), []
    state, _ = program.chunk(program.init(), 1)

    def spy(act):
        def call(learner, seen, *rest):
            moved.append(seen.obs)
            return act(learner, seen, *rest)

        return call

    program.collector.act = [spy(act) for act in program.collector.act]
    _, lesson = program._collect(state, state.learner, lambda: None)
    steps = program.config.learner.rollout_steps
    assert len(moved) == 2 * (steps + 1)
    assert sum(isinstance(obs, np.ndarray) for obs in moved) == 2 * steps
    assert all(obs.dtype == bool for obs in moved)
    kept = [obs for track in lesson.collected.tracks for obs in track.obs]
    assert len(kept) == 2 * steps and all(isinstance(obs, jax.Array) and obs.dtype == bool for obs in kept)


class Film:
    """Stacks of three frames; a new one each step, and now and then a new film, which starts in the dark."""

    spec = EnvSpec("film", (3, 2), np.dtype("float32"), num_actions=2)

    def reset(self, key):
        stack = jnp.zeros((3, 2)).at[-1].set(jax.random.uniform(key, (2,)))
        return stack, stack

    def step(self, key, state, action):
        frame = jax.random.uniform(key, (2,)) + action
        stack = jnp.concatenate([state[1:], frame[None]])
        return Outcome(stack, stack, frame[0], jax.random.bernoulli(jax.random.fold_in(key, 1), 0.1))


class Stacked(HostFromJax):
    stacks = True


def test_several_seeds_shift_their_stacks():
    whole, shifted = (host_program(Film(), kind=kind, seeds=2) for kind in (HostFromJax, Stacked))
    (a, _), (b, _) = whole.chunk(whole.init(), 2), shifted.chunk(shifted.init(), 2)
    jax.tree.map(np.testing.assert_array_equal, a.learner, b.learner)


def test_of_a_stack_only_the_newest_frame_crosses():
    """And the rollouts are those of the collector inside JAX, bit for bit."""
    check_env(Stacked(Film(), 4), steps=60)
    inside = jax_rollouts(CompiledProgram(tiny(), lambda n: JaxTwin(Film(), n)), 3)
    program, moved = host_program(Film(), {"simulators.greedy_envs": 2}, groups=3, kind=Stacked), []

    def spy(act):
        def call(learner, seen, *rest):
            moved.append((seen.obs, np.any(seen.first)))
            return act(learner, seen, *rest)

        return call

    program.collector.act = [spy(act) for act in program.collector.act]
    outside = host_rollouts(program, 3)
    for (a, ended), (b, ended_too) in zip(inside, outside, strict=True):
        assert_same(a, b)
        assert_same(ended, ended_too)
    shifted = [obs.newest for obs, _ in moved if isinstance(obs, Shifted)]
    whole = [first for obs, first in moved if isinstance(obs, np.ndarray)]
    assert len(shifted) > len(whole) > 0 and all(whole)
    assert {frames.shape[3:] for frames in shifted} == {(2,)}
    assert len(shifted) + len(whole) == 3 * (3 * program.config.learner.rollout_steps) + 3  # and the first of all


@pytest.mark.parametrize("concurrent", [False, True])
def test_overlap_lags_by_one_update(concurrent):
    """Rollout k + 1 is collected with the parameters after update k − 1, and update k learns from rollout k."""
    program = host_program(Counter(), {"simulators.overlap": True}, concurrent=concurrent)
    acted, original = [], program.collector.collect

    def spy(pool, state, *rest):
        acted.append(jax.device_get(state.params))
        return original(pool, state, *rest)

    program.collector.collect = spy
    state, params = program.init(), []
    params.append(jax.device_get(state.learner.params))
    for _ in range(program.config.updates):
        state, _ = program.chunk(state, 1)
        params.append(jax.device_get(state.learner.params))
    assert len(acted) == program.config.updates  # one rollout for each update, none for nothing
    for k in range(1, len(acted)):
        jax.tree.map(np.testing.assert_array_equal, acted[k], params[k - 1])
    first, second = jax.tree.leaves(params[0]), jax.tree.leaves(params[1])
    assert not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_first_update_does_not_depend_on_overlap():
    """Nothing is old yet; the gradient steps are the same, only queued in pieces."""
    strict, overlapped = host_program(Counter()), host_program(Counter(), {"simulators.overlap": True})
    assert overlapped._piece < strict._piece
    a, b = strict.chunk(strict.init(), 1)[0], overlapped.chunk(overlapped.init(), 1)[0]
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7), a.learner.params, b.learner.params
    )
    a, b = strict.chunk(a, 1)[0], overlapped.chunk(b, 1)[0]
    different = jax.tree.map(
        lambda x, y: not np.allclose(x, y, rtol=1e-5, atol=1e-7), a.learner.params, b.learner.params
    )
    assert any(jax.tree.leaves(different))
