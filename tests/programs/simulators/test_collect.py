"""Collection from simulators: the data are those of the collector inside JAX, however they are grouped."""

from __future__ import annotations

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Clock, run_updates, tiny
from hostenvs import HostFromJax, JaxTwin

from pqn.device import over_seeds_but_last
from pqn.envs import check_env
from pqn.envs.contract import Outcome
from pqn.envs.probe import Counter, Gridworld, Masked, Memory, TeamMatch, TwoStepGame
from pqn.programs import rollout
from pqn.programs.compiled import CompiledProgram
from pqn.programs.simulators.groups import split_into_groups
from pqn.programs.simulators.joining import join_groups
from pqn.programs.simulators.program import SimulatorProgram
from pqn.programs.simulators.records import Shifted
from pqn.programs.simulators.turns import in_threads
from pqn.types import EnvSpec

GRU = {"network.memory": "gru", "network.memory_size": 8, "learner.segment_length": 4, "learner.minibatches": 2}
PAST = {"network.last_action": True, "network.last_reward": True}
# With truncations the two collectors value the final observations in batches of different sizes, which may round the
# last bit otherwise; everything else, and everything without truncations, is equal to the bit.
CASES = [
    pytest.param(Counter(), {}, ("reward",), id="feed-forward"),  # differs with jax 0.11, not with 0.10
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


def joined(program: SimulatorProgram):
    """`join_groups` for all seeds of a program."""
    return over_seeds_but_last(partial(join_groups, program.algorithm.actor, program.layout), program.config.seeds)


def host_rollouts(program: SimulatorProgram, count: int) -> list:
    """`count` successive rollouts with the first parameters, and the sums over their finished episodes."""
    join = jax.jit(joined(program))
    state, found = program.init(), []
    for _ in range(count):
        before = state.stream
        state, unlearned = program.collect(state)
        last = unlearned.collected.stream._replace(episode=before.episode, window=before.window)
        data, after = join(unlearned.collected._replace(stream=last), program.hyper)
        state = state._replace(stream=state.stream._replace(episode=after.episode, window=after.window))
        found.append((data, after.finished))
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
        found.append((data, finished._replace(fault=None)))  # `Simulators` looks at what its environments give
    return found


def assert_same(a, b, loose=()):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for name in a._fields:
        tolerance = 1e-6 if name in loose else 0.0
        same = partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
        jax.tree.map(same, getattr(a, name), getattr(b, name))


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
    """Up to a last digit: two programs, in which XLA may order the sums of a gradient differently."""
    env = Counter()
    inside = run_updates(CompiledProgram(tiny(), lambda n: JaxTwin(env, n)), 4)
    program = host_program(env)
    outside, totals = program.chunk(program.init(), 4)

    def same(a, b):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(a).max())

    jax.tree.map(same, inside.learner, outside.learner)
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


@pytest.mark.parametrize(("concurrent", "most"), [(True, 2), (False, 1)])
def test_at_most_two_groups_step_at_a_time(concurrent, most):
    stepping, counts = set(), []

    class Counted(HostFromJax):
        def send(self, action):
            super().send(action)
            stepping.add(self)
            counts.append(len(stepping))

        def recv(self):
            time.sleep(0.002)  # long enough for the other groups to start, if they can
            step = super().recv()
            stepping.discard(self)
            return step

    host_rollouts(host_program(Counter(), groups=4, concurrent=concurrent, kind=Counted), 1)
    assert max(counts) == most


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
        raise RuntimeError("no more turns")

    with pytest.raises(RuntimeError, match="no more turns"):
        in_threads([endless(), failing(), endless()])
    then = turns
    time.sleep(0.05)
    assert turns == then  # no thread continues


def test_greedy_environments_do_not_change_training():
    runs = []
    for greedy in (0, 8):
        program = host_program(Counter(), {"simulators.greedy_envs": greedy})
        assert sum(env.num_envs for env in program.started.simulators.envs) == 8 + greedy
        runs.append(program.chunk(program.init(), 4))
    (without, totals), (with_greedy, totals_too) = runs
    jax.tree.map(np.testing.assert_array_equal, without.learner, with_greedy.learner)
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


@pytest.mark.parametrize(("train", "greedy", "groups"), [(8, 3, 2), (7, 0, 2), (1, 4, 3), (5, 8, 3)])
def test_every_environment_is_in_one_group(train, greedy, groups):
    found = split_into_groups(train, greedy, groups)
    assert len(found) == min(groups, train)
    assert [i for group in found for i in range(train)[group.train]] == list(range(train))
    assert [i for group in found for i in range(greedy)[group.greedy]] == list(range(greedy))
    sizes = [group.size for group in found]
    assert max(sizes) - min(sizes) <= 1 + (groups > 2)


def test_observations_are_sent_once_and_in_their_own_dtype():
    """Of 2·(T + 1) calls a rollout, those that get an observation from the host are one for each step of a group."""
    program, moved = host_program(Gridworld(), {"simulators.greedy_envs": 2}), []
    state, _ = program.chunk(program.init(), 1)

    def spy(act):
        def call(policy, observed, *rest):
            moved.append(observed.obs)
            return act(policy, observed, *rest)

        return call

    collector = program.started.collector
    collector.act = [spy(act) for act in collector.act]
    _, unlearned = program.collect(state)
    steps = program.config.learner.rollout_steps
    assert len(moved) == 2 * (steps + 1)
    assert sum(isinstance(obs, np.ndarray) for obs in moved) == 2 * steps
    assert all(obs.dtype == bool for obs in moved)
    kept = [obs for group in unlearned.collected.groups for obs in group.obs]
    assert len(kept) == 2 * steps and all(isinstance(obs, jax.Array) and obs.dtype == bool for obs in kept)


class Film:
    """Stacks of three frames. Each step adds a frame. An episode starts with two empty frames."""

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


def test_of_a_stack_only_the_newest_frame_is_sent():
    """And the rollouts are those of the collector inside JAX, bit for bit."""
    check_env(Stacked(Film(), 4), steps=60)
    inside = jax_rollouts(CompiledProgram(tiny(), lambda n: JaxTwin(Film(), n)), 3)
    program, moved = host_program(Film(), {"simulators.greedy_envs": 2}, groups=3, kind=Stacked), []

    def spy(act):
        def call(policy, observed, *rest):
            moved.append((observed.obs, np.any(observed.first)))
            return act(policy, observed, *rest)

        return call

    collector = program.started.collector
    collector.act = [spy(act) for act in collector.act]
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
    acted, collector = [], program.started.collector
    original = collector.collect

    def spy(simulators, policy, *rest):
        acted.append(jax.device_get(policy.params))
        return original(simulators, policy, *rest)

    collector.collect = spy
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
