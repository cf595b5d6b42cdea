"""Probe environments: tasks so small that their Q-values are known in closed form.

Each one isolates one thing that a learner can get wrong (discounting, bootstrapping at a truncation, action masks,
memory, …), so that a failing probe names the fault. All but the counter are finite Markov decision processes given by
their tables, which a test can hand to value iteration and compare with the closed form in the docstring.
"""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec


class Probe:
    """A finite Markov decision process as a `SingleEnv`; its state is the index of a row of the tables below.

    Attributes:
      observations: [S, *obs_shape] what the agent sees in each state (two states may look alike).
      transition: [S, A, S] P(s' | s, a).
      reward: [S, A, S] r(s, a, s').
      terminates, cuts: [S, A, S] bool, whether the transition ends the episode, by termination or by truncation.
      start: [S] distribution of the first state.
      legal: [S, A] bool.
      acting: [S] bool, states in which an agent ever chooses; the others are only ever successors.
    """

    spec: EnvSpec

    def __init__(
        self,
        name: str,
        transition: np.ndarray,
        reward: Any,
        terminates: Any,
        *,
        cuts: Any = False,
        start: Any = None,
        legal: np.ndarray | None = None,
        observations: np.ndarray | None = None,
        max_episode_steps: int | None = None,
        limit_cuts: bool = False,
    ):
        shape = transition.shape
        self.transition = transition
        self.reward = np.broadcast_to(np.asarray(reward, np.float64), shape)
        self.terminates = np.broadcast_to(np.asarray(terminates, bool), shape)
        self.cuts = np.broadcast_to(np.asarray(cuts, bool), shape)
        self.start = np.full(shape[0], 1 / shape[0]) if start is None else np.asarray(start, np.float64)
        self.legal = np.ones(shape[:2], bool) if legal is None else legal
        self.observations = np.eye(shape[0], dtype=np.float32) if observations is None else observations
        self.acting = self._acting()
        self.spec = EnvSpec(
            name=f"probe:{name}",
            obs_shape=self.observations.shape[1:],
            obs_dtype=self.observations.dtype,
            num_actions=shape[1],
            max_episode_steps=max_episode_steps,
            truncates=limit_cuts or bool(self.cuts.any()),
            masked=legal is not None,
        )
        self._start_cdf, self._transition_cdf = _cdf(self.start), _cdf(self.transition)

    def optimal_q(self, gamma: float) -> np.ndarray:
        """Q*[S, A], bootstrapping at truncations; only the rows of `acting` and the `legal` entries matter."""
        raise NotImplementedError

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = _draw(key, self._start_cdf)
        return state, jnp.asarray(self.observations)[state]

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        here = (state, action, _draw(key, jnp.asarray(self._transition_cdf)[state, action]))
        return Outcome(
            state=here[2],
            obs=jnp.asarray(self.observations)[here[2]],
            reward=jnp.asarray(self.reward, jnp.float32)[here],
            terminated=jnp.asarray(self.terminates)[here],
            truncated=jnp.asarray(self.cuts)[here],
        )

    def avail(self, state: Array) -> Array:
        return jnp.asarray(self.legal)[state]

    def _acting(self) -> np.ndarray:
        """States that can be reached from a start without the episode ending on the way."""
        moves = (self.transition > 0) & ~self.terminates & ~self.cuts & self.legal[:, :, None]
        seen = self.start > 0
        for _ in seen:
            seen = seen | moves[seen].any((0, 1))
        return seen


def _cdf(probabilities: np.ndarray) -> np.ndarray:
    """Cumulative distribution in float32 that ends at exactly 1, so that no draw falls off its end."""
    total = np.cumsum(probabilities, axis=-1)
    return (total / total[..., -1:]).astype(np.float32)


def _draw(key: Array, cdf: Any) -> Array:
    return jnp.sum(jax.random.uniform(key) >= jnp.asarray(cdf)).astype(jnp.int32)


def _moves(num_states: int, num_actions: int, targets: Any) -> np.ndarray:
    """Deterministic transition table from targets [S] or [S, A]."""
    targets = np.asarray(targets)
    targets = targets if targets.ndim == 2 else np.repeat(targets[:, None], num_actions, axis=1)
    return np.eye(num_states)[targets]


class OneStep(Probe):
    """One state, reward 1, the end: Q(s, a) = 1. Fails if the loss or the optimiser cannot fit a constant."""

    def __init__(self) -> None:
        super().__init__("one-step", _moves(1, 2, [0]), 1.0, True, max_episode_steps=1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.ones((1, 2))


class ObservedReward(Probe):
    """The observation says what the one step pays: Q(sᵢ, a) = rᵢ with r = (-1, 0.5, 2).

    Fails if observations and rewards are paired wrongly.
    """

    payoffs = np.array([-1.0, 0.5, 2.0])

    def __init__(self) -> None:
        super().__init__(
            "observed-reward", _moves(3, 2, [0, 1, 2]), self.payoffs[:, None, None], True, max_episode_steps=1
        )

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.repeat(self.payoffs[:, None], 2, axis=1)


class TwoStep(Probe):
    """s₀ → s₁ → end, and only the second step pays: Q(s₀, a) = γ, Q(s₁, a) = 1. Fails if discounting is wrong."""

    def __init__(self) -> None:
        reward = np.array([0.0, 1.0])[:, None, None]
        ends = np.array([False, True])[:, None, None]
        super().__init__("two-step", _moves(2, 2, [1, 1]), reward, ends, start=[1, 0], max_episode_steps=2)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[gamma, gamma], [1.0, 1.0]])


class ActionMatters(Probe):
    """One state; action 0 pays -1, action 1 pays 1: Q = (-1, 1). Fails if actions and values are paired wrongly."""

    def __init__(self) -> None:
        super().__init__("action-matters", _moves(1, 2, [0]), np.array([-1.0, 1.0])[:, None], True, max_episode_steps=1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[-1.0, 1.0]])


class Match(Probe):
    """Two states; the action with the state's number pays 1, the other -1: Q(s, a) = 1 if a = s else -1."""

    def __init__(self) -> None:
        reward = (2 * np.eye(2) - 1)[:, :, None]
        super().__init__("match", _moves(2, 2, [0, 1]), reward, True, max_episode_steps=1)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return 2 * np.eye(2) - 1


class Endless(Probe):
    """One state that pays 1 at every step and never ends by itself, cut every `limit` steps.

    Bootstrapping at the cut, Q = 1 / (1 - γ). Without it the agent, who sees no clock, learns the smaller value of
    `unbootstrapped_q`. Fails if truncation is taken for termination.
    """

    def __init__(self, limit: int = 5) -> None:
        self.limit = _at_least(limit, 1, "probe:endless", "limit")
        super().__init__("endless", _moves(1, 2, [0]), 1.0, False, max_episode_steps=limit, limit_cuts=True)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.full((1, 2), 1 / (1 - gamma))

    def unbootstrapped_q(self, gamma: float, lam: float = 0.0) -> np.ndarray:
        """The fixed point of λ-returns that treat the cut as an end.

        With k steps left, G₁ = 1 and Gₖ = 1 + γ((1-λ)V + λ Gₖ₋₁); all look alike, so V is the mean of G₁ … G_limit.
        Each Gₖ = aₖ + bₖ V is linear in V. For λ = 0 this is 1 / (1 - γ(1 - 1/limit)). Exact for rollouts that are
        a multiple of `limit` long (otherwise, for λ > 0, their ends bootstrap in mid-episode).
        """
        a, b = 1.0, 0.0
        total_a, total_b = a, b
        for _ in range(self.limit - 1):
            a, b = 1 + gamma * lam * a, gamma * (1 - lam) + gamma * lam * b
            total_a, total_b = total_a + a, total_b + b
        return np.full((1, 2), total_a / self.limit / (1 - total_b / self.limit))


class EndOrCut(Probe):
    """Three starts A, B, C of one step each: A terminates, B is truncated into C, C terminates and pays 3.

    Q(A) = 1, Q(B) = 1 + 3γ, Q(C) = 3. B shows C only as its final observation. Fails if termination and truncation
    are confused, or if the bootstrap reads the next episode's observation instead of the final one.
    """

    def __init__(self) -> None:
        reward = np.array([1.0, 1.0, 3.0])[:, None, None]
        cuts = np.array([False, True, False])[:, None, None]
        super().__init__("end-or-cut", _moves(3, 2, [2, 2, 2]), reward, ~cuts, cuts=cuts, max_episode_steps=1)

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
        moves = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west
        transition = np.zeros((len(cells), 4, len(cells)))
        for (r, c), here in index.items():
            for action in range(4):
                for turn, chance in ((0, 0.8), (1, 0.1), (-1, 0.1)):
                    dr, dc = moves[(action + turn) % 4]
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
        super().__init__("masked", _moves(2, 3, [1, 1]), reward, ends, start=[1, 0], legal=legal, max_episode_steps=2)

    def optimal_q(self, gamma: float) -> np.ndarray:
        return np.array([[10.0, gamma, 0.5 + gamma], [1.0, 0.0, 10.0]])


class Memory(Probe):
    """A cue, 0 or 1, is shown at the first step only; `delay` steps later the agent is asked for it.

    The right answer pays 1, the wrong one -1. State 2t + cue has Q = γ^(delay - t) before the question, whatever the
    action, and 1 if a = cue else -1 at it. Without memory both answers are worth 0: only a recurrent agent can
    succeed. An observation is (cue is 0, cue is 1, question); in between it is blank.
    """

    def __init__(self, delay: int = 3) -> None:
        self.delay = _at_least(delay, 1, "probe:memory", "delay")
        count = 2 * (delay + 1)
        time, cue = np.divmod(np.arange(count), 2)
        asked = time == delay
        observations = np.zeros((count, 3), np.float32)
        observations[[0, 1], [0, 1]] = 1
        observations[asked, 2] = 1
        reward = asked[:, None] * np.where(np.arange(2) == cue[:, None], 1.0, -1.0)
        super().__init__(
            "memory",
            _moves(count, 2, np.minimum(np.arange(count) + 2, count - 1)),
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


class Counter:
    """A clock with a name: every transition can be verified from its observation alone.

    An observation is (marker, t). The marker is drawn at reset and decides all: the episode lasts
    1 + marker mod `longest` steps and ends by termination if ⌊marker / longest⌋ is even, else by truncation. Step t
    pays t + 1. A lost or invented transition, a stale final observation or a reward that slipped to its neighbour
    contradicts `expected`. Taking every end for a termination, Q(marker, t) = Σ_{j=t+1}^{length} γ^(j-t-1) j.
    """

    def __init__(self, longest: int = 7, markers: int = 1024) -> None:
        self.longest = _at_least(longest, 1, "probe:counter", "longest")
        self.markers = _at_least(markers, 1, "probe:counter", "markers")
        # Truncation comes at no fixed length, so no `max_episode_steps` is promised.
        self.spec = EnvSpec("probe:counter", (2,), np.dtype(np.float32), num_actions=2, truncates=True)
        length = 1 + np.arange(markers) % longest
        self.observations = np.array([(m, t) for m in range(markers) for t in range(length[m])], np.float32)

    def reset(self, key: Array) -> tuple[Array, Array]:
        state = jnp.stack([jax.random.randint(key, (), 0, self.markers), jnp.int32(0)])
        return state, state.astype(jnp.float32)

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        after, reward, terminated, truncated = self.expected(state)
        return Outcome(after, after.astype(jnp.float32), reward, terminated, truncated)

    def expected(self, obs: Any) -> tuple[Any, Any, Any, Any]:
        """The successor of obs [..., 2] before any reset, its reward, and whether it is terminated or truncated."""
        marker, after = obs[..., 0], obs[..., 1] + 1
        over = after == 1 + marker % self.longest
        by_task = (marker // self.longest) % 2 == 0
        successor = obs + np.array([0, 1], obs.dtype)
        return successor, after, over & by_task, over & ~by_task

    def optimal_q(self, gamma: float) -> np.ndarray:
        """[S, A] for the rows of `observations`, with every end taken for a termination."""
        length = 1 + self.observations[:, 0].astype(int) % self.longest
        time = self.observations[:, 1].astype(int)
        value = [sum(gamma ** (j - t - 1) * j for j in range(t + 1, n + 1)) for t, n in zip(time, length, strict=True)]
        return np.repeat(np.array(value)[:, None], 2, axis=1)


class TeamMatch:
    """Two agents with a cue each, 0 or 1, which the other cannot see; one step that pays 1 for each agent right.

    The payoff is a sum over agents: Q_i(cue, a) = 1 if a = cue else 0 is an exact decomposition, and a team that plays
    it earns `best` = 2. Fails if the agents' observations or actions are mixed up, or the reward is not the team's.
    """

    best = 2.0

    def __init__(self) -> None:
        self.spec = EnvSpec(
            "probe:team-match", (2,), np.dtype(np.float32), num_actions=2, num_agents=2, max_episode_steps=1
        )

    def reset(self, key: Array) -> tuple[Array, Array]:
        cues = jax.random.bernoulli(key, shape=(2,)).astype(jnp.int32)
        return cues, jax.nn.one_hot(cues, 2)

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        right = jnp.sum((action == state).astype(jnp.float32))
        return Outcome(state, jax.nn.one_hot(state, 2), right, jnp.bool_(True))


class TwoStepGame:
    """The game with which QMIX was introduced: a sum of values cannot express it, a monotonic mixture can.

    The first agent's first action decides which of two matrices the second step pays by: A pays 7 whatever both do, B
    pays ((0, 1), (1, 8)). The best team goes to B and earns `best` = 8. Explored uniformly, the closest sum of values
    to B puts its best entry at 6.5, so that VDN goes to A and earns `best_sum` = 7.
    """

    best, best_sum = 8.0, 7.0

    def __init__(self) -> None:
        self.payoff = np.array([[[0, 0], [0, 0]], [[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)  # [S, A, A]
        self.spec = EnvSpec(
            "probe:two-step-game",
            (3,),
            np.dtype(np.float32),
            num_actions=2,
            num_agents=2,
            max_episode_steps=2,
            world_size=3,
        )

    def reset(self, key: Array) -> tuple[Array, Array]:
        return jnp.int32(0), self._observe(jnp.int32(0))

    def step(self, key: Array, state: Array, action: Array) -> Outcome:
        after = jnp.where(state == 0, 1 + action[0], state)
        reward = jnp.asarray(self.payoff)[state, action[0], action[1]]
        return Outcome(after, self._observe(after), reward, state > 0)

    def world_state(self, state: Array) -> Array:
        return jax.nn.one_hot(state, 3)

    def _observe(self, state: Array) -> Array:
        return jnp.broadcast_to(jax.nn.one_hot(state, 3), (2, 3))


TEAMS: dict[str, type[TeamMatch | TwoStepGame]] = {"team-match": TeamMatch, "two-step-game": TwoStepGame}
PROBES: dict[str, type[Probe | Counter]] = {
    "one-step": OneStep,
    "observed-reward": ObservedReward,
    "two-step": TwoStep,
    "action-matters": ActionMatters,
    "match": Match,
    "endless": Endless,
    "end-or-cut": EndOrCut,
    "random-length": RandomLength,
    "gridworld": Gridworld,
    "masked": Masked,
    "memory": Memory,
    "counter": Counter,
}


def make(name: str, num_envs: int, **kwargs: Any) -> Autoreset:
    """N copies of the probe `name`.

    Raises:
      EnvError: an option that the probe does not have, or a value it cannot use.
    """
    probe: Any = (PROBES | TEAMS)[name]
    options = inspect.signature(probe).parameters
    for key in kwargs:
        if key not in options:
            valid = f"its options are {', '.join(options)}" if options else "it has none"
            raise EnvError(f"probe:{name} has no option {key!r}; {valid}.")
    return Autoreset(probe(**kwargs), num_envs)


def _at_least(value: Any, least: int, name: str, option: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EnvError(f"{name}: {option} must be an integer of at least {least}, not {value!r}.")
    return value
