"""Q-learning from a buffer in numpy and float64: DQN, and PQN's loss on samples. Acting is that of `oracle.pqn`.

The buffer is a list of steps, a sample is a slice of it, and a return is the sum that defines it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.networks import Array, Inputs, Params, Stats
from oracle.pqn import (
    PQN,
    Lesson,
    Outcome,
    ReplaySettings,
    Rollout,
    Settings,
    clipped,
    gradient,
    lambda_return,
    legal_maximum,
    norm,
    single,
)

NOTHING = {"loss": 0.0, "q": 0.0, "target": 0.0, "grad_norm": 0.0}


class DQN(PQN):
    """Mnih et al. 2015, van Hasselt et al. 2016 (`double`); without a target network, targets are the network's own."""

    def __init__(self, settings: Settings, params: Params, stats: Stats, world: Any):
        super().__init__(settings, params, stats, world)
        assert settings.replay is not None
        self.r: ReplaySettings = settings.replay
        self.line: list[tuple[Inputs, Outcome]] = []  # the newest steps
        self.target = (params, stats)

    def learn(self, rollout: Rollout, orders: Array) -> dict[str, float]:
        s, r = self.s, self.r
        self.line = [*self.line, *((step.inputs, step.outcome) for step in rollout.steps)][-r.length :]
        if self.done % r.interval == 0:
            self.move_target()
        lived = (self.done + 1) * s.steps
        reach = s.burn_in + s.segment + r.n_step
        if lived * s.envs < r.start or lived < reach + (s.steps - 1 if r.fresh else 0):
            return NOTHING
        count = s.epochs * s.minibatches
        rows = [
            self.gradient_step(self.sequences(picks), self.lr(self.done * count + k)) for k, picks in enumerate(orders)
        ]
        return {name: float(np.mean([row[name] for row in rows])) for name in NOTHING}

    def move_target(self) -> None:
        def moved(old: Any, new: Any) -> Any:
            if isinstance(old, dict):
                return {name: moved(old[name], new[name]) for name in old}
            return old + self.r.rate * (new - old)

        self.target = tuple(moved(old, new) for old, new in zip(self.target, (self.params, self.stats), strict=True))

    def sequences(self, picks: Array) -> Lesson:
        """The sequences that start at the picked steps of the picked environments; their memory starts empty."""
        s = self.s
        reach = s.burn_in + s.segment + self.r.n_step
        assert all(0 <= start <= len(self.line) - reach for _, start in picks)

        def at(later: int, part: int, field: int) -> Array:  # [B, ...]
            return np.stack([self.line[start + later][part][field][env] for env, start in picks])

        inputs = Inputs(*(np.stack([at(i, 0, f) for i in range(reach)]) for f in range(4)))
        outcomes = [Outcome(*(at(i, 1, f) for f in range(len(Outcome._fields)))) for i in range(s.burn_in, reach)]
        memory = self.network.blank_memory(len(picks), self.network.agents)
        return Lesson(inputs, memory, outcomes, np.empty(0), np.empty(0), (np.empty(0), np.empty(0)))

    def gradient_step(self, lesson: Lesson, lr: float) -> dict[str, float]:
        target = self.wanted(lesson)
        total, mean_q, stats = self.loss(single(self.params), lesson, target)
        grads = gradient(lambda params: self.loss(params, lesson, target)[0], self.params)
        self.params = self.optimizer.step(self.params, clipped(grads, self.s.max_grad_norm), lr)
        self.stats = stats
        counts = self.counts(lesson)
        mean_target = np.where(counts, target, 0.0).sum() / max(counts.sum(), 1)
        return {"loss": float(total[0]), "q": mean_q, "target": float(mean_target), "grad_norm": norm(grads)}

    # --- targets ---

    def wanted(self, lesson: Lesson) -> Array:
        """The target of each step with a loss: [L, B], or of each agent."""
        s, r = self.s, self.r
        values = self.values(lesson)
        rewards, done, valid, cut = (
            np.stack([getattr(o, name) for o in lesson.outcomes]) for name in ("reward", "done", "valid", "cut")
        )
        found = np.zeros((s.segment, *values.shape[1:]))
        for t, b in np.ndindex(s.segment, rewards.shape[1]):
            # n steps, or all that the sequence has; but none whose successor is unknown, except the first.
            most = r.n_step if r.target_network else s.segment - t
            steps = [t]
            while len(steps) < most and valid[steps[-1] + 1, b] and not cut[steps[-1] + 1, b]:
                steps.append(steps[-1] + 1)
            found[t, b] = lambda_return(
                [rewards[i, b] for i in steps],
                [values[i + 1, b] for i in steps],
                [done[i, b] for i in steps],
                [0.0] * len(steps),
                s.gamma,
                1.0 if r.target_network else s.lam,
            )
        return found

    def values(self, lesson: Lesson) -> Array:
        """V of each step [L + n, B], or of each agent."""
        burn_in = self.s.burn_in
        avail, world = (np.stack([getattr(o, name) for o in lesson.outcomes]) for name in ("avail", "world"))
        _, own, _ = self.network(single(self.params), self.stats, lesson.memory, lesson.inputs, train=self.s.joint)
        if not self.r.target_network:
            return self.network.mix(single(self.params), legal_maximum(own[0, burn_in:], avail)[None], world)[0]
        params, stats = self.target
        _, says, _ = self.network(single(params), stats, lesson.memory, lesson.inputs, train=False)
        own, says = own[0, burn_in:], says[0, burn_in:]
        best = np.where(avail, own if self.r.double else says, -np.inf).argmax(-1)
        worth = np.where(avail.any(-1), np.take_along_axis(says, best[..., None], -1)[..., 0], 0.0)
        return self.network.mix(single(params), worth[None], world)[0]

    # --- loss ---

    def counts(self, lesson: Lesson) -> Array:
        """Which values the loss looks at, [L, B] or [L, B, M]: not those of steps whose successor is unknown."""
        outcomes = lesson.outcomes[: self.s.segment]
        known = np.stack([o.valid & ~o.cut for o in outcomes])
        return known if self.network.joint else known[..., None] & np.stack([o.avail.any(-1) for o in outcomes])

    def loss(self, params: Params, lesson: Lesson, target: Array) -> tuple[Array, float, Stats]:
        length = self.s.segment
        reach = None if self.s.joint else self.s.burn_in + length
        inputs = Inputs(*(part[:reach] for part in lesson.inputs))
        _, q, stats = self.network(params, self.stats, lesson.memory, inputs, train=True)
        q = q[:, self.s.burn_in :][:, :length]
        outcomes = lesson.outcomes[:length]
        action, world = (np.stack([getattr(o, name) for o in outcomes]) for name in ("action", "world"))
        chosen = np.take_along_axis(q, action[None, ..., None], axis=-1)[..., 0]
        can_act = np.stack([o.avail.any(-1) for o in outcomes])
        values = self.network.mix(params, np.where(can_act, chosen, 0.0), world)
        counts = self.counts(lesson)
        number = max(counts.sum(), 1)
        errors = np.where(counts, self.error(target - values), 0.0).reshape(len(values), -1)
        total = errors.sum(-1) / number + self.penalty(params)
        return total, float(np.where(counts, values[0].real, 0.0).sum() / number), stats

    def error(self, difference: Array) -> Array:
        """½ δ², and for Huber a straight line beyond |δ| = 1."""
        far = np.abs(difference.real) > 1.0 if self.r.huber else np.zeros(difference.shape, bool)
        return np.where(far, np.sign(difference.real) * difference - 0.5, 0.5 * difference**2)
