"""DeepSea and its ensemble against plain float64 numpy, written from bsuite's description of both.

The whole program is replayed: greedy acting by one member per episode, the environment, the ring buffer, masks, TD
targets that are constants, Adam, BatchNorm's running statistics. From JAX come initial parameters and draws only.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pqn.experiments import deepsea_agent
from pqn.experiments.configs import DeepSeaConfig

STEP = 1e-30  # of the complex step
SMALL = {"depth": 3, "ensemble": 2, "hidden": (3, 4), "batch_size": 5, "min_replay": 3, "seeds": 1, "chunk": 1}


class Sea:
    """bsuite's DeepSea: fall one row per step, left or right; right costs 0.01/N; treasure at the lower right."""

    def __init__(self, mapping: np.ndarray):
        self.mapping, self.size = mapping, len(mapping)
        self.row = self.column = 0

    def step(self, action: int) -> tuple[float, bool]:
        right = action == self.mapping[self.row, self.column]
        reward = 1.0 if right and self.column == self.size - 1 else 0.0
        reward -= 0.01 / self.size if right else 0.0
        self.column = min(max(self.column + (1 if right else -1), 0), self.size - 1)
        self.row += 1
        return reward, self.row == self.size


class Ensemble:
    """Bootstrapped DQN with priors and no target networks; one flat parameter vector for all members."""

    def __init__(self, agent: Any, config: DeepSeaConfig, norm: str):
        self.config, self.norm = config, norm
        leaves, self.structure = jax.tree.flatten(agent.params)
        self.shapes = [leaf.shape for leaf in leaves]
        self.phi = np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(float)
        self.prior = np.asarray(agent.prior, float)
        layers = len(config.hidden)
        self.means = [np.zeros((config.ensemble, n)) for n in config.hidden]
        self.variances = [np.ones((config.ensemble, n)) for n in config.hidden]
        assert len(agent.statistics.mean) == layers
        self.m, self.v, self.count = np.zeros_like(self.phi), np.zeros_like(self.phi), 0
        self.ring: dict[int, tuple] = {}

    def params(self, phi: np.ndarray) -> Any:
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])[:-1]
        parts = [part.reshape(shape) for part, shape in zip(np.split(phi, ends), self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, parts)

    def member(self, phi: np.ndarray, m: int, states: np.ndarray, train: bool) -> tuple[np.ndarray, list]:
        """Q-values [B, A] of the learned network of one member, and the moments of this batch."""
        params = self.params(phi)
        h, moments = params.table[states, m] + params.layers.biases[0][m], []
        for i in range(len(self.config.hidden)):
            if self.norm == "layer":
                centred = h - h.mean(1, keepdims=True)
                h = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
            elif self.norm == "batch":
                mean = h.mean(0) if train else self.means[i][m]
                variance = ((h - h.mean(0)) ** 2).mean(0) if train else self.variances[i][m]
                moments.append((mean.real, variance.real))
                h = (h - mean) / np.sqrt(variance + 1e-5)
            if self.norm != "none":
                h = params.layers.scales[i][m] * h + params.layers.offsets[i][m]
            h = np.where(h.real > 0, h, 0.0) @ params.layers.kernels[i][m] + params.layers.biases[i + 1][m]
        return h, moments

    def act(self, head: int, state: int) -> int:
        q, _ = self.member(self.phi, head, np.array([state]), train=False)
        return int((q[0] + self.prior[state, head]).argmax())

    def learn(self, slots: np.ndarray) -> None:
        """One Adam step on the transitions in these slots."""
        batch = [self.ring[slot] for slot in slots]  # a slot that was never written would be a KeyError
        state, action, reward, after, done, mask = (np.array(column) for column in zip(*batch, strict=True))
        members = range(self.config.ensemble)
        targets, moments = [], []
        for m in members:
            q_next, _ = self.member(self.phi, m, after, train=False)
            best = (q_next + self.prior[after, m]).max(1)
            targets.append(reward + 0.99 * (1 - done) * best)  # numbers from here on: nothing flows through them
            moments.append(self.member(self.phi, m, state, train=True)[1])

        def loss(phi: np.ndarray) -> Any:
            total = 0.0
            for m in members:
                q, _ = self.member(phi, m, state, train=True)
                taken = (q + self.prior[state, m])[np.arange(len(state)), action]
                total = total + (mask[:, m] * (targets[m] - taken) ** 2).mean()
            return total

        self._adam(complex_gradient(loss, self.phi))
        for i in range(len(self.config.hidden) if self.norm == "batch" else 0):
            for m in members:
                self.means[i][m] = 0.9 * self.means[i][m] + 0.1 * moments[m][i][0]
                self.variances[i][m] = 0.9 * self.variances[i][m] + 0.1 * moments[m][i][1]

    def _adam(self, gradient: np.ndarray) -> None:
        self.count += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m, v = self.m / (1 - 0.9**self.count), self.v / (1 - 0.999**self.count)
        self.phi = self.phi - 1e-3 * m / (np.sqrt(v) + 1e-8)


def complex_gradient(loss: Any, phi: np.ndarray) -> np.ndarray:
    gradient = np.zeros(len(phi))
    for i in range(len(phi)):
        shifted = phi.astype(complex)
        shifted[i] += 1j * STEP
        gradient[i] = loss(shifted).imag / STEP
    return gradient


def play(agent: Any, config: DeepSeaConfig, norm: str, episodes: int, t: int, learning: bool, ensemble: Ensemble):
    """What the program does in `episodes` episodes; returns which found the treasure."""
    key, mapping = agent.key, np.asarray(agent.mapping)
    found = []
    for _ in range(episodes):
        head = int(jax.random.randint(jax.random.fold_in(key, 2), (), 0, config.ensemble))
        sea, treasure = Sea(mapping), False
        for row in range(config.depth):
            key, key_mask = jax.random.split(key)
            state = row * config.depth + sea.column
            action = ensemble.act(head, state)
            reward, done = sea.step(action)
            treasure |= reward > 0.5
            mask = np.asarray(jax.random.bernoulli(key_mask, config.mask_probability, (config.ensemble,)), float)
            after = 0 if done else sea.row * config.depth + sea.column
            ensemble.ring[t % config.replay_capacity] = (state, action, reward, after, float(done), mask)
            t += 1
            if learning and t % config.sgd_period == 0:
                filled = min(t, config.replay_capacity)
                slots = jax.random.randint(jax.random.fold_in(key, 1), (config.batch_size,), 0, filled)
                ensemble.learn(np.asarray(slots))
        found.append(treasure)
    return found


VARIANTS = [
    ("none", {}),
    ("layer", {"prior_scale": 0.0, "replay_capacity": 7}),  # a ring that wraps around
    ("layer", {"mask_probability": 1.0, "hidden": (4,), "sgd_period": 2}),
    ("batch", {}),
]


@pytest.mark.parametrize(("norm", "options"), VARIANTS)
def test_parameters_statistics_and_buffer_after_episodes_of_learning(norm, options):
    config = DeepSeaConfig(**(SMALL | options))
    with jax.enable_x64(True):
        init, run_episodes = deepsea_agent.make_program(config, norm)
        agents = init(jax.vmap(jax.random.key)(jnp.arange(5, 6)))
        before = jax.tree.map(lambda x: x[0], agents)
        ensemble = Ensemble(before, config, norm)
        (agents, t), first = run_episodes(agents, jnp.asarray(0), 1, False)
        between = jax.tree.map(lambda x: x[0], agents)
        (agents, _), later = run_episodes(agents, t, 3, True)
        after = jax.tree.map(lambda x: x[0], agents)
        found = play(before, config, norm, 1, 0, False, ensemble)
        found += play(between, config, norm, 3, config.depth, True, ensemble)
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(after.params)])
    np.testing.assert_allclose(flat, ensemble.phi, rtol=1e-7, atol=1e-9)
    assert np.abs(flat - np.concatenate([np.ravel(x) for x in jax.tree.leaves(before.params)])).max() > 1e-3
    for i in range(len(config.hidden)):
        np.testing.assert_allclose(after.statistics.mean[i], ensemble.means[i], atol=1e-9)
        np.testing.assert_allclose(after.statistics.variance[i], ensemble.variances[i], atol=1e-9)
    assert np.concatenate([first[:, 0], later[:, 0]]).tolist() == found
    np.testing.assert_array_equal(after.prior, before.prior)
    check_buffer(after.replay, ensemble.ring)


def check_buffer(replay: deepsea_agent.Replay, ring: dict[int, tuple]) -> None:
    for slot, wanted in ring.items():
        for field, value in zip(replay, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(field)[slot], value, atol=1e-12)


def test_only_stored_transitions_are_learned_from():
    """Slots beyond `filled` hold NaN here; a batch that touches one spoils everything."""
    config = DeepSeaConfig(**(SMALL | {"replay_capacity": 64}))
    init, run_episodes = deepsea_agent.make_program(config, "layer")
    (agents, t), _ = run_episodes(init(jax.vmap(jax.random.key)(jnp.arange(1))), jnp.asarray(0), 2, False)
    agent = jax.tree.map(lambda x: x[0], agents)
    empty = jnp.arange(64) >= t
    agent = agent._replace(replay=agent.replay._replace(reward=jnp.where(empty, jnp.nan, agent.replay.reward)))
    optimiser = optax.adam(1e-3)
    step = jax.jit(lambda key: deepsea_agent.learn(agent, t, key, config, "layer", optimiser))
    for i in range(20):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(step(jax.random.key(i)).params))


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_masks_are_drawn_per_member_with_their_probability(probability):
    config = DeepSeaConfig(depth=10, ensemble=4, hidden=(2,), mask_probability=probability, seeds=1)
    init, run_episodes = deepsea_agent.make_program(config, "none")
    (agents, t), _ = run_episodes(init(jax.vmap(jax.random.key)(jnp.arange(1))), jnp.asarray(0), 200, False)
    masks = np.asarray(agents.replay.mask[0])[: int(t)]
    assert set(np.unique(masks)) <= {0.0, 1.0} and masks.shape == (2000, 4)
    np.testing.assert_allclose(masks.mean(0), probability, atol=0.045)  # four standard deviations
    if probability < 1:
        assert np.abs(np.corrcoef(masks.T)[np.triu_indices(4, 1)]).max() < 0.1


def test_the_prior_is_a_random_network_times_its_scale_and_without_a_norm():
    config = DeepSeaConfig(**SMALL)
    with jax.enable_x64(True):
        key = jax.random.key(0)
        agent = deepsea_agent.init_agent(key, config, optax.adam(1e-3))
        priors = deepsea_agent.init_networks(jax.random.split(key, 4)[1], 9, config.hidden, config.ensemble)
        network = Ensemble(agent._replace(params=priors), config, "none")
    for m in range(config.ensemble):
        wanted, _ = network.member(network.phi, m, np.arange(9), train=False)
        np.testing.assert_allclose(agent.prior[:, m], 3.0 * wanted, rtol=1e-6)


def test_networks_start_with_normals_cut_at_two_over_root_fan_in():
    networks = deepsea_agent.init_networks(jax.random.key(0), 400, (50, 50), 20)
    kernels = [np.asarray(networks.table).swapaxes(0, 1), *map(np.asarray, networks.layers.kernels)]
    for kernel, fan_in in zip(kernels, (400, 50, 50), strict=True):
        scaled = kernel * np.sqrt(fan_in)
        assert np.abs(scaled).max() <= 2.0
        np.testing.assert_allclose(scaled.std(), 0.8796, atol=0.02)  # of a normal cut at ±2
    assert all((np.asarray(bias) == 0).all() for bias in networks.layers.biases)
