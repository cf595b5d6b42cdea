"""PPO in numpy and float64, from Schulman et al. 2017 and 2016. Collecting is that of `oracle.pqn`.

Advantages are the sums that define them, probabilities are of the legal actions alone, and gradients are complex steps.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from oracle.networks import Array, Inputs, Memory, Network, Params, Stats, dense
from oracle.pqn import PQN, Lesson, Outcome, PPOSettings, Rollout, Settings, clipped, gradient, norm, single

METRICS = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clipped")


@dataclasses.dataclass(frozen=True)
class Reader(Network):
    """A network with linear outputs of these names."""

    heads: tuple[str, ...] = ()

    def _head(self, params: Params, x: Array) -> Array:
        outs = [dense(params, name, x) for name in self.heads]
        variants = max(len(out) for out in outs)
        return np.concatenate([np.broadcast_to(out, (variants, *out.shape[1:])) for out in outs], axis=-1)


class PPO(PQN):
    """An actor, and a critic that is another output of it, a network like it, or one that reads the global state."""

    def __init__(self, settings: Settings, params: Params, stats: Stats, world: Any):
        assert settings.ppo is not None
        self.p: PPOSettings = settings.ppo
        plain = {field.name: getattr(settings.network, field.name) for field in dataclasses.fields(Network)}
        shared, of_world = self.p.critic == "shared", self.p.critic == "world"
        self.actor = Reader(**plain, heads=("policy", "value") if shared else ("policy",))
        team = {"agents": 1, "last_action": False, "last_reward": False, "agent_id": False} if of_world else {}
        self.critic = None if shared else Reader(**plain | team, heads=("value",))
        self.joint = of_world or settings.network.agents == 1
        super().__init__(settings, params, stats, world)

    def blank_memory(self, envs: int | None = None) -> Memory:
        networks = [self.actor] if self.critic is None else [self.actor, self.critic]
        return [layer for one in networks for layer in one.blank_memory(envs or self.s.envs, one.agents)]

    def evaluate(
        self, params: Params, memory: Memory, inputs: Inputs, world: Array, train: bool
    ) -> tuple[Memory, Array, Array, Stats]:
        """Of a sequence: the memory after it, logits [P, T, B, M, A], values [P, T, B] or [..., M], new statistics."""
        split = len(self.actor.blank_memory(1))
        of_actor, of_critic = memory[:split], memory[split:]
        after, out, stats = self.actor(part(params, "actor"), part(self.stats, "actor"), of_actor, inputs, train)
        named = {f"actor.{name}": value for name, value in stats.items()}
        logits, values = out[..., : self.actor.actions], out[..., self.actor.actions :]
        if self.critic is not None:
            if self.p.critic == "world":
                first = inputs.first.any(-1, keepdims=True)
                inputs = Inputs(world[:, :, None], first, np.zeros(first.shape, int), inputs.last_reward)
            later, values, stats = self.critic(
                part(params, "critic"), part(self.stats, "critic"), of_critic, inputs, train
            )
            after = after + later
            named |= {f"critic.{name}": value for name, value in stats.items()}
        return after, logits, values[..., 0, 0] if self.joint else values[..., 0], named

    # --- collecting ---

    def choose(self, draws: Array, epsilon: float) -> tuple[Memory, Array, Array, Array]:
        one = Inputs(*(field[None] for field in self.inputs))
        memory, logits, values, _ = self.evaluate(single(self.params), self.memory, one, self.state[None], train=False)
        action, chance = np.zeros(draws.shape, np.int32), np.zeros(draws.shape)
        for where, u in np.ndenumerate(draws):
            legal = np.flatnonzero(self.avail[where])
            if not len(legal):  # the action is 0, and nobody's
                continue
            probability = softmax(logits[0, 0][where][legal])
            edges = probability.cumsum()
            rank = int((edges[:-1] <= u).sum())
            self.closest = min(self.closest, *np.abs(edges - u), 1.0)
            action[where], chance[where] = legal[rank], np.log(probability[rank])
        return memory, action, chance, values[0, 0]

    def worth(self, inputs: Inputs, avail: Array, world: Array) -> Array:
        one = Inputs(*(field[None] for field in inputs))
        return self.evaluate(single(self.params), self.memory, one, world[None], train=False)[2][0, 0]

    # --- learning ---

    def learn(self, rollout: Rollout, orders: Array) -> dict[str, float]:
        self.advantage_of = [self.advantages(rollout, t) for t in range(len(rollout.steps))]
        self.value_of = rollout.values[:-1]
        return super().learn(rollout, orders)

    def targets(self, outcomes: list[Outcome], values: list[Array]) -> list[Array]:
        return [a + v for a, v in zip(self.advantage_of, self.value_of, strict=True)]

    def advantages(self, rollout: Rollout, t: int) -> Array:
        """Σ_k (γλ)ᵏ δ_{t+k} up to the end of the episode, δ = r + γ V(s') − V(s): [N] or [N, M]."""
        s = self.s
        total = np.zeros_like(rollout.values[t])
        for n in range(len(total)):
            for k, step in enumerate(rollout.steps[t:]):
                o = step.outcome
                after = o.rest[n] if o.done[n] else rollout.values[t + k + 1][n]
                total[n] += (s.gamma * s.lam) ** k * (o.reward[n] + s.gamma * after - rollout.values[t + k][n])
                if o.done[n]:
                    break
        return total

    def lesson(self, line: Any, outcomes: Any, targets: Any, rollout: Any, batch: Array) -> Lesson:
        found = super().lesson(line, outcomes, targets, rollout, batch)
        pieces = [(number // self.s.envs * self.s.segment, number % self.s.envs) for number in batch]
        self.old_values, self.old_advantages = (
            np.stack([[of[t + i][n] for t, n in pieces] for i in range(self.s.segment)])
            for of in (self.value_of, self.advantage_of)
        )
        return found

    def gradient_step(self, lesson: Lesson, lr: float) -> dict[str, float]:
        totals, stats = self.losses(single(self.params), lesson)
        grads = gradient(lambda params: self.losses(params, lesson)[0]["loss"], self.params)
        self.params = self.optimizer.step(self.params, clipped(grads, self.s.max_grad_norm), lr)
        self.stats = stats
        return {name: float(np.real(totals[name][0])) for name in METRICS} | {"grad_norm": norm(grads)}

    def losses(self, params: Params, lesson: Lesson) -> tuple[dict[str, Array], Stats]:
        """The loss and its parts, each [P]."""
        p, outcomes = self.p, lesson.outcomes
        action, valid, world, avail, old = (
            np.stack([getattr(o, name) for o in outcomes]) for name in ("action", "valid", "world", "avail", "chance")
        )
        _, logits, values, stats = self.evaluate(params, lesson.memory, lesson.inputs, world, train=True)
        logits, values = logits[:, self.s.burn_in :], values[:, self.s.burn_in :]
        acts = valid[..., None] & avail.any(-1)  # [L, B, M]
        counts = valid if self.joint else acts
        advantage = self.old_advantages
        if p.normalize:
            seen = advantage[counts]
            advantage = (advantage - seen.mean()) / (seen.std() + 1e-8)
        weights = np.where(avail, np.exp(logits), 0.0)
        chance = weights / np.where(acts, weights.sum(-1), 1.0)[..., None]  # [P, L, B, M, A]
        logs = np.log(np.where(avail & acts[..., None], chance, 1.0))
        moved = np.take_along_axis(logs, action[None, ..., None], -1)[..., 0] - old
        ratio = np.exp(moved)
        inside = np.where(np.abs(ratio.real - 1) <= p.clip, ratio, np.where(ratio.real > 1, 1 + p.clip, 1 - p.clip))
        gain = advantage if advantage.ndim == 3 else advantage[..., None]
        worse = np.where((ratio * gain).real <= (inside * gain).real, ratio * gain, inside * gain)
        totals = {
            "policy_loss": -average(worse, acts),
            "value_loss": average(self.value_error(values, lesson.target), counts),
            "entropy": average(-(chance * logs).sum(-1), acts),
            "kl": average(ratio - 1 - moved, acts),
            "clipped": average((np.abs(ratio.real - 1) > p.clip).astype(float), acts),
        }
        total = totals["policy_loss"] + p.value_weight * totals["value_loss"] - p.entropy * totals["entropy"]
        return totals | {"loss": total}, stats

    def value_error(self, values: Array, target: Array) -> Array:
        error = (target - values) ** 2
        if self.p.clip_value:
            moved = values - self.old_values
            edge = np.sign(moved.real) * self.p.clip
            near = (target - self.old_values - np.where(np.abs(moved.real) <= self.p.clip, moved, edge)) ** 2
            error = np.where(near.real > error.real, near, error)
        return 0.5 * error


def average(x: Array, counts: Array) -> Array:
    """Mean of x [P, ...] over what counts: [P]."""
    counts = np.broadcast_to(counts, x.shape[1:])
    return np.where(counts, x, 0.0).reshape(len(x), -1).sum(-1) / max(counts.sum(), 1)


def softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def part(named: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(f"{prefix}."): value for name, value in named.items() if name.startswith(f"{prefix}.")}
