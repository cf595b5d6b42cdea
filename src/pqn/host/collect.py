"""Collecting a rollout from simulators on the CPU: the data of `rollout.collect`, step for step, without its loop.

The groups of the pool take turns. In a turn, a group's step is received and its next actions are put to work on the
accelerator while another group steps. Parameters are constant within a rollout, and every exploration draw of it is
made beforehand, so neither the number of groups nor the order of events can change the data.

An observation crosses to the device once. It stays there: acted on first, learned from when the rollout is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pqn import rollout
from pqn.device import over_seeds, to_device
from pqn.exploration import epsilon_greedy
from pqn.host.pool import Pool, Share
from pqn.learner import Hyper, Learner, LearnerState
from pqn.types import Array, EpisodeStats, Inputs, PyTree, Rollout, TimeStep


class Seen(NamedTuple):
    """What the agents of one group see: all that their next action depends on."""

    obs: Any  # [S, n, M, ...] on the device
    avail: Any
    world: Any  # [S, n, W], where the mixer reads it
    first: Any  # [S, n, M]
    last_action: Any  # [S, n, M]
    last_reward: Any  # [S, n]
    carry: PyTree  # [S, n, M, ...] recurrent state before `obs` is read

    def inputs(self, learner: Learner) -> Inputs:
        return learner.inputs(self.obs, self.first, self.last_action, self.last_reward)


class Stream(NamedTuple):
    """Where collection stands between two rollouts."""

    seen: tuple[Seen, ...]  # of each group
    episode: EpisodeStats  # [S, N]
    window: Inputs  # [S, W, N, M, ...] the last W (burn-in) steps
    window_carry: tuple[PyTree, ...]  # of each group, recurrent state before them; () when W is 0


class Track(NamedTuple):
    """T steps of one group. The lists are of arrays on the device, the rest is collected on the host."""

    obs: list[Any]  # T of [S, n, M, ...]
    avail: list[Any]
    world: list[Any]
    value: list[Array]  # T + 1 of [S, n], the last one after the last step
    carries: list[PyTree]  # T/L of [S, n, M, ...]
    before: tuple[Any, Any]  # action and reward that led to the first observation
    action: np.ndarray  # [S, T, n, M]
    first: np.ndarray  # [S, T, n, M]
    reward: np.ndarray  # [S, T, n]
    terminated: np.ndarray
    truncated: np.ndarray
    over: np.ndarray
    valid: np.ndarray | None
    info: dict[str, np.ndarray]

    def put(self, t: int, timestep: TimeStep) -> None:
        self.reward[:, t] = timestep.reward
        self.terminated[:, t] = timestep.terminated
        self.truncated[:, t] = timestep.truncated
        self.over[:, t] = timestep.over
        if self.valid is not None:
            self.valid[:, t] = timestep.valid
        for name, values in self.info.items():
            values[:, t] = timestep.info[name]


class Collected(NamedTuple):
    """A rollout as it lies when the last step has been received."""

    tracks: tuple[Track, ...]
    final_value: Any  # [S, T, N] V(final_obs) where a step was truncated; None if that is never asked for
    stream: Stream  # after the last step, but for `episode` and `window`, which `pack` brings up to date


class Draws(NamedTuple):
    """All chance of a rollout, for each group."""

    uniform: tuple[Array, ...]  # [S, T, n, M]
    epsilon: tuple[Array, ...]  # [S, n, 1]


class Cutting(NamedTuple):
    """A truncated step: where it was, and what its value is to be bootstrapped from."""

    seed: int
    step: int
    env: int  # among the N of its seed
    seen: Seen  # of that one environment


class Collector:
    """The compiled pieces of collection for one learner and one layout of the pool.

    Args:
      learner: whose network acts.
      num_seeds, num_train: S and N.
      shares: the groups.
      blank: a time step of each group [S, n, ...], for its structure.
      epsilon: of the greedy environments beside training.
    """

    def __init__(
        self,
        learner: Learner,
        num_seeds: int,
        num_train: int,
        shares: list[Share],
        blank: list[TimeStep],
        epsilon: float,
    ):
        config = learner.config.learner
        self.learner, self.num_seeds, self.num_train, self.shares = learner, num_seeds, num_train, shares
        self.steps, self.length, self.burn_in = config.rollout_steps, learner.config.segment_length, config.burn_in
        self.bootstraps = learner.spec.truncates and config.bootstrap_truncation
        self.reads_world = config.mixer == "qmix"
        self.blank, self.epsilon = blank, epsilon
        self.act = [jax.jit(over_seeds_but_last(self.act_one(share), num_seeds)) for share in shares]
        self.draw = jax.jit(
            lambda keys, state, hyper: over_seeds(lambda *one: self.draw_one(*one, hyper), num_seeds)(keys, state)
        )
        self._final_values = jax.jit(over_seeds(self.final_values_one, num_seeds))
        self._no_final_values = to_device(
            np.zeros((num_seeds, self.steps, num_train, *learner.value_shape), np.float32)
        )

    # --- one seed, compiled -----------------------------------------------------------------------------------------

    def act_one(self, share: Share) -> Callable[..., tuple[PyTree, Array, Array]]:
        """Step t's actions [n, M] of a group, with the carry after it and the values [n]."""

        def act(state: LearnerState, seen: Seen, uniform: Array, epsilon: Array) -> tuple[PyTree, Array, Array]:
            carry, q = self.learner.q_values(state, seen.carry, seen.inputs(self.learner))
            return carry, epsilon_greedy(uniform, q, seen.avail, epsilon), self.value(state, seen, q)

        def both(
            state: LearnerState, seen: Seen, uniform: Array, epsilon: Array, t: Array
        ) -> tuple[PyTree, Array, Array]:
            # How a matrix product rounds may depend on how many rows it has, so those who play beside training are
            # computed apart: with or without them, training is the same to the bit.
            parts = [slice(0, share.num_train), slice(share.num_train, share.size)]
            args = (seen, uniform[t], epsilon)
            outs = [act(state, *jax.tree.map(lambda x, p=p: x[p], args)) for p in parts if p.stop > p.start]
            return jax.tree.map(lambda *x: jnp.concatenate(x), *outs)

        return both

    def draw_one(self, key: Array, state: LearnerState, hyper: Hyper) -> Draws:
        """The draws of a rollout; those of training do not depend on who plays beside it."""
        agents, beside = self.learner.spec.num_agents, self.shares[-1].beside.stop
        shape = (self.steps // self.length, self.length, self.num_train, agents)  # as `rollout.collect` draws them
        train = jax.random.uniform(key, shape).reshape(self.steps, self.num_train, agents)
        others = jax.random.uniform(jax.random.fold_in(key, 1), (self.steps, beside, agents))
        eps = jnp.concatenate([
            jnp.broadcast_to(self.learner.epsilon(state, hyper), (self.num_train, 1)), jnp.full((beside, 1), self.epsilon)
        ])  # fmt: skip
        uniform = jnp.concatenate([train, others], axis=1)
        pick = lambda x, share, axis: jnp.concatenate([  # noqa: E731
            jax.lax.slice_in_dim(x, share.train.start, share.train.stop, axis=axis),
            jax.lax.slice_in_dim(x, self.num_train + share.beside.start, self.num_train + share.beside.stop, axis=axis),
        ], axis=axis)  # fmt: skip
        return Draws(
            tuple(pick(uniform, share, 1) for share in self.shares), tuple(pick(eps, share, 0) for share in self.shares)
        )

    def final_values_one(self, state: LearnerState, seen: Seen, step: Array, env: Array) -> Array:
        """V of P final observations, each at its place in [T, N]; a place outside of it is padding."""
        _, q = self.learner.q_values(state, seen.carry, seen.inputs(self.learner))
        values = self.value(state, seen, q)
        return jnp.zeros((self.steps, self.num_train, *self.learner.value_shape)).at[step, env].set(values, mode="drop")

    def value(self, state: LearnerState, seen: Seen, q: Array) -> Array:
        return self.learner.value(state.params, q, seen.avail, self.learner.world(seen.obs, seen.world))

    def pack_one(self, collected: Collected, hyper: Hyper) -> tuple[Rollout, EpisodeStats, Inputs, rollout.Finished]:
        """The rollout that the learner knows, the open episodes and the window after it, and the episodes that ended."""
        stream, tracks = collected.stream, collected.tracks
        records = [self._records(track, share) for track, share in zip(tracks, self.shares, strict=True)]
        records = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *records)
        carries = [
            jax.tree.map(lambda *x, n=share.num_train: jnp.stack([each[:n] for each in x]), *track.carries)
            for track, share in zip(tracks, self.shares, strict=True)
        ]
        carries = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *carries)
        last_value = jnp.concatenate(
            [track.value[-1][: share.num_train] for track, share in zip(tracks, self.shares, strict=True)]
        )
        data = rollout.assemble(records, carries, stream.window, last_value, collected.final_value, hyper)
        episode, finished = self._count(stream.episode, records, tracks)
        return data, episode, rollout.last_steps(records, self.burn_in), jax.tree.map(jnp.sum, finished)

    def _records(self, track: Track, share: Share) -> rollout.StepRecord:
        """The training environments of a group, [T, n, ...]."""
        n = share.num_train
        action, reward = (
            jnp.concatenate([before[None], x])
            for before, x in zip(track.before, (track.action, track.reward), strict=True)
        )
        stack = lambda arrays: jax.tree.map(lambda *x: jnp.stack([each[:n] for each in x]), *arrays)  # noqa: E731
        obs = stack(track.obs)
        return rollout.StepRecord(
            inputs=jax.vmap(self.learner.inputs)(obs, track.first[:, :n], action[:-1, :n], reward[:-1, :n]),
            avail=stack(track.avail),
            world=jax.vmap(self.learner.world)(obs, stack(track.world)),
            action=action[1:, :n],
            reward=reward[1:, :n],
            done=(track.terminated | track.truncated)[:, :n],
            bootstrap=track.truncated[:, :n] if self.bootstraps else None,
            slot=None,
            value=stack(track.value[:-1]),
            valid=None if track.valid is None else track.valid[:, :n],
        )

    def _count(
        self, episode: EpisodeStats, records: rollout.StepRecord, tracks: tuple[Track, ...]
    ) -> tuple[EpisodeStats, rollout.Finished]:
        parts = [
            jax.tree.map(lambda x, n=share.num_train: x[:, :n], (track.over, track.info))
            for track, share in zip(tracks, self.shares, strict=True)
        ]
        over, infos = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)

        def step(c: tuple, xs: tuple) -> tuple[tuple, None]:
            reward, over, valid, info = xs
            timestep = TimeStep(jnp.zeros(()), over, reward, over, over, info=info, valid=valid)
            return rollout.count_episodes(*c, timestep), None

        zero = jnp.zeros(self.num_train)
        blank = rollout.Finished(zero, zero, zero, dict.fromkeys(infos, zero))
        return jax.lax.scan(step, (episode, blank), (records.reward, over, records.valid, infos))[0]

    # --- the host's part --------------------------------------------------------------------------------------------

    def start(self, timesteps: list[TimeStep]) -> Stream:
        """The stream at the start of all episodes."""
        seeds, agents, seen, windows = self.num_seeds, self.learner.spec.num_agents, [], []
        for timestep, share in zip(timesteps, self.shares, strict=True):
            shape = (seeds, share.size, agents)
            no_action = np.zeros(shape, np.int32)
            one = self._see(timestep, no_action, self.learner.network.initial_carry(*shape))
            seen.append(one)
            n = share.num_train
            inputs = jax.vmap(self.learner.inputs)(one.obs, one.first, one.last_action, one.last_reward)
            # Nothing came before: the window repeats the first observation, and `first` clears the memory at each.
            repeat = (
                lambda x, n=n: np.broadcast_to(  # noqa: E731
                    np.asarray(x)[:, None, :n], (seeds, self.burn_in, n, *x.shape[2:])
                )
            )
            windows.append(jax.tree.map(repeat, inputs))
        window = to_device(jax.tree.map(lambda *x: np.concatenate(x, axis=2), *windows))
        zero = np.zeros((seeds, self.num_train), np.float32)
        carries = tuple(one.carry if self.burn_in else () for one in seen)
        return Stream(tuple(seen), EpisodeStats(zero, zero), window, carries)

    def collect(
        self, pool: Pool, state: LearnerState, stream: Stream, draws: Draws, meanwhile: Callable[[], Any] = lambda: None
    ) -> Collected:
        """Steps every group T times with the policy of `state`.

        Args:
          meanwhile: called whenever a group's actions have been put to work, to queue other work behind them.

        Raises:
          EnvFailed: an environment did.
        """
        groups, turns = len(self.shares), len(self.shares) * self.steps
        tracks = [self._blank_track(g, stream.seen[g]) for g in range(groups)]
        seen, window_carry = list(stream.seen), list(stream.window_carry)
        acting: list[Any] = [None] * groups  # (carry after, action) of each group's coming or present step
        cuts: list[Cutting] = []
        sent = 0

        def decide(g: int, t: int) -> None:
            track, now = tracks[g], seen[g]
            if t % self.length == 0:
                track.carries.append(window_carry[g] if self.burn_in else now.carry)
            if self.burn_in and t % self.length == self.length - self.burn_in:
                window_carry[g] = now.carry  # the next segment's memory starts from here
            carry, action, value = self.act[g](state, now, draws.uniform[g], draws.epsilon[g], np.int32(t))
            action.copy_to_host_async()
            acting[g] = (carry, action)
            track.obs.append(now.obs)
            track.avail.append(now.avail)
            track.world.append(now.world)
            track.value.append(value)
            track.first[:, t] = now.first
            meanwhile()

        def send_until(turn: int) -> None:
            nonlocal sent
            for number in range(sent, min(turn + 1, turns)):
                t, g = divmod(number, groups)
                action = np.asarray(acting[g][1])
                tracks[g].action[:, t] = action
                pool.send(g, action)
                sent = number + 1

        for g in range(groups):
            decide(g, 0)
        for turn in range(turns):
            t, g = divmod(turn, groups)
            # A simulator without workers of its own computes in `recv`: then the others' actions are sent only
            # afterwards, so that the accelerator works on them meanwhile. One with workers should never run dry.
            send_until(turn + groups - 1 if pool.concurrent else turn)
            timestep = pool.recv(g)
            send_until(turn + groups - 1)
            carry, action = acting[g]
            tracks[g].put(t, timestep)
            if self.bootstraps:
                cuts += self._cuts(t, g, timestep, tracks[g].action[:, t], carry)
            seen[g] = self._see(timestep, action, carry)
            if t + 1 < self.steps:
                decide(g, t + 1)
        for g in range(groups):  # V(s_T), by the very program that valued the other steps
            _, _, value = self.act[g](state, seen[g], draws.uniform[g], draws.epsilon[g], np.int32(self.steps - 1))
            tracks[g].value.append(value)
        after = Stream(tuple(seen), stream.episode, stream.window, tuple(window_carry))
        return Collected(tuple(tracks), self._final(state, cuts), after)

    def _see(self, timestep: TimeStep, action: Any, carry: PyTree) -> Seen:
        obs, avail, world = to_device((timestep.obs, timestep.avail, timestep.world if self.reads_world else None))
        # The small ones are copied here: the simulator may overwrite its own when it is next told to step.
        return Seen(obs, avail, world, timestep.first.copy(), action, timestep.reward.copy(), carry)

    def _blank_track(self, g: int, seen: Seen) -> Track:
        share, agents, blank = self.shares[g], self.learner.spec.num_agents, self.blank[g]
        shape = (self.num_seeds, self.steps, share.size)
        flags = lambda: np.empty(shape, bool)  # noqa: E731
        return Track(
            obs=[],
            avail=[],
            world=[],
            value=[],
            carries=[],
            before=(seen.last_action, seen.last_reward),
            action=np.empty((*shape, agents), np.int32),
            first=np.empty((*shape, agents), bool),
            reward=np.empty(shape, np.float32),
            terminated=flags(),
            truncated=flags(),
            over=flags(),
            valid=None if blank.valid is None else flags(),
            info={name: np.empty(shape, np.float32) for name in blank.info},
        )

    def _cuts(self, t: int, g: int, timestep: TimeStep, action: np.ndarray, carry: PyTree) -> list[Cutting]:
        """What is needed of the environments truncated at this step; nothing is touched where none was."""
        share = self.shares[g]
        truncated = timestep.truncated[:, : share.num_train]
        if not truncated.any():
            return []
        carry = jax.tree.map(np.asarray, carry)
        world, first = timestep.final_world if self.reads_world else None, np.zeros_like(timestep.first)
        final = Seen(timestep.final_obs, timestep.final_avail, world, first, action, timestep.reward, carry)
        return [
            Cutting(int(s), t, share.train.start + int(i), jax.tree.map(lambda x, s=s, i=i: np.array(x[s, i]), final))
            for s, i in np.argwhere(truncated)
        ]

    def _final(self, state: LearnerState, cuts: list[Cutting]) -> Any:
        """V(final_obs) of the truncated steps [S, T, N]; the forward pass happens only if there are any."""
        if not self.bootstraps:
            return None
        if not cuts:
            return self._no_final_values
        by_seed: list[list[Cutting]] = [[] for _ in range(self.num_seeds)]
        for cut in cuts:
            by_seed[cut.seed].append(cut)
        # Padded to N, 2N, 4N, …: a few compiled sizes serve every number of truncations.
        size = self.num_train
        while size < max(map(len, by_seed)):
            size *= 2
        nowhere = cuts[0]._replace(step=self.steps)
        padded = [[*some, *[nowhere] * (size - len(some))] for some in by_seed]
        stack = lambda *x: np.stack(x).reshape(self.num_seeds, size, *np.shape(x[0]))  # noqa: E731
        seen = jax.tree.map(stack, *[cut.seen for some in padded for cut in some])
        step, env = (np.array([[getattr(c, name) for c in some] for some in padded]) for name in ("step", "env"))
        return self._final_values(state, seen, step.astype(np.int32), env.astype(np.int32))


def over_seeds_but_last(function: Callable[..., Any], seeds: int) -> Callable[..., Any]:
    """`over_seeds` of a function whose last argument has no axis of seeds."""
    return lambda *args: over_seeds(lambda *one: function(*one, args[-1]), seeds)(*args[:-1])
