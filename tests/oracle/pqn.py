"""PQN in numpy and float64, written from the paper's Algorithm 1 and from the definitions it refers to.

`src/pqn` is written to be fast and this to be obviously right, so nothing is shared between them:
targets are sums of n-step returns and no recursion, gradients are complex steps and no backpropagation, rollouts are
lists of steps and no arrays. Only the random numbers are the same. Whoever plays this must not need jax.

Axis letters: T time, N environments, M agents, A actions, B segments of a minibatch, P variants of the parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from oracle.networks import Array, Inputs, Memory, Network, Params, Stats

TINY = 1e-30  # of a complex step: its square vanishes beside any number


@dataclasses.dataclass(frozen=True)
class Settings:
    """Algorithm 1's numbers."""

    network: Network
    updates: int
    """Updates over which the schedules run: of the whole run, unless they have a length of their own."""
    steps: int
    envs: int
    segment: int
    burn_in: int
    epochs: int
    minibatches: int
    gamma: float
    lam: float
    eps_start: float
    eps_finish: float
    eps_decay: float
    lr: float
    lr_decay: bool
    optimizer: str
    max_grad_norm: float
    reward_scale: float
    l2_final: float
    l2_inner: float
    fresh_targets: bool
    joint: bool
    """Whether the network reads states and successors together when it learns."""
    bootstrap_truncation: bool
    overlap: bool
    replay: ReplaySettings | None = None
    ppo: PPOSettings | None = None


@dataclasses.dataclass(frozen=True)
class ReplaySettings:
    """The numbers of a buffer and of a target network; see `oracle.dqn`."""

    length: int
    """Steps of each environment that are kept."""
    start: int
    """Steps of all environments before the first gradient step."""
    fresh: bool
    """Whether some sequences are of the last rollout."""
    target_network: bool
    interval: int
    rate: float
    double: bool
    n_step: int
    huber: bool


@dataclasses.dataclass(frozen=True)
class PPOSettings:
    """The numbers of `oracle.ppo`."""

    critic: str
    clip: float
    clip_value: bool
    value_weight: float
    entropy: float
    normalize: bool


class World(Protocol):
    """Environments that show the outcome of a step as `ring.Outcome` does, in numpy."""

    def reset(self) -> Any: ...

    def step(self, action: Array) -> Any: ...


class Chance(NamedTuple):
    """The random numbers of an update."""

    uniform: Array  # [T, N, M] for ε-greedy
    orders: Array  # [E, S] permutations of the segments; of a buffer, [K, B, 2] environment and step of each sequence


class Step(NamedTuple):
    """One step of all environments, as it was lived."""

    memory: Memory  # before the inputs were read, [N, M, H]
    inputs: Inputs  # [N, M, ...]
    outcome: Outcome


class Seen(NamedTuple):
    """What is acted on: of all environments, or of a minibatch."""

    inputs: Inputs  # [N, M, ...]
    avail: Array  # [N, M, A] bool
    world: Array  # [N, W]


class Outcome(NamedTuple):
    """What learning needs of a step beside the inputs; of all environments, or of the steps of a minibatch."""

    avail: Array  # [N, M, A] bool
    world: Array  # [N, W]
    action: Array  # [N, M]
    reward: Array  # [N] scaled
    done: Array  # [N]
    rest: Array  # [N] or [N, M]: value of what an episode that ended here would still have brought
    valid: Array  # [N]
    cut: Array  # [N] whether `rest` is that of an episode cut short
    chance: Array  # [N, M] log-probability of the action, where a policy was asked


class Rollout(NamedTuple):
    steps: list[Step]
    last: Seen  # after the steps
    values: list[Array]  # V(s_0) … V(s_T), [N] or, of each agent, [N, M]
    report: dict[str, float]  # sums over the episodes that ended


class Lesson(NamedTuple):
    """A minibatch of B segments."""

    inputs: Inputs  # [W + L, B, M, ...]; a step more where states and successors are read together
    memory: Memory  # [B, M, H] before them
    outcomes: list[Outcome]  # L of [B, ...]: those with a loss
    target: Array  # [L, B]
    after: Array  # [B] the value after the segment
    beyond: tuple[Array, Array]  # legal actions [B, M, A] and global state [B, W] after the segment


# --- equations ------------------------------------------------------------------------------------------------------


def linear(start: float, finish: float, duration: float, now: float) -> float:
    return finish if now >= duration else start + (finish - start) * now / duration


def epsilon_greedy(uniform: Array, q: Array, avail: Array, epsilon: float) -> Array:
    """Actions [N, M]. One draw u serves both decisions: u < ε explores, and u/ε says which legal action."""
    actions = np.zeros(uniform.shape, np.int32)
    for where, u in np.ndenumerate(uniform):
        legal = np.flatnonzero(avail[where])
        if len(legal):  # otherwise the action is 0, and nobody's
            rank = int(u / epsilon * len(legal)) if u < epsilon else np.argmax(q[where][legal])
            actions[where] = legal[rank]
    return actions


def legal_maximum(q: Array, avail: Array) -> Array:
    """max over the legal actions [...]; an agent without any is worth 0."""
    return np.where(avail.any(-1), np.where(avail, q, -np.inf).max(-1), 0.0)


def lambda_return(rewards: list, values: list, done: list, rests: list, gamma: float, lam: float) -> Array:
    """The λ-return of the first of K steps: the weighted sum of its n-step returns.

        R = (1 − λ) Σ_{n<K} λⁿ⁻¹ Gₙ + λᴷ⁻¹ G_K,    Gₙ = Σ_{k<n} γᵏ r_k + γⁿ V(s_n)

    K is cut where the episode ends, where V is what the end leaves (0, or the value of the true last observation).

    Args:
      rewards, done, rests: of the K steps.
      values: V(s_1) … V(s_K).
    """
    ends = [k for k, over in enumerate(done) if over]
    longest = ends[0] + 1 if ends else len(rewards)

    def n_step(n: int) -> Array:
        last = rests[n - 1] if done[n - 1] else values[n - 1]
        return sum(gamma**k * rewards[k] for k in range(n)) + gamma**n * last

    shorter = sum((1 - lam) * lam ** (n - 1) * n_step(n) for n in range(1, longest))
    return shorter + lam ** (longest - 1) * n_step(longest)


def gradient(loss: Callable[[Params], Array], params: Params) -> Params:
    """∂loss/∂p = Im loss(p + iη) / η for every number p: exact, since no difference is taken."""
    found = {}
    for name, value in params.items():
        steps = 1j * TINY * np.eye(value.size).reshape(value.size, *value.shape)
        slope = np.imag(loss(single(params) | {name: value + steps})) / TINY
        found[name] = np.broadcast_to(slope, value.size).reshape(value.shape)
    return found


def norm(params: Params) -> float:
    return float(np.sqrt(sum((value**2).sum() for value in params.values())))


def clipped(grads: Params, largest: float) -> Params:
    """Shortened to the norm `largest`, if they are longer: one norm over all of them."""
    length = norm(grads)
    return {name: g * (largest / length) for name, g in grads.items()} if length > largest else grads


class Adam:
    """Kingma & Ba 2015, and with `rectified` RAdam, Liu et al. 2020: β 0.9 and 0.999, ε 1e-8.

    RAdam adapts the step size as soon as the variance of its adaptation is tractable, ρ ≥ 5 as in its authors' code.
    """

    def __init__(self, params: Params, rectified: bool):
        self.rectified, self.t = rectified, 0
        self.m = {name: np.zeros_like(value) for name, value in params.items()}
        self.v = {name: np.zeros_like(value) for name, value in params.items()}

    def step(self, params: Params, grads: Params, lr: float) -> Params:
        self.t += 1
        t, rho_inf = self.t, 2 / (1 - 0.999) - 1
        rho = rho_inf - 2 * t * 0.999**t / (1 - 0.999**t)
        out = {}
        for name, g in grads.items():
            self.m[name] = 0.9 * self.m[name] + 0.1 * g
            self.v[name] = 0.999 * self.v[name] + 0.001 * g**2
            direction = self.m[name] / (1 - 0.9**t)
            adapted = direction / (np.sqrt(self.v[name] / (1 - 0.999**t)) + 1e-8)
            if not self.rectified:
                direction = adapted
            elif rho >= 5:
                ratio = ((rho - 4) * (rho - 2) * rho_inf) / ((rho_inf - 4) * (rho_inf - 2) * rho)
                direction = np.sqrt(ratio) * adapted
            out[name] = params[name] - lr * direction
        return out


# --- Algorithm 1 ----------------------------------------------------------------------------------------------------


class PQN:
    """A run: call `update` once for each update. `params` and `stats` are where it stands."""

    def __init__(self, settings: Settings, params: Params, stats: Stats, world: World):
        self.s, self.network, self.world = settings, settings.network, world
        self.params, self.stats = params, stats
        self.optimizer = Adam(params, settings.optimizer == "radam")
        self.done = 0  # updates
        self.see(world.reset(), np.zeros((settings.envs, self.network.agents), np.int32))
        self.memory = self.blank_memory()
        # Nothing came before the first observation: what should refresh a memory there is that observation itself.
        self.past = [(self.memory, self.inputs)] * settings.burn_in
        self.returns, self.lengths = np.zeros(settings.envs), np.zeros(settings.envs)
        self.waiting: Rollout | None = None  # one that was collected ahead of time
        self.greedy: PQN | None = None  # environments beside these, in which the same parameters only play
        self.episodes: list[tuple[int, float, float]] = []  # that ended: environment, return, length
        self.closest = np.inf  # how close to a tie an action was chosen

    def blank_memory(self) -> Memory:
        return self.network.blank_memory(self.s.envs, self.network.agents)

    def update(self, chance: Chance, ahead: Chance | None = None) -> dict[str, float]:
        """Collects, learns, and returns what a run reports of it.

        With `overlap` the next rollout, from the draws `ahead`, is collected with the parameters before learning.
        """
        rollout = self.waiting or self.collect(chance.uniform)
        self.waiting = self.collect(ahead.uniform) if self.s.overlap and ahead is not None else None
        metrics = self.learn(rollout, chance.orders)
        self.done += 1
        return metrics | rollout.report | {"param_norm": norm(self.params)}

    def epsilon(self) -> float:
        s = self.s
        return linear(s.eps_start, s.eps_finish, s.eps_decay * s.updates, self.done)

    def lr(self, gradient_step: int) -> float:
        s = self.s
        return linear(s.lr, 0.0 if s.lr_decay else s.lr, s.updates * s.epochs * s.minibatches, gradient_step)

    # --- collecting ---

    def collect(self, uniform: Array) -> Rollout:
        """T steps under the present policy."""
        steps, values, epsilon = [], [], self.epsilon()
        if self.greedy is not None:
            self.greedy.params, self.greedy.stats = self.params, self.stats
            self.greedy.collect(np.ones((len(uniform), self.greedy.s.envs, self.network.agents)))
        report = {"episodes": 0.0, "return_sum": 0.0, "length_sum": 0.0, "info/score_sum": 0.0}
        for draws in uniform:
            before, seen, avail, state = self.memory, self.inputs, self.avail, self.state
            self.memory, action, chance, value = self.choose(draws, epsilon)
            values.append(value)
            now = self.world.step(action)
            self.count(now, report)
            outcome = Outcome(
                avail=avail,
                world=state,
                action=action,
                reward=self.s.reward_scale * now.reward.astype(np.float64),
                done=now.terminated | now.truncated,
                rest=self.rest(now, action, np.zeros_like(values[-1])),
                valid=np.ones(len(draws), bool) if now.valid is None else now.valid,
                cut=now.truncated & self.s.bootstrap_truncation,
                chance=chance,
            )
            steps.append(Step(before, seen, outcome))
            self.see(now, action)
        last = Seen(self.inputs, self.avail, self.state)
        return Rollout(steps, last, [*values, self.worth(*last)], report)

    def choose(self, draws: Array, epsilon: float) -> tuple[Memory, Array, Array, Array]:
        """The memory after what is seen, actions [N, M], their log-probabilities if that matters, and values."""
        memory, q = self.act(self.memory, self.inputs)
        self.note_ties(q, draws, epsilon)
        action = epsilon_greedy(draws, q, self.avail, epsilon)
        return memory, action, np.zeros(action.shape), self.value(q, self.avail, self.state)

    def worth(self, inputs: Inputs, avail: Array, world: Array) -> Array:
        """V of what is seen with the present memory."""
        return self.value(self.act(self.memory, inputs)[1], avail, world)

    def see(self, now: Any, action: Array) -> None:
        """What the agents act on next, which `action` led to."""
        self.inputs = Inputs(now.obs, now.first, action, now.reward)
        self.avail, self.state = self.legal(now.avail), global_state(now.obs, now.world)

    def act(self, memory: Memory, inputs: Inputs) -> tuple[Memory, Array]:
        """Memory after one step and Q [N, M, A], with running statistics."""
        one = Inputs(*(part[None] for part in inputs))
        memory, q, _ = self.network(single(self.params), self.stats, memory, one, train=False)
        return memory, q[0, 0]

    def legal(self, avail: Array | None) -> Array:
        """The mask of legal actions [N, M, A]; without one, all are."""
        return np.ones((self.s.envs, self.network.agents, self.network.actions), bool) if avail is None else avail

    def value(self, q: Array, avail: Array, world: Array) -> Array:
        """max_a Q of the team [...], or of each agent [..., M]."""
        return self.network.mix(single(self.params), legal_maximum(q, avail)[None], world)[0]

    def rest(self, now: Any, action: Array, rest: Array) -> Array:
        """What is left to come where an episode is cut: the value of its true last observation; where it ends, 0."""
        cut = now.truncated
        if self.s.bootstrap_truncation and cut.any():
            final = Inputs(now.final_obs, np.zeros_like(now.first), action, now.reward)
            world = global_state(now.final_obs, now.final_world)
            rest[cut] = self.worth(final, self.legal(now.final_avail), world)[cut]
        return rest

    def count(self, now: Any, report: dict[str, float]) -> None:
        """Episodes count when they end, with the rewards as they came."""
        self.returns = self.returns + now.reward
        self.lengths = self.lengths + (1 if now.valid is None else now.valid)
        over = now.terminated | now.truncated if now.ended is None else now.ended
        self.episodes += [(int(n), self.returns[n], self.lengths[n]) for n in np.flatnonzero(over)]
        report["episodes"] += float(over.sum())
        report["return_sum"] += float(self.returns[over].sum())
        report["length_sum"] += float(self.lengths[over].sum())
        report["info/score_sum"] += float(now.info["score"][over].sum())
        self.returns, self.lengths = np.where(over, 0, self.returns), np.where(over, 0, self.lengths)

    def note_ties(self, q: Array, draws: Array, epsilon: float) -> None:
        for where in np.ndindex(draws.shape):
            legal = q[where][self.avail[where]]
            if len(legal) > 1 and draws[where] >= epsilon:
                second, first = np.sort(legal)[-2:]
                self.closest = min(self.closest, first - second)

    # --- learning ---

    def learn(self, rollout: Rollout, orders: Array) -> dict[str, float]:
        s, rows = self.s, []
        outcomes = [step.outcome for step in rollout.steps]
        targets = self.targets(outcomes, rollout.values[1:])
        line = self.past + [(step.memory, step.inputs) for step in rollout.steps]
        self.past = line[len(line) - s.burn_in :]
        seen = [*line, (None, rollout.last.inputs)]
        for epoch, order in enumerate(orders):
            for b, batch in enumerate(np.split(order, s.minibatches)):
                lesson = self.lesson(seen, outcomes, targets, rollout, batch)
                number = (self.done * s.epochs + epoch) * s.minibatches + b
                rows.append(self.gradient_step(lesson, self.lr(number)))
        valid = np.stack([outcome.valid for outcome in outcomes])
        metrics = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        return metrics | {"target": float(np.stack(targets)[valid].mean())}

    def targets(self, outcomes: list[Outcome], values: list[Array]) -> list[Array]:
        """λ-returns of consecutive steps, [N] or [N, M] each; `values` are those after each step."""
        found = []
        for t in range(len(outcomes)):
            later = outcomes[t:]
            target = np.empty_like(values[t])
            for n in range(len(target)):
                reward, done, rest = ([getattr(o, name)[n] for o in later] for name in ("reward", "done", "rest"))
                target[n] = lambda_return(reward, [v[n] for v in values[t:]], done, rest, self.s.gamma, self.s.lam)
            found.append(target)
        return found

    def lesson(
        self,
        line: list[tuple[Any, Inputs]],
        outcomes: list[Outcome],
        targets: list[Array],
        rollout: Rollout,
        batch: Array,
    ) -> Lesson:
        """The segments numbered in `batch`: number k·N + n is piece k of environment n.

        `line` starts W steps before the rollout: its entry t is the first that a piece from step t on reads. It ends
        with what was seen after the rollout.
        """
        s = self.s
        pieces = [(number // s.envs * s.segment, number % s.envs) for number in batch]

        def across(of: Callable[[int], Array]) -> Array:  # [B, ...]
            return np.stack([of(t)[n] for t, n in pieces])

        def along(of: Callable[[int], Array], count: int) -> Array:  # [count, B, ...]
            return np.stack([across(lambda t, i=i: of(t + i)) for i in range(count)])

        reach = s.burn_in + s.segment + s.joint
        inputs = Inputs(*(along(lambda t, f=f: line[t][1][f], reach) for f in range(4)))
        memory = [
            tuple(across(lambda t, k=k, p=p: line[t][0][k][p]) for p in range(len(layer)))
            for k, layer in enumerate(self.memory)
        ]
        of_batch = [
            Outcome(*(across(lambda t, f=f, i=i: outcomes[t + i][f]) for f in range(len(Outcome._fields))))
            for i in range(s.segment)
        ]
        target = along(lambda t: targets[t], s.segment)
        avail, world = (
            [*(getattr(outcome, name) for outcome in outcomes), getattr(rollout.last, name)]
            for name in ("avail", "world")
        )
        beyond = (across(lambda t: avail[t + s.segment]), across(lambda t: world[t + s.segment]))
        return Lesson(inputs, memory, of_batch, target, across(lambda t: rollout.values[t + s.segment]), beyond)

    def gradient_step(self, lesson: Lesson, lr: float) -> dict[str, float]:
        """One step of the optimiser; returns what is reported of it."""
        target = self.fresh_targets(lesson) if self.s.fresh_targets else lesson.target
        total, mean_q, stats = self.loss(single(self.params), lesson, target)
        grads = gradient(lambda params: self.loss(params, lesson, target)[0], self.params)
        self.params = self.optimizer.step(self.params, clipped(grads, self.s.max_grad_norm), lr)
        self.stats = stats
        return {"loss": float(total[0]), "q": mean_q, "grad_norm": norm(grads)}

    def fresh_targets(self, lesson: Lesson) -> Array:
        """λ-returns within the segments, from what the present network says of them."""
        _, q, _ = self.network(single(self.params), self.stats, lesson.memory, lesson.inputs, train=True)
        q = q[0, self.s.burn_in :]
        values = [self.value(q[i], o.avail, o.world) for i, o in enumerate(lesson.outcomes)]
        after = self.value(q[-1], *lesson.beyond) if self.s.joint else lesson.after
        return np.stack(self.targets(lesson.outcomes, [*values[1:], after]))

    def loss(self, params: Params, lesson: Lesson, target: Array) -> tuple[Array, float, Stats]:
        """½ (R − Q)², a mean over what counts, plus the ℓ2 terms: [P]. Also the mean Q, and the new statistics."""
        memory, inputs, outcomes = lesson.memory, lesson.inputs, lesson.outcomes
        _, q, stats = self.network(params, self.stats, memory, inputs, train=True)
        q = q[:, self.s.burn_in :][:, : self.s.segment]
        action, valid, world = (np.stack([getattr(o, name) for o in outcomes]) for name in ("action", "valid", "world"))
        chosen = np.take_along_axis(q, action[None, ..., None], axis=-1)[..., 0]  # [P, L, B, M]
        can_act = np.stack([o.avail.any(-1) for o in outcomes])
        values = self.network.mix(params, np.where(can_act, chosen, 0.0), world)  # [P, L, B] or [P, L, B, M]
        counts = valid if self.network.joint else valid[..., None] & can_act
        number = max(counts.sum(), 1)
        squares = np.where(counts, (target - values) ** 2, 0.0).reshape(len(values), -1)
        total = 0.5 * squares.sum(-1) / number + self.penalty(params)
        return total, float(np.where(counts, values[0].real, 0.0).sum() / number), stats

    def penalty(self, params: Params) -> Array:
        """½‖w‖² of the last layer's kernels and of all the others, each with its coefficient."""
        total: Any = 0.0
        for name, value in params.items():
            if name.endswith(".kernel"):
                final = name in ("q.kernel", "advantage.kernel", "value.kernel")
                weight = self.s.l2_final if final else self.s.l2_inner
                total = total + 0.5 * weight * (value**2).reshape(len(value), -1).sum(-1)
        return total


def single(params: Params) -> Params:
    """The parameters as the only variant of themselves."""
    return {name: value[None] for name, value in params.items()}


def global_state(obs: Array, world: Array | None) -> Array:
    """What QMIX mixes by: the global state or, where there is none, all that the agents see."""
    return obs.reshape(len(obs), -1) if world is None else world
