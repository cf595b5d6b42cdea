"""Collecting a rollout from simulators on the CPU: the data of `rollout.collect`, step for step, without its loop.

While the actions of one group of the pool are computed on the accelerator, another group steps. Parameters are constant
within a rollout, and every exploration draw of it is made beforehand, so neither the number of groups nor the order of
events can change the data.

An observation crosses to the device once, as an argument of the call that chooses an action from it. That call hands
it back as an array of the device, where it stays to be learned from when the rollout is complete. Of a stack of frames
only the newest crosses (`Shifted`): the others are there already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.base import Algorithm, Hyper, LearnerState
from pqn.device import over_seeds, start_fetching
from pqn.programs import rollout
from pqn.programs.simulators.pool import Pool, Share
from pqn.programs.simulators.records import Collected, Cutting, Draws, Part, Seen, Shifted, Stream, Track
from pqn.types import Array, Draw, EpisodeStats, Inputs, Note, Policy, PyTree, Rollout, TimeStep

Turns = Generator[None, None, Part]

# Seconds after which a thread that waits for Python's lock asks for it. Threads of groups hold it for a millisecond at
# most, but meanwhile the simulators of another one have nothing to do.
PATIENCE = 5e-5


class Collector:
    """The compiled pieces of collection for one algorithm and one layout of the pool.

    Args:
      algorithm: whose actor acts.
      num_seeds, num_train: S and N.
      shares: the groups.
      blank: a time step of each group [S, n, ...], for its structure.
      epsilon: of the greedy environments beside training.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        num_seeds: int,
        num_train: int,
        shares: list[Share],
        blank: list[TimeStep],
        epsilon: float,
    ):
        config, spec = algorithm.config.learner, algorithm.spec
        self.algorithm, self.actor, self.agents = algorithm, algorithm.actor, spec.num_agents
        self.num_seeds, self.num_train, self.shares = num_seeds, num_train, shares
        self.steps, self.length, self.burn_in = config.rollout_steps, algorithm.config.segment_length, config.burn_in
        self.bootstraps = spec.truncates and config.bootstrap_truncation
        self.blank, self.epsilon = blank, epsilon
        self.act = [jax.jit(over_seeds_but_last(self.act_one(share), num_seeds)) for share in shares]
        self.draw = jax.jit(over_seeds_but_last(self.draw_one, num_seeds))
        self._final_values = jax.jit(over_seeds(self.final_values_one, num_seeds))
        self.times = [jnp.int32(t) for t in range(self.steps)]  # on the device: even a number takes time to get there
        self._no_final_values = jnp.zeros((num_seeds, self.steps, num_train, *self.actor.value_shape))

    # --- one seed, compiled -----------------------------------------------------------------------------------------

    def act_one(self, share: Share) -> Callable[..., tuple[PyTree, Array, Note, PyTree]]:
        """Step t's actions [n, M] of a group; the carry after it, the notes, and what was seen, to be kept."""

        def act(policy: Policy, seen: Seen, uniform: Array, epsilon: Array) -> tuple[PyTree, Array, Note]:
            return self.actor.act(policy, seen.carry, seen.read(self.actor), Draw(uniform, epsilon))

        def both(
            policy: Policy, seen: Seen, uniform: Array, epsilon: Array, t: Array
        ) -> tuple[PyTree, Array, Note, PyTree]:
            # How a matrix product rounds may depend on how many rows it has, so those who play beside training are
            # computed apart: with or without them, training is the same to the bit.
            if isinstance(seen.obs, Shifted):
                before, newest = seen.obs
                seen = seen._replace(obs=jnp.concatenate([before[:, :, 1:], newest[:, :, None]], axis=2))
            parts = [slice(0, share.num_train), slice(share.num_train, share.size)]
            args = (seen, uniform[t], epsilon)
            outs = [act(policy, *jax.tree.map(lambda x, p=p: x[p], args)) for p in parts if p.stop > p.start]
            # The barrier makes what is kept a result of its own: never the simulator's memory under another name.
            kept = jax.lax.optimization_barrier((seen.obs, seen.avail, seen.world))
            return *jax.tree.map(lambda *x: jnp.concatenate(x), *outs), kept

        return both

    def draw_one(self, key: Array, state: LearnerState, hyper: Hyper) -> Draws:
        """The draws of a rollout; those of training do not depend on who plays beside it."""
        agents, beside = self.agents, self.shares[-1].beside.stop
        shape = (self.steps // self.length, self.length, self.num_train, agents)  # as `rollout.collect` draws them
        train = jax.random.uniform(key, shape).reshape(self.steps, self.num_train, agents)
        others = jax.random.uniform(jax.random.fold_in(key, 1), (self.steps, beside, agents))
        epsilon = jnp.broadcast_to(self.algorithm.epsilon(state, hyper), (self.num_train, 1))
        greedy = jnp.full((beside, 1), self.epsilon)
        return Draws(
            tuple(jnp.concatenate([train[:, s.train], others[:, s.beside]], axis=1) for s in self.shares),
            tuple(jnp.concatenate([epsilon[s.train], greedy[s.beside]]) for s in self.shares),
        )

    def final_values_one(self, policy: Policy, seen: Seen, step: Array, env: Array) -> Array:
        """V of P final observations, each at its place in [T, N]; a place outside of it is padding."""
        values = self.actor.value(policy, seen.carry, seen.read(self.actor))
        return jnp.zeros((self.steps, self.num_train, *self.actor.value_shape)).at[step, env].set(values, mode="drop")

    def pack_one(self, collected: Collected, hyper: Hyper) -> tuple[Rollout, EpisodeStats, Inputs, rollout.Finished]:
        """The rollout that the learner knows; the open episodes and the window after it; the episodes that ended."""
        stream, tracks = collected.stream, collected.tracks
        stack = lambda arrays: jax.tree.map(lambda *x: jnp.stack(x), *arrays)  # noqa: E731
        records = self._join([self._records(track, stack) for track in tracks], axis=1)
        carries = self._join([stack(track.carries) for track in tracks], axis=1)
        last_value = self._join([track.note[-1].value for track in tracks], axis=0)
        data = rollout.assemble(records, carries, stream.window, last_value, collected.final_value, hyper)
        over, infos = self._join([(track.over, track.info) for track in tracks], axis=1)
        episode, finished = self._count(stream.episode, records, over, infos)
        return data, episode, rollout.last_steps(records, self.burn_in), jax.tree.map(jnp.sum, finished)

    def _join(self, groups: list[Any], axis: int) -> Any:
        """The training environments, which come first along `axis` in each group, of all groups."""
        cut = lambda x, share: jax.lax.slice_in_dim(x, 0, share.num_train, axis=axis)  # noqa: E731
        trains = [
            jax.tree.map(lambda x, share=share: cut(x, share), group)
            for group, share in zip(groups, self.shares, strict=True)
        ]
        return jax.tree.map(lambda *x: jnp.concatenate(x, axis=axis), *trains)

    def _records(self, track: Track, stack: Callable[[list], Any]) -> rollout.StepRecord:
        """A group's steps as the compiled collector would have recorded them, [T, n, ...]."""
        last_action, last_reward = track.before
        past = (
            jnp.concatenate([last_action[None], track.action[:-1]]),
            jnp.concatenate([last_reward[None], track.reward[:-1]]),
        )
        first: Any = track.first
        obs = stack(track.obs)
        fields: dict[str, Any] = {
            "inputs": jax.vmap(self.actor.inputs)(obs, first, *past),
            "avail": stack(track.avail),
            "world": jax.vmap(self.actor.world)(obs, stack(track.world)),
            "action": track.action,
            "reward": track.reward,
            "done": track.terminated | track.truncated,
            "bootstrap": track.truncated if self.bootstraps else None,
            "slot": None,
            "note": stack(track.note[:-1]),
            "valid": track.valid,
        }
        return rollout.StepRecord(**fields)

    def _count(
        self, episode: EpisodeStats, records: rollout.StepRecord, over: Array, infos: dict[str, Array]
    ) -> tuple[EpisodeStats, rollout.Finished]:
        def step(c: tuple, xs: tuple) -> tuple[tuple, None]:
            reward, over, valid, info = xs
            timestep = TimeStep(jnp.zeros(()), over, reward, over, over, info=info, valid=valid)
            return rollout.count_episodes(c[0], c[1], timestep), None

        zero = jnp.zeros(self.num_train)
        blank = rollout.Finished(zero, zero, zero, dict.fromkeys(infos, zero))
        return jax.lax.scan(step, (episode, blank), (records.reward, over, records.valid, infos))[0]

    # --- the host's part --------------------------------------------------------------------------------------------

    def start(self, timesteps: list[TimeStep]) -> Stream:
        """The stream at the start of all episodes."""
        agents, seen = self.agents, []
        for timestep, share in zip(timesteps, self.shares, strict=True):
            shape = (self.num_seeds, share.size, agents)
            seen.append(Seen.of(timestep, np.zeros(shape, np.int32), self.actor.initial_carry(*shape)))
        # Nothing came before: the window repeats the first observation, and `first` clears the memory at each of them.
        inputs = [jax.vmap(self.actor.inputs)(one.obs, one.first, one.last_action, one.last_reward) for one in seen]
        repeat = lambda x: jnp.repeat(x[:, None], self.burn_in, axis=1)  # noqa: E731
        window = jax.tree.map(repeat, self._join(inputs, axis=1))
        zero: Any = np.zeros((self.num_seeds, self.num_train), np.float32)
        carries = tuple(one.carry if self.burn_in else () for one in seen)
        return Stream(tuple(seen), EpisodeStats(zero, zero), window, carries)

    def collect(
        self, pool: Pool, policy: Policy, stream: Stream, draws: Draws, meanwhile: Callable[[], Any] = lambda: None
    ) -> Collected:
        """Steps every group T times with `policy`.

        Args:
          meanwhile: called whenever a group's actions have been put to work, to queue other work behind them. Where
            simulators have threads of their own, several threads call it.

        Raises:
          EnvFailed: an environment did.
        """
        turns = [self._turns(pool, g, policy, stream, draws, meanwhile) for g in range(len(self.shares))]
        # Simulators that step beside the caller get a thread for each group: whichever is done goes on at once.
        parts = _side_by_side(turns) if pool.concurrent else _in_turn(turns)
        after = stream._replace(
            seen=tuple(part.seen for part in parts), window_carry=tuple(part.window_carry for part in parts)
        )
        final_value = self._final(policy, [cut for part in parts for cut in part.cuts])
        return Collected(tuple(part.track for part in parts), final_value, after)

    def _turns(
        self, pool: Pool, g: int, policy: Policy, stream: Stream, draws: Draws, meanwhile: Callable[[], Any]
    ) -> Turns:
        """T steps of one group, with a pause whenever its actions have been put to work."""
        seen, window_carry, cuts = stream.seen[g], stream.window_carry[g], []
        track = self._blank_track(g, seen)
        for t in range(self.steps):
            if t % self.length == 0:
                track.carries.append(window_carry if self.burn_in else seen.carry)
            if self.burn_in and t % self.length == self.length - self.burn_in:
                window_carry = seen.carry  # the next segment's memory starts from here
            carry, action, note, kept = self.act[g](policy, seen, draws.uniform[g], draws.epsilon[g], self.times[t])
            start_fetching(action)
            track.keep(t, seen, note, kept)
            meanwhile()
            yield
            track.action[:, t] = np.asarray(action)
            with pool.under_way:
                pool.send(g, track.action[:, t])
                timestep = pool.recv(g)
            track.put(t, timestep)
            if self.bootstraps:
                cuts += self._cuts(t, g, timestep, track.action[:, t], carry)
            seen = Seen.of(timestep, action, carry)
            if pool.stacks and not np.any(timestep.over):
                seen = seen._replace(obs=Shifted.of(kept[0], seen.obs))
        # V(s_T), by the very program that valued the other steps.
        _, _, note, kept = self.act[g](policy, seen, draws.uniform[g], draws.epsilon[g], self.times[-1])
        track.note.append(note)
        seen = seen._replace(obs=kept[0], avail=kept[1], world=kept[2])
        return Part(track, seen, window_carry, cuts)

    def _blank_track(self, g: int, seen: Seen) -> Track:
        share, agents, blank = self.shares[g], self.agents, self.blank[g]
        shape = (self.num_seeds, self.steps, share.size)
        flags = lambda: np.empty(shape, bool)  # noqa: E731
        return Track(
            obs=[],
            avail=[],
            world=[],
            note=[],
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
        first = np.zeros_like(timestep.first)
        final = Seen(
            timestep.final_obs, timestep.final_avail, timestep.final_world, first, action, timestep.reward, carry
        )
        return [
            Cutting(int(s), t, share.train.start + int(i), jax.tree.map(lambda x, s=s, i=i: np.array(x[s, i]), final))
            for s, i in np.argwhere(truncated)
        ]

    def _final(self, policy: Policy, cuts: list[Cutting]) -> Any:
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
        return self._final_values(policy, seen, step.astype(np.int32), env.astype(np.int32))


def _in_turn(groups: list[Turns]) -> list[Part]:
    """Runs all groups in this thread, each to its next pause."""
    parts: dict[Turns, Part] = {}
    while len(parts) < len(groups):
        for group in groups:
            if group not in parts:
                try:
                    next(group)
                except StopIteration as end:
                    parts[group] = end.value
    return [parts[group] for group in groups]


def _side_by_side(groups: list[Turns]) -> list[Part]:
    """Runs every group in a thread of its own; when one fails, or this thread is interrupted, the others stop."""
    stop = Event()

    def run(group: Turns) -> Any:
        try:
            while not stop.is_set():
                next(group)
        except StopIteration as end:
            return end.value
        except BaseException:
            stop.set()
            raise

    interval = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE)
    with ThreadPoolExecutor(len(groups)) as pool:
        futures = [pool.submit(run, group) for group in groups]
        try:
            wait(futures)
        finally:
            stop.set()
            sys.setswitchinterval(interval)
    return [future.result() for future in futures]


def over_seeds_but_last(function: Callable[..., Any], seeds: int) -> Callable[..., Any]:
    """`over_seeds` of a function whose last argument has no axis of seeds."""
    if seeds == 1:  # spared the loop around it, which is a good part of so short a program
        squeeze = lambda tree: jax.tree.map(lambda x: x[0], tree)  # noqa: E731
        return lambda *args: jax.tree.map(lambda x: x[None], function(*squeeze(args[:-1]), args[-1]))
    return lambda *args: over_seeds(lambda *one: function(*one, args[-1]), seeds)(*args[:-1])
