"""The Q-network and the mixers, forwards only, in numpy.

Gradients come from complex steps (see `pqn.gradient`). So parameters are arrays [P, ...] of P variants, and every
activation has that axis in front, or one of length 1 as long as nothing before it differs. Whatever is not analytic
decides by real parts: ReLU, absolute values, and everything that is a constant for the gradient.

Parameters are a flat dictionary. A name ends in `.kernel`, `.bias` or `.scale`, or in a name that only LRU has.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Params = dict[str, Array]
Stats = dict[str, dict[str, Array]]  # running statistics of each batch norm
State = tuple[Array, ...]  # of a recurrent layer: (h,), (h, c) or the halves of a complex h, each [..., H]
Memory = list[State]  # of each recurrent layer


class Inputs(NamedTuple):
    """What a network reads, with any axes in front of the agents'."""

    obs: Array  # [..., M, F]
    first: Array  # [..., M] bool: `obs` starts an episode
    last_action: Array  # [..., M] int
    last_reward: Array  # [...]


@dataclasses.dataclass(frozen=True)
class Network:
    """Which network it is."""

    agents: int
    actions: int
    layers: int
    norm: str
    norm_input: str
    head: str
    memory: str
    memory_layers: int
    memory_size: int
    last_action: bool
    last_reward: bool
    agent_id: bool
    mixer: str
    activation: str = "relu"

    def blank_memory(self, *axes: int) -> Memory:
        if self.memory == "none":
            return []
        parts = 2 if self.memory in ("lstm", "lru") else 1
        return [(np.zeros((*axes, self.memory_size)),) * parts for _ in range(self.memory_layers)]

    def __call__(
        self, params: Params, stats: Stats, memory: Memory, inputs: Inputs, train: bool
    ) -> tuple[Memory, Array, Stats]:
        """Memory after a sequence [T, B, M], Q [P, T, B, M, A], and the running statistics if it was trained on."""
        steps, batch, agents = inputs.first.shape
        new_stats: Stats = {}

        def normalised(name: str, kind: str, x: Array) -> Array:
            if kind in ("batch", "batch_renorm"):
                x, new_stats[name] = batch_norm(kind, params, stats[name], name, x, train)
                return x
            return layer_norm(params, name, x) if kind == "layer" else x

        x = inputs.obs.astype(np.float64)
        if self.agent_id:
            ids = np.broadcast_to(np.eye(agents), (steps, batch, agents, agents))
            x = np.concatenate([x, ids], axis=-1)
        x = normalised("input_norm", self.norm_input, x.reshape(1, steps * batch * agents, -1))
        for layer in range(self.layers):
            x = normalised(f"norm{layer}", self.norm, dense(params, f"dense{layer}", x))
            x = np.tanh(x) if self.activation == "tanh" else relu(x)
        x = np.concatenate([x, *(np.broadcast_to(f, (len(x), *f.shape)) for f in self._past(inputs))], axis=-1)
        x = x.reshape(len(x), steps, batch * agents, -1)
        after: Memory = []
        for layer, state in enumerate(memory):
            state = tuple(part.reshape(1, batch * agents, -1) for part in state)
            outputs = []
            for t in range(steps):
                cleared = inputs.first[t].reshape(-1, 1)
                state = tuple(np.where(cleared, 0.0, part) for part in state)
                state, output = MEMORIES[self.memory](params, f"memory{layer}", state, x[:, t])
                outputs.append(output)
            x = np.stack(outputs, axis=1)
            after.append(tuple(part[0].real.reshape(batch, agents, -1) for part in state))
        out = self._head(params, x.reshape(len(x), steps * batch * agents, -1))
        return after, out.reshape(len(out), steps, batch, agents, -1), new_stats

    def _past(self, inputs: Inputs) -> list[Array]:
        """Last action (one-hot) and last reward [R, ...]; an episode starts without a past."""
        known = ~inputs.first
        features = []
        if self.last_action:
            features.append(np.eye(self.actions)[inputs.last_action] * known[..., None])
        if self.last_reward:
            features.append((inputs.last_reward[..., None] * known)[..., None])
        return [feature.reshape(known.size, -1) for feature in features]

    def _head(self, params: Params, x: Array) -> Array:
        if self.head == "linear":
            return dense(params, "q", x)
        advantage = dense(params, "advantage", x)
        return dense(params, "value", x) + advantage - advantage.mean(-1, keepdims=True)

    @property
    def joint(self) -> bool:
        """Whether the agents have one value together."""
        return self.mixer != "independent" or self.agents == 1

    def mix(self, params: Params, values: Array, world: Array) -> Array:
        """Values [P, ..., M] of agents to those of the team [P, ...], or to themselves if there is no team."""
        if self.mixer == "qmix":
            return qmix(params, values, world)
        return values.sum(-1) if self.joint else values


def dense(params: Params, name: str, x: Array) -> Array:
    return x @ params[f"{name}.kernel"] + params[f"{name}.bias"][:, None]


def relu(x: Array) -> Array:
    _bends_at_zero(x)
    return np.where(np.real(x) > 0, x, 0.0)


def absolute(x: Array) -> Array:
    _bends_at_zero(x)
    return np.where(np.real(x) > 0, x, -x)


closest = [np.inf]  # to zero that a bent function was asked for: there, rounding decides about a gradient


def _bends_at_zero(x: Array) -> None:
    closest[0] = min(closest[0], np.abs(np.real(x)).min())


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def affine(params: Params, name: str, x: Array) -> Array:
    return x * params[f"{name}.scale"][:, None] + params[f"{name}.bias"][:, None]


def layer_norm(params: Params, name: str, x: Array, epsilon: float = 1e-6) -> Array:
    """Ba et al. 2016, over the last axis of [P, R, F]."""
    centred = x - x.mean(-1, keepdims=True)
    return affine(params, name, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon))


def batch_norm(
    kind: str, params: Params, stats: dict[str, Array], name: str, x: Array, train: bool
) -> tuple[Array, dict[str, Array]]:
    """Ioffe & Szegedy 2015, or batch renormalisation (Ioffe 2017), over the rows of x [P, R, F].

    The numbers are those of `flax.linen.BatchNorm` and of the public PQN code: momentum 0.99 and ε 1e-5; renormalised,
    0.999 and 1e-3, r within a factor 3, d within 5. Renormalisation starts after 100 updates of its statistics, and
    these are plain means over all batches until that weighs less than the momentum.
    """
    epsilon = 1e-5 if kind == "batch" else 1e-3
    deviation = np.sqrt(stats["var"] + epsilon)
    if not train:
        return affine(params, name, (x - stats["mean"]) / deviation), stats
    centred = x - x.mean(1, keepdims=True)
    batch_deviation = np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
    unit = centred / batch_deviation
    mean, var = x[0].real.mean(0), x[0].real.var(0)
    if kind == "batch":
        share: Any = 0.01
        count = {}
    else:
        if stats["updates"] >= 100:
            r = np.clip(np.sqrt(var + epsilon) / deviation, 1 / 3, 3)
            d = np.clip((mean - stats["mean"]) / deviation, -5, 5)
            unit = unit * r + d
        share = max(1.0 / (stats["updates"] + 1.0), 0.001)
        count = {"updates": stats["updates"] + 1}
    new = {"mean": (1 - share) * stats["mean"] + share * mean, "var": (1 - share) * stats["var"] + share * var}
    return affine(params, name, unit), new | count


# A memory takes its parameters, their name, its state and an input to its next state and an output.


def lstm(params: Params, name: str, state: State, x: Array) -> tuple[State, Array]:
    """Hochreiter & Schmidhuber 1997, with a forget gate: i, f, g, o side by side."""
    h, c = state
    gates = dense(params, f"{name}.input", x) + h @ params[f"{name}.recurrent.kernel"]
    i, f, g, o = np.split(gates, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h, c), h


def gru(params: Params, name: str, state: State, x: Array) -> tuple[State, Array]:
    """Cho et al. 2014, the reset gate behind the product: r, z, n side by side."""
    (h,) = state
    r, z, n = np.split(dense(params, f"{name}.input", x), 3, axis=-1)
    r_h, z_h, n_h = np.split(h @ params[f"{name}.recurrent.kernel"], 3, axis=-1)
    r, z = sigmoid(r + r_h), sigmoid(z + z_h)
    n = np.tanh(n + r * (n_h + params[f"{name}.candidate.bias"][:, None]))
    h = (1 - z) * n + z * h
    return (h,), h


def mingru(params: Params, name: str, state: State, x: Array) -> tuple[State, Array]:
    """Feng et al. 2024: the update gate and the candidate side by side; the candidate is made positive."""
    z, n = np.split(dense(params, f"{name}.input", x), 2, axis=-1)
    _bends_at_zero(n)
    n = np.where(np.real(n) >= 0, n + 0.5, sigmoid(n))
    h = (1 - sigmoid(z)) * state[0] + sigmoid(z) * n
    return (h,), h


def lru(params: Params, name: str, state: State, x: Array) -> tuple[State, Array]:
    """Orvieto et al. 2023, halves of complex numbers side by side, which complex steps cannot do for themselves."""
    real, imaginary = state
    length = np.exp(-np.exp(params[f"{name}.decay"][:, None]))
    angle = np.exp(params[f"{name}.phase"][:, None])
    cosine, sine = length * np.cos(angle), length * np.sin(angle)
    gain = np.exp(params[f"{name}.gain"][:, None])
    more_real, more_imaginary = np.split(x @ params[f"{name}.input.kernel"], 2, axis=-1)
    real, imaginary = (
        cosine * real - sine * imaginary + gain * more_real,
        sine * real + cosine * imaginary + gain * more_imaginary,
    )
    y = np.concatenate([real, imaginary], axis=-1) @ params[f"{name}.output.kernel"] + dense(params, f"{name}.skip", x)
    return (real, imaginary), 0.5 * y * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (y + 0.044715 * y**3)))


MEMORIES = {"lstm": lstm, "gru": gru, "mingru": mingru, "lru": lru}


def qmix(params: Params, values: Array, world: Array) -> Array:
    """Rashid et al. 2018, with LayerNorms in the hypernetworks: values [P, ..., M] and world [..., W] to [P, ...]."""
    axes, agents = values.shape[1:-1], values.shape[-1]
    values = values.reshape(len(values), -1, agents)
    world = world.reshape(1, -1, world.shape[-1]).astype(np.float64)

    def hyper(name: str) -> Array:
        x = relu(layer_norm(params, f"mixer.{name}_norm", dense(params, f"mixer.{name}_hidden", world)))
        return dense(params, f"mixer.{name}", x)

    inner = absolute(hyper("weights"))
    inner = inner.reshape(*inner.shape[:2], agents, -1)
    hidden = (values[..., None] * inner).sum(-2) + dense(params, "mixer.bias", world)
    hidden = np.where(hidden.real > 0, hidden, np.expm1(np.where(hidden.real > 0, 0, hidden)))
    total = (hidden * absolute(hyper("final"))).sum(-1) + hyper("value")[..., 0]
    return total.reshape(len(total), *axes)
