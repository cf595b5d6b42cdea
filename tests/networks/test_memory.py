"""Recurrent networks: the cells, where memory is cleared, what segments keep, and tasks that need it."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

import pqn
from pqn.algorithms.segments import segmented
from pqn.networks.memory import GRU, LSTM
from pqn.networks.qnetwork import QNetwork
from pqn.options import NetworkConfig
from pqn.programs import rollout
from pqn.programs.base import RunState
from pqn.programs.evaluation import evaluate
from pqn.progress import Progress
from pqn.traces import operations
from pqn.types import Inputs, PyTree

T, B, F, H = 9, 4, 3, 5


def sequence(seed=0):
    keys = jax.random.split(jax.random.key(seed), 2)
    return jax.random.normal(keys[0], (T, B, F)), jax.random.bernoulli(keys[1], 0.3, (T, B))


def test_lstm_equals_flax_cell_by_cell():
    """Our gates, hoisted and unrolled, against flax's own cell stepped one observation at a time."""
    x, _ = sequence()
    ours = LSTM(H)
    first = jnp.zeros((T, B), bool)
    carry = LSTM.initial_carry(H, B)
    params = ours.init(jax.random.key(1), carry, x, first)["params"]
    params["input"]["bias"] = jax.random.normal(jax.random.key(2), (4 * H,))
    kernels, biases = jnp.split(params["input"]["kernel"], 4, axis=1), jnp.split(params["input"]["bias"], 4)
    recurrent = jnp.split(params["recurrent"], 4, axis=1)
    theirs = {f"i{gate}": {"kernel": kernels[k]} for k, gate in enumerate("ifgo")}
    theirs |= {f"h{gate}": {"kernel": recurrent[k], "bias": biases[k]} for k, gate in enumerate("ifgo")}
    cell, state = nn.OptimizedLSTMCell(H), (jnp.zeros((B, H)), jnp.zeros((B, H)))
    _, outputs = ours.apply({"params": params}, carry, x, first)
    for t in range(T):
        state, expected = cell.apply({"params": theirs}, state, x[t])
        np.testing.assert_allclose(outputs[t], expected, rtol=1e-5, atol=1e-6)


def test_gru_equals_flax_cell_by_cell():
    x, _ = sequence()
    ours, first = GRU(H), jnp.zeros((T, B), bool)
    params = ours.init(jax.random.key(1), GRU.initial_carry(H, B), x, first)["params"]
    params["candidate_bias"] = jnp.arange(H) / H
    kernels, biases = jnp.split(params["input"]["kernel"], 3, axis=1), jnp.split(params["input"]["bias"], 3)
    recurrent = jnp.split(params["recurrent"], 3, axis=1)
    theirs = {f"i{gate}": {"kernel": kernels[k], "bias": biases[k]} for k, gate in enumerate("rzn")}
    theirs |= {f"h{gate}": {"kernel": recurrent[k]} for k, gate in enumerate("rzn")}
    theirs["hn"]["bias"] = params["candidate_bias"]
    cell, state = nn.GRUCell(H), jnp.zeros((B, H))
    _, outputs = ours.apply({"params": params}, GRU.initial_carry(H, B), x, first)
    for t in range(T):
        state, expected = cell.apply({"params": theirs}, state, x[t])
        np.testing.assert_allclose(outputs[t], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "theirs", "gates"), [(LSTM, nn.OptimizedLSTMCell, "ifgo"), (GRU, nn.GRUCell, "rzn")])
def test_a_cell_starts_as_flax_starts_it(kind, theirs, gates):
    """Gate by gate: an orthogonal recurrent block of its own, input kernels of the same distribution, no bias."""
    size, features = 48, 64
    x, carry = jnp.zeros((1, 1, features)), kind.initial_carry(size, 1)
    ours = kind(size).init(jax.random.key(0), carry, x, jnp.zeros((1, 1), bool))["params"]
    cell = theirs(size).init(jax.random.key(0), carry, x[0])["params"]
    blocks = np.split(np.asarray(ours["recurrent"]), len(gates), axis=1)
    for gate, block in zip(gates, blocks, strict=True):
        np.testing.assert_allclose(np.linalg.svd(block, compute_uv=False), 1.0, atol=1e-5)
        np.testing.assert_allclose(np.linalg.svd(cell[f"h{gate}"]["kernel"], compute_uv=False), 1.0, atol=1e-5)
    assert not any(np.allclose(blocks[0], other) for other in blocks[1:])  # each gate has its own draw
    for gate, kernel in zip(gates, np.split(np.asarray(ours["input"]["kernel"]), len(gates), axis=1), strict=True):
        reference = np.asarray(cell[f"i{gate}"]["kernel"])
        assert kernel.shape == reference.shape
        levels = np.linspace(0.0, 1.0, 11)  # 3072 draws: a decile is off by less than a tenth of the deviation
        np.testing.assert_allclose(
            np.quantile(kernel, levels), np.quantile(reference, levels), atol=0.1 * reference.std()
        )
    biases = [cell[name]["bias"] for name in cell if "bias" in cell[name]]
    assert biases and not np.any(np.concatenate(biases))
    assert not np.any(ours["input"]["bias"]) and not np.any(ours.get("candidate_bias", 0))


def network(kind, **options):
    config = NetworkConfig(hidden=(6,), memory=kind, memory_size=H, memory_layers=2, **options)
    net = QNetwork(config, 2)
    x, first = sequence()
    past = {"last_action": jnp.ones((T, B, 1), jnp.int32), "last_reward": jnp.ones((T, B, 1))}
    inputs = Inputs(x[:, :, None], first[..., None], **{k: past[k] if options.get(k) else None for k in past})
    carry = net.initial_carry(B, 1)
    return net, net.init(jax.random.key(1), carry, inputs), carry, inputs


@pytest.mark.parametrize("kind", ["lstm", "gru", "mingru", "lru"])
def test_one_long_unroll_equals_steps_and_segments(kind):
    """The carry at a segment's start is that of the long unroll, so cutting changes no output."""
    net, variables, carry, inputs = network(kind, last_action=True, last_reward=True)
    end, whole = net.apply(variables, carry, inputs)
    for pieces in ((4, 5), (1,) * T):
        state, start, outputs = carry, 0, []
        for length in pieces:
            state, q = net.apply(variables, state, jax.tree.map(lambda x, a=start, b=length: x[a : a + b], inputs))
            outputs.append(q)
            start += length
        np.testing.assert_allclose(jnp.concatenate(outputs), whole, rtol=1e-5, atol=1e-6)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), state, end)


@pytest.mark.parametrize("kind", ["lstm", "gru", "mingru", "lru"])
def test_an_episode_does_not_depend_on_what_came_before_it(kind):
    net, variables, carry, inputs = network(kind, last_action=True, last_reward=True)
    first = jnp.zeros((T, B, 1), bool).at[4].set(True)
    inputs = inputs._replace(first=first)
    _, q = net.apply(variables, carry, inputs)

    def noise(x):
        return x.at[:4].set(jnp.flip(x[:4]) + 1) if x.dtype != bool else x

    other = jax.tree.map(noise, inputs)
    # What led to the first observation belongs to the episode before: it must not show either.
    other = other._replace(last_action=other.last_action.at[4].set(0), last_reward=other.last_reward.at[4].set(7.0))
    other_carry = jax.tree.map(lambda x: x + 1.0, carry)
    _, q_other = net.apply(variables, other_carry, other)
    np.testing.assert_allclose(q[4:], q_other[4:], rtol=1e-6, atol=1e-6)
    assert not np.allclose(q[:4], q_other[:4])


def test_segments_start_with_the_carry_of_the_rollout():
    options = {
        "network.memory": "gru",
        "learner.segment_length": 4,
        "learner.rollout_steps": 12,
        "env.name": "probe:counter",
    }
    program = build(tiny(options | {"total_steps": 960}))
    state = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(program.init_one))(program.seeds))
    _, data, _ = jax.jit(
        lambda s: rollout.collect(program.env, program.algorithm, s.learner, s.stream, s.key, program.hyper)
    )(state)
    variables = {"params": state.learner.params}
    net, carry = program.algorithm.actor.network, state.stream.carry
    segments = segmented(data, data.value, data.value, 4)
    for piece in range(3):
        here = slice(piece * 8, (piece + 1) * 8)  # segments are ordered by time, then environment
        jax.tree.map(lambda a, b, s=here: np.testing.assert_allclose(a[s], b, atol=1e-5), segments.carry, carry)
        inputs = jax.tree.map(lambda x, p=piece: x[4 * p : 4 * p + 4], data.inputs)
        carry, q = net.apply(variables, carry, inputs)
        np.testing.assert_allclose(q[:, :, 0].max(-1), data.value[4 * piece : 4 * piece + 4], rtol=1e-4, atol=1e-5)


MEMORY = {
    "env.num_envs": 32,
    "network.hidden": (32,),
    "network.memory_size": 32,
    "learner.rollout_steps": 16,
    "learner.minibatches": 4,
    "learner.epochs": 4,
    "learner.lr": 3e-3,
    "learner.eps_finish": 0.05,
    "learner.eps_decay": 0.5,
    "eval.num_envs": 64,
}


HIDDEN_CUE = pqn.Config().replace(MEMORY | {"env.name": "probe:memory", "total_steps": 100 * 32 * 16})


def greedy_return(config):
    program = build(config.validate())
    state = run_updates(program, program.config.updates)
    learner = jax.tree.map(lambda x: x[0], state.learner)
    env = program.eval_env
    return float(
        jax.jit(lambda s: evaluate(env, program.algorithm.actor, s, jax.random.key(7), 0.0, 64).ret.mean())(learner)
    )


@pytest.mark.parametrize("kind", ["gru", "mingru", "lru"])
def test_memory_solves_the_hidden_cue(kind):
    """The cue is seen once and must be recalled three steps later."""
    assert greedy_return(HIDDEN_CUE.replace({"network.memory": kind})) > 0.95


def test_without_memory_the_hidden_cue_is_a_coin_toss():
    assert greedy_return(HIDDEN_CUE) < 0.8


def test_memory_chain_of_length_20_is_solved():
    options = {"env.name": "MemoryChain-bsuite", "env.kwargs": {"memory_length": 20}, "learner.rollout_steps": 44}
    config = pqn.Config().replace(MEMORY | options | {"network.memory": "gru", "total_steps": 250 * 32 * 44})
    assert greedy_return(config) > 0.9


@pytest.mark.parametrize("kind", ["lstm", "lru"])
def test_recurrent_runs_resume_and_load(tmp_path, kind):
    options = {"network.memory": kind, "network.last_action": True, "network.last_reward": True}
    result = pqn.train(tiny(options), out=tmp_path / "run", progress=Progress(quiet=True))
    agent = pqn.load(result.run)
    obs = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    start = agent.q_values(obs)
    later = agent.q_values(obs)
    assert not np.allclose(start, later)  # it remembers having been asked
    agent.reset()
    np.testing.assert_allclose(agent.q_values(obs), start, rtol=1e-6)
    np.testing.assert_allclose(agent.q_values(obs, first=np.ones(3, bool)), start, rtol=1e-6)


@pytest.mark.parametrize("burn_in", [2, 3])  # a segment of 4 is two windows of 2, or not a number of them
def test_burn_in_gives_each_segment_the_steps_before_it(burn_in):
    """With unchanged parameters, burning in from the stored carry ends at the carry the rollout had: same Q-values."""
    options = {
        "network.memory": "lstm",
        "learner.segment_length": 4,
        "learner.rollout_steps": 12,
        "learner.burn_in": burn_in,
        "env.name": "probe:counter",
        "total_steps": 960,
    }
    program = build(tiny(options))
    learner, net = program.algorithm, program.algorithm.actor.network
    state = jax.tree.map(lambda x: x[0], jax.jit(jax.vmap(program.init_one))(program.seeds))
    collect = jax.jit(lambda s, stream: rollout.collect(program.env, learner, s.learner, stream, s.key, program.hyper))
    stream, _, _ = collect(state, state.stream)  # the second rollout has a first one to look back at
    _, data, _ = collect(state, stream)
    segments = segmented(data, data.value, data.value, 4)
    assert segments.inputs.obs.shape[:2] == (burn_in + 4, 3 * 8)
    _, q = net.apply({"params": state.learner.params}, segments.carry, segments.inputs)
    plain = segmented(data._replace(window=jax.tree.map(lambda x: x[:0], data.window)), data.value, data.value, 4)
    np.testing.assert_allclose(q[burn_in:, :, 0].max(-1), plain.target, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(segments.inputs.obs[burn_in:], plain.inputs.obs)


def test_targets_of_the_first_gradient_step_are_the_same_either_way():
    """Before the parameters move, recomputed targets equal those of the rollout: one step, identical parameters."""
    results = []
    for targets in ("rollout", "minibatch"):
        options = {"network.memory": "gru", "learner.targets": targets, "learner.epochs": 1, "learner.minibatches": 1}
        results.append(run_updates(build(tiny(options)), 1).learner.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *results)
    many = [
        run_updates(
            build(tiny({"network.memory": "gru", "learner.targets": targets, "learner.lr": 0.01})), 2
        ).learner.params
        for targets in ("rollout", "minibatch")
    ]
    assert any(np.any(a != b) for a, b in zip(*map(jax.tree.leaves, many), strict=True))


def test_burn_in_needs_memory():
    with pytest.raises(pqn.PqnError, match=r"learner\.burn_in is 2; it refreshes a recurrent network's memory"):
        tiny({"learner.burn_in": 2})


@pytest.mark.parametrize("cell", [LSTM, GRU])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_written_out_gradient_is_that_of_the_loop(cell, dtype):
    """Through parameters, inputs and carry, with memory cleared on the way, from outputs and the last carry."""
    x, first = sequence()
    module = cell(H, dtype)
    carry = jax.tree.map(lambda c: c + 0.3, cell.initial_carry(H, B))
    params = module.init(jax.random.key(1), carry, x, first)["params"]
    weights = jax.random.normal(jax.random.key(2), (T, B, H))

    def loss(params, carry, x, train):
        after, outputs = module.apply({"params": params}, carry, x, first, train)
        return jnp.sum(outputs * weights) + sum(jnp.sum(jnp.sin(c)) for c in jax.tree.leaves(after))

    plain, ours = (jax.grad(loss, argnums=(0, 1, 2))(params, carry, x, train) for train in (False, True))
    tolerance = 1e-5 if dtype == "float32" else 0.05
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), plain, ours)
    assert any(np.abs(leaf).max() > 0.1 for leaf in jax.tree.leaves(ours))


def test_a_burn_in_that_divides_a_segment_does_not_compile_the_environment_twice():
    def collecting(burn_in: int) -> int:
        options = {"network.memory": "gru", "learner.rollout_steps": 8, "learner.burn_in": burn_in}
        program = build(tiny(options))
        given = (program.env, program.algorithm)

        def collect(state: RunState) -> PyTree:
            return rollout.collect(*given, state.learner, state.stream, state.key, program.hyper)

        return operations(jax.make_jaxpr(collect)(jax.eval_shape(program.init_one, program.seeds[0])))

    none, once, twice = collecting(0), collecting(4), collecting(3)
    assert once < 1.1 * none < 1.5 * none < twice
