"""Probes for one agent, as tables."""

from __future__ import annotations

import numpy as np

from pqn.envs.probe.tabular import Probe, at_least, moves
from pqn.errors import EnvError


class OneStep(Probe):
    """One state, reward 1, the end: Q(s, a) = 1. Fails if the loss or the optimiser cannot fit a constant."""

    def __init__(self) -> None:
        super().__init__("one-step", moves(1, 2, [0]), 1.0, True, max_episode_steps=1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.ones((1, 2))


class ObservedReward(Probe):
    """The observation says what the one step pays: Q(sᵢ, a) = rᵢ with r = (-1, 0.5, 2).

    Fails if observations and rewards are paired wrongly.
    """

    payoffs = np.array([-1.0, 0.5, 2.0])

    def __init__(self) -> None:
        super().__init__(
            "observed-reward", moves(3, 2, [0, 1, 2]), self.payoffs[:, None, None], True, max_episode_steps=1
        )

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.repeat(self.payoffs[:, None], 2, axis=1)


class TwoStep(Probe):
    """s₀ → s₁ → end, and only the second step pays: Q(s₀, a) = γ, Q(s₁, a) = 1. Fails if discounting is wrong."""

    def __init__(self) -> None:
        reward = np.array([0.0, 1.0])[:, None, None]
        ends = np.array([False, True])[:, None, None]
        super().__init__("two-step", moves(2, 2, [1, 1]), reward, ends, start=[1, 0], max_episode_steps=2)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[gamma, gamma], [1.0, 1.0]])


class ActionMatters(Probe):
    """One state; action 0 pays -1, action 1 pays 1: Q = (-1, 1). Fails if actions and values are paired wrongly."""

    def __init__(self) -> None:
        super().__init__("action-matters", moves(1, 2, [0]), np.array([-1.0, 1.0])[:, None], True, max_episode_steps=1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[-1.0, 1.0]])


class Match(Probe):
    """Two states; the action with the state's number pays 1, the other -1: Q(s, a) = 1 if a = s else -1."""

    def __init__(self) -> None:
        reward = (2 * np.eye(2) - 1)[:, :, None]
        super().__init__("match", moves(2, 2, [0, 1]), reward, True, max_episode_steps=1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return 2 * np.eye(2) - 1


class Endless(Probe):
    """One state that pays 1 at every step and never terminates. Episodes are truncated after `limit` steps.

    With bootstrapping at the truncation, Q = 1 / (1 - γ). Without it the agent, which sees no clock, learns the smaller
    value of `unbootstrapped_q`. Fails if truncation is taken for termination.
    """

    def __init__(self, limit: int = 5) -> None:
        self.limit = at_least(limit, 1, "probe:endless", "limit")
        super().__init__("endless", moves(1, 2, [0]), 1.0, False, max_episode_steps=limit, limit_truncates=True)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.full((1, 2), 1 / (1 - gamma))

    def unbootstrapped_q(self, gamma: float, lam: float = 0.0) -> np.ndarray:
        """The fixed point of λ-returns that treat the truncation as an end.

        With k steps left, G₁ = 1 and Gₖ = 1 + γ((1-λ)V + λ Gₖ₋₁). All states look alike, so V is the mean of G₁ …
        G_limit. Each Gₖ = aₖ + bₖ V is linear in V. For λ = 0 this is 1 / (1 - γ(1 - 1/limit)). The result is
        exact for rollouts of a multiple of `limit` steps. The end of another one bootstraps within an episode, which
        matters for λ > 0.
        """
        a, b = 1.0, 0.0
        total_a, total_b = a, b
        for _ in range(self.limit - 1):
            a, b = 1 + gamma * lam * a, gamma * (1 - lam) + gamma * lam * b
            total_a, total_b = total_a + a, total_b + b
        return np.full((1, 2), total_a / self.limit / (1 - total_b / self.limit))


class EndOrTruncation(Probe):
    """Three starts A, B, C of one step each: A terminates, B is truncated into C, C terminates and pays 3.

    Q(A) = 1, Q(B) = 1 + 3γ, Q(C) = 3. B shows C only as its final observation. Fails if termination and truncation
    are confused, or if the bootstrap reads the next episode's observation instead of the final one.
    """

    def __init__(self) -> None:
        reward = np.array([1.0, 1.0, 3.0])[:, None, None]
        truncates = np.array([False, True, False])[:, None, None]
        super().__init__(
            "end-or-truncation",
            moves(3, 2, [2, 2, 2]),
            reward,
            ~truncates,
            truncates=truncates,
            max_episode_steps=1,
        )

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.repeat(np.array([[1.0], [1 + 3 * gamma], [3.0]]), 2, axis=1)


class RandomLength(Probe):
    """Reward 1 at every step, after which the episode goes on with probability p: Q = 1 / (1 - γp)."""

    def __init__(self, p: float = 0.8) -> None:
        if not 0 <= p < 1:
            raise EnvError(f"probe:random-length: p must be in [0, 1), not {p!r}.")
        self.p = p
        transition = np.repeat(np.array([[[p, 1 - p]], [[0.0, 1.0]]]), 2, axis=1)
        super().__init__("random-length", transition, 1.0, np.array([False, True]), start=[1, 0])

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[1.0], [0.0]]) * np.full((2, 2), 1 / (1 - gamma * self.p))


class Gridworld(Probe):
    """A slippery 4x3 grid with a wall, a goal (+1, end) and a pit (-1, end); every other step costs 0.04.

    A move goes where it was meant to with probability 0.8 and to either side with 0.1; walls hold the agent in place.
    Episodes start in any open cell, so that all are visited. There is no formula for Q*, but the model is known:
    `optimal_q` iterates the Bellman operator to its fixed point.
    """

    layout = ("...G", ".#.P", "....")

    def __init__(self) -> None:
        cells = [(r, c) for r, row in enumerate(self.layout) for c, mark in enumerate(row) if mark != "#"]
        index = {cell: i for i, cell in enumerate(cells)}
        marks = np.array([self.layout[r][c] for r, c in cells])
        directions = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west
        transition = np.zeros((len(cells), 4, len(cells)))
        for (r, c), here in index.items():
            for action in range(4):
                for turn, chance in ((0, 0.8), (1, 0.1), (-1, 0.1)):
                    dr, dc = directions[(action + turn) % 4]
                    transition[here, action, index.get((r + dr, c + dc), here)] += chance
        reward = np.select([marks == "G", marks == "P"], [1.0, -1.0], -0.04)
        open_cell = marks == "."
        super().__init__(
            "gridworld",
            transition,
            reward,
            ~open_cell,
            start=open_cell / open_cell.sum(),
            observations=np.eye(len(cells), dtype=bool),
        )

    @property
    def expected_reward(self) -> np.ndarray:
        """R[s, a] = Σ_s' P(s' | s, a) r(s, a, s')."""
        return (self.transition * self.reward).sum(-1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        q = np.zeros(self.transition.shape[:2])
        going_on = self.transition * ~self.terminates
        for _ in range(10_000):
            new = self.expected_reward + gamma * going_on @ q.max(-1)
            if np.abs(new - q).max() < 1e-12:
                break
            q = new
        return q


class Masked(Probe):
    """Two steps with one illegal action each, which would end the episode with a reward of 10.

    In s₀ action 0 is illegal, 1 pays 0 and 2 pays 0.5, both lead to s₁, where 2 is illegal, 0 pays 1 and 1 pays 0.
    Over legal actions Q(s₀) = (·, γ, 0.5 + γ) and Q(s₁) = (1, 0, ·). Fails if the policy or the maximum in the target
    ignores the mask.
    """

    def __init__(self) -> None:
        reward = np.array([[10.0, 0.0, 0.5], [1.0, 0.0, 10.0]])[:, :, None]
        ends = np.array([[True, False, False], [True, True, True]])[:, :, None]
        legal = np.array([[False, True, True], [True, True, False]])
        super().__init__("masked", moves(2, 3, [1, 1]), reward, ends, start=[1, 0], legal=legal, max_episode_steps=2)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[10.0, gamma, 0.5 + gamma], [1.0, 0.0, 10.0]])


class Memory(Probe):
    """A cue, 0 or 1, is shown at the first step only; `delay` steps later the agent is asked for it.

    The right answer pays 1, the wrong one -1. State 2t + cue has Q = γ^(delay - t) before the question, whatever the
    action, and 1 if a = cue else -1 at it. Without memory both answers are worth 0: only a recurrent agent can
    succeed. An observation is (cue is 0, cue is 1, question); in between it is blank.
    """

    def __init__(self, delay: int = 3) -> None:
        self.delay = at_least(delay, 1, "probe:memory", "delay")
        count = 2 * (delay + 1)
        time, cue = np.divmod(np.arange(count), 2)
        asked = time == delay
        observations = np.zeros((count, 3), np.float32)
        observations[[0, 1], [0, 1]] = 1
        observations[asked, 2] = 1
        reward = asked[:, None] * np.where(np.arange(2) == cue[:, None], 1.0, -1.0)
        super().__init__(
            "memory",
            moves(count, 2, np.minimum(np.arange(count) + 2, count - 1)),
            reward[:, :, None],
            asked[:, None, None],
            start=(time == 0) / 2,
            observations=observations,
            max_episode_steps=delay + 1,
        )

    def optimal_q(self, gamma: float) -> np.ndarray:
        time, cue = np.divmod(np.arange(2 * (self.delay + 1)), 2)
        answer = np.where(np.arange(2) == cue[:, None], 1.0, -1.0)
        return np.where((time == self.delay)[:, None], answer, (gamma ** (self.delay - time))[:, None])
