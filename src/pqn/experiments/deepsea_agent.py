"""Bootstrapped DQN without a target network, on DeepSea: environment, networks, replay buffer and update.

DeepSea is an N×N grid. The agent starts top left and moves down one row per step, going left or right; which of the two
actions means right is drawn per cell. Right costs 0.01/N, and only N rights in a row reach the treasure of 1 at the
bottom right.

Each member m has a learned network and a fixed random prior, Q_m = f_m + β p_m, and minimises over replayed
transitions, with its own bootstrap mask,

    mean_i mask_{m,i} ( r_i + γ (1−done_i) max_a Q_m(s'_i, a) − Q_m(s_i, a_i) )²

with no target network: the bootstrap is the current network's. All members and all seeds are one compiled program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pqn.experiments.configs import DeepSeaConfig


class Layers(NamedTuple):
    """E MLPs behind their first layer. That layer is `Networks.table`, since the input is one-hot."""

    kernels: tuple[Array, ...]  # [E, H, H'] each
    biases: tuple[Array, ...]  # [E, H] each, the first layer's included
    scales: tuple[Array, ...]  # [E, H] each: affine parameters of the norm, one pair per hidden layer
    offsets: tuple[Array, ...]


class Networks(NamedTuple):
    """The ensemble's parameters.

    W₀ᵀ onehot(s) is the row W₀[s]. All members train on the same states, so their rows lie side by side: looking up a
    batch, and scattering its gradient back, moves B long rows rather than B·E short ones.
    """

    table: Array  # [N², E, H]
    layers: Layers


class Statistics(NamedTuple):
    """BatchNorm's running moments, one pair per hidden layer (unused by the other norms)."""

    mean: tuple[Array, ...]
    variance: tuple[Array, ...]


class Replay(NamedTuple):
    """The shared buffer; C slots."""

    state: Array  # [C] int
    action: Array  # [C] int
    reward: Array  # [C]
    next_state: Array  # [C] int
    done: Array  # [C]
    mask: Array  # [C, E]


class Agent(NamedTuple):
    """Everything one seed carries."""

    params: Networks
    prior: Array  # [N², E, A] β p_m(s, a): the prior never changes, so its values are tabulated once
    statistics: Statistics
    optimiser: optax.OptState
    replay: Replay
    mapping: Array  # [N, N] which action goes right
    key: Array


def init_networks(key: Array, inputs: int, hidden: tuple[int, ...], members: int, actions: int = 2) -> Networks:
    """Standard normals cut at ±2 and divided by √fan-in, and zero biases, as bsuite's networks start."""
    sizes = (inputs, *hidden, actions)
    kernels = []
    for index, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        draw = jax.random.truncated_normal(jax.random.fold_in(key, index), -2, 2, (members, rows, columns))
        kernels.append(draw / jnp.sqrt(rows))
    layers = Layers(
        kernels=tuple(kernels[1:]),
        biases=tuple(jnp.zeros((members, n)) for n in sizes[1:]),
        scales=tuple(jnp.ones((members, n)) for n in hidden),
        offsets=tuple(jnp.zeros((members, n)) for n in hidden),
    )
    return Networks(kernels[0].swapaxes(0, 1), layers)


def forward(
    layers: Layers, row: Array, running: Statistics | None, norm: str, train: bool
) -> tuple[Array, Statistics | None]:
    """One member's Q-values [B, A] from its rows of the table [B, H], and BatchNorm's moments of this batch.

    BatchNorm takes the batch's moments where `train`, and the running ones for targets and acting.
    """
    h, means, variances = row + layers.biases[0], [], []
    for i, kernel in enumerate(layers.kernels):
        if norm == "layer":
            h = _standardise(h, h.mean(-1, keepdims=True), h.var(-1, keepdims=True))
        elif norm == "batch" and running is not None:
            means.append(h.mean(0) if train else running.mean[i])
            variances.append(h.var(0) if train else running.variance[i])
            h = _standardise(h, means[i], variances[i])
        h = h if norm == "none" else layers.scales[i] * h + layers.offsets[i]
        h = jax.nn.relu(h) @ kernel + layers.biases[i + 1]
    return h, Statistics(tuple(means), tuple(variances)) if norm == "batch" else running


def _standardise(h: Array, mean: Array, variance: Array) -> Array:
    return (h - mean) * jax.lax.rsqrt(variance + 1e-5)


def ensemble_values(
    networks: Networks, states: Array, norm: str, running: Statistics | None, train: bool
) -> tuple[Array, Statistics | None]:
    """Q-values of every member [B, E, A] in `states` [B], and their BatchNorm moments [E, H]."""
    each = jax.vmap(partial(forward, norm=norm, train=train), in_axes=(0, 1, 0), out_axes=(1, 0))
    return each(networks.layers, networks.table[states], running)


def move(config: DeepSeaConfig, row: Array, column: Array, right: Array) -> tuple[Array, Array]:
    """DeepSea's dynamics: reward and next column of one step (the next row is row + 1)."""
    treasure = right & (column == config.depth - 1)
    reward = jnp.where(treasure, 1.0, 0.0) - jnp.where(right, config.move_cost / config.depth, 0.0)
    return reward, jnp.clip(column + jnp.where(right, 1, -1), 0, config.depth - 1)


def init_agent(key: Array, config: DeepSeaConfig, optimiser: optax.GradientTransformation) -> Agent:
    """A fresh ensemble, an empty buffer and this seed's action mapping."""
    key_params, key_prior, key_map, key = jax.random.split(key, 4)
    cells, size = config.depth**2, config.replay_capacity
    params = init_networks(key_params, cells, config.hidden, config.ensemble)
    priors = init_networks(key_prior, cells, config.hidden, config.ensemble)
    prior, _ = ensemble_values(priors, jnp.arange(cells), "none", None, train=False)
    zeros = tuple(jnp.zeros((config.ensemble, n)) for n in config.hidden)
    whole = jnp.zeros(size, jnp.int32)
    return Agent(
        params=params,
        prior=config.prior_scale * prior,
        statistics=Statistics(zeros, tuple(z + 1.0 for z in zeros)),
        optimiser=optimiser.init(params),
        replay=Replay(whole, whole, jnp.zeros(size), whole, jnp.zeros(size), jnp.zeros((size, config.ensemble))),
        mapping=jax.random.bernoulli(key_map, 0.5, (config.depth, config.depth)).astype(jnp.int32),
        key=key,
    )


def act(agent: Agent, head: Array, state: Array, config: DeepSeaConfig, norm: str) -> Array:
    """The greedy action of member `head` in `state`."""
    layers, running = jax.tree.map(lambda x: x[head], (agent.params.layers, agent.statistics))
    q, _ = forward(layers, agent.params.table[state, head][None], running, norm, train=False)
    return (q[0] + agent.prior[state, head]).argmax()


def learn(
    agent: Agent, filled: Array, key: Array, config: DeepSeaConfig, norm: str, optimiser: optax.GradientTransformation
) -> Agent:
    """One update of every member on one batch from the shared buffer, of which `filled` slots are in use."""
    index = jax.random.randint(key, (config.batch_size,), 0, filled)
    batch = jax.tree.map(lambda x: x[index], agent.replay)

    def loss(params: Networks) -> tuple[Array, Statistics | None]:
        q, moments = ensemble_values(params, batch.state, norm, agent.statistics, train=True)
        q_next, _ = ensemble_values(params, batch.next_state, norm, agent.statistics, train=False)
        bootstrap = jax.lax.stop_gradient((q_next + agent.prior[batch.next_state]).max(-1))  # [B, E]
        target = batch.reward[:, None] + config.gamma * (1 - batch.done)[:, None] * bootstrap
        taken = (q + agent.prior[batch.state])[jnp.arange(config.batch_size), :, batch.action]  # [B, E]
        # Summed over members: their parameters are disjoint, so each gets the gradient of its own mean.
        return jnp.mean(batch.mask * jnp.square(target - taken), axis=0).sum(), moments

    gradients, moments = jax.grad(loss, has_aux=True)(agent.params)
    updates, state = optimiser.update(gradients, agent.optimiser)
    keep = config.batch_norm_momentum
    statistics = jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, agent.statistics, moments)
    return agent._replace(params=optax.apply_updates(agent.params, updates), optimiser=state, statistics=statistics)


def make_program(config: DeepSeaConfig, norm: str) -> tuple[Callable, Callable]:
    """init(keys [S]) -> agents, and run(agents, t, episodes, learning) -> (agents, found [episodes, S])."""
    optimiser = optax.adam(config.learning_rate)
    depth = config.depth

    def interact(agent: Agent, head: Array, column: Array, row: Array, slot: Array) -> tuple[Agent, Array, Array]:
        key, key_mask = jax.random.split(agent.key)
        state = row * depth + column
        action = act(agent, head, state, config, norm)
        reward, after = move(config, row, column, action == agent.mapping[row, column])
        done = row == depth - 1
        mask = jax.random.bernoulli(key_mask, config.mask_probability, (config.ensemble,))
        seen = Replay(state, action, reward, jnp.where(done, 0, state + depth - column + after), done, mask)
        replay = jax.tree.map(lambda old, new: old.at[slot].set(new.astype(old.dtype)), agent.replay, seen)
        return agent._replace(replay=replay, key=key), after, reward

    def step(carry, row: Array, learning: bool):
        agents, heads, columns, t = carry
        agents, columns, rewards = jax.vmap(interact, (0, 0, 0, None, None))(
            agents, heads, columns, row, t % config.replay_capacity
        )
        t = t + 1
        if learning:
            keys = jax.vmap(lambda key: jax.random.fold_in(key, 1))(agents.key)
            filled = jnp.minimum(t, config.replay_capacity)
            update = jax.vmap(partial(learn, config=config, norm=norm, optimiser=optimiser), (0, None, 0))
            if config.sgd_period == 1:
                agents = update(agents, filled, keys)
            else:
                due = t % config.sgd_period == 0
                agents = jax.lax.cond(due, lambda a: update(a, filled, keys), lambda a: a, agents)
        return (agents, heads, columns, t), rewards

    def episode(carry, _, learning: bool):
        agents, t = carry
        keys = jax.vmap(lambda key: jax.random.fold_in(key, 2))(agents.key)
        heads = jax.vmap(lambda key: jax.random.randint(key, (), 0, config.ensemble))(keys)
        start = (agents, heads, jnp.zeros_like(heads), t)
        (agents, _, _, t), rewards = jax.lax.scan(partial(step, learning=learning), start, jnp.arange(depth))
        return (agents, t), rewards[-1] > 0.5  # only the treasure is worth more than 0

    @partial(jax.jit, static_argnums=(2, 3), donate_argnums=0)
    def run_episodes(agents: Agent, t: Array, episodes: int, learning: bool):
        return jax.lax.scan(partial(episode, learning=learning), (agents, t), None, length=episodes)

    return jax.jit(jax.vmap(lambda key: init_agent(key, config, optimiser))), run_episodes
