"""Collecting a rollout from simulators on the CPU: the same data as those of `rollout.collect`.

While the actions of one group are computed on the accelerator, another group steps. Parameters are constant within a
rollout, and all its random numbers are drawn before it. So neither the number of groups nor the order of events can
change the data.

An observation is sent to the device once, as an argument of the call that acts on it. That call returns it as an array
of the device, where it stays until it has been learned from. Of a stack of frames only the newest is sent (`Shifted`):
the others are on the device already.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from pqn.algorithms.base import Algorithm, Hyper, LearnerState
from pqn.device import over_seeds_but_last, start_fetching
from pqn.programs import rollout
from pqn.programs.simulators.acting import Act, act_of, draw_one
from pqn.programs.simulators.groups import Layout
from pqn.programs.simulators.joining import join_train
from pqn.programs.simulators.records import (
    Acted,
    Collected,
    Draws,
    GroupRollout,
    GroupSteps,
    Observed,
    Shifted,
    SimulatorStream,
    TruncatedStep,
    from_host,
)
from pqn.programs.simulators.simulators import Simulators
from pqn.programs.simulators.truncation import FinalValues, truncated_steps
from pqn.programs.simulators.turns import in_threads, in_turn
from pqn.types import Array, EpisodeStats, Policy, PyTree, TimeStep


class Collector:
    """The compiled functions of collection, for one algorithm and one layout.

    Args:
      algorithm: whose actor acts.
      layout: the groups, and the sizes of a rollout.
      example: a time step of a group, for the names of its infos.
      greedy_epsilon: ε of the greedy environments.
    """

    def __init__(self, algorithm: Algorithm, layout: Layout, example: TimeStep, greedy_epsilon: float):
        self.algorithm, self.actor, self.layout = algorithm, algorithm.actor, layout
        self._info, self._has_valid = list(example.info), example.valid is not None
        seeds, draw = layout.num_seeds, partial(draw_one, algorithm, layout, greedy_epsilon)
        self.act: list[Act] = [jax.jit(over_seeds_but_last(act_of(self.actor, g), seeds)) for g in layout.groups]
        self._draw = jax.jit(over_seeds_but_last(draw, seeds))
        self._final_values = FinalValues(self.actor, layout)
        self._times = [jnp.int32(t) for t in range(layout.steps)]  # on the device: to send a number takes time as well

    def start(self, timesteps: Sequence[TimeStep]) -> SimulatorStream:
        """The stream at the start of all episodes, from a time step of each group."""
        layout, observed = self.layout, []
        for timestep, group in zip(timesteps, layout.groups, strict=True):
            shape = (layout.num_seeds, group.size, layout.num_agents)
            no_action = from_host(np.zeros(shape, np.int32))
            observed.append(Observed.of(timestep, no_action, self.actor.initial_carry(*shape)))
        inputs = [jax.vmap(self.actor.inputs)(one.obs, one.first, one.last_action, one.last_reward) for one in observed]
        first_window = jax.vmap(partial(rollout.first_window, burn_in=layout.burn_in))
        window = first_window(join_train(inputs, layout.groups, axis=1))
        zero = from_host(np.zeros((layout.num_seeds, layout.num_train), np.float32))
        carries = tuple(one.carry if layout.burn_in else () for one in observed)
        return SimulatorStream(tuple(observed), EpisodeStats(zero, zero), window, carries)

    def draw(self, key: Array, state: LearnerState, hyper: Hyper) -> Draws:
        """The random numbers of a rollout, from a key for each seed."""
        return self._draw(key, state._replace(opt=()), hyper)

    def collect(
        self,
        simulators: Simulators,
        policy: Policy,
        stream: SimulatorStream,
        draws: Draws,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Collected:
        """Steps every group T times with `policy`.

        Args:
          meanwhile: called whenever the actions of a group have been sent to be computed, to queue other work behind
            them. Where simulators have threads of their own, several threads call it.

        Raises:
          EnvFailed: an environment failed.
        """
        turns = [self._step(simulators, g, policy, stream, draws, meanwhile) for g in range(len(self.layout.groups))]
        # Simulators with threads of their own need a thread for each group, which continues as soon as they are done.
        parts = in_threads(turns) if simulators.concurrent else in_turn(turns)
        after = stream._replace(
            observed=tuple(part.observed for part in parts), window_carry=tuple(part.window_carry for part in parts)
        )
        final_value = self._final_values.of(policy, [one for part in parts for one in part.truncated])
        return Collected(tuple(part.steps for part in parts), final_value, after)

    def _step(
        self,
        simulators: Simulators,
        g: int,
        policy: Policy,
        stream: SimulatorStream,
        draws: Draws,
        meanwhile: Callable[[], None],
    ) -> Generator[None, None, GroupRollout]:
        """T steps of group g, with a pause whenever its actions have been sent to be computed."""
        length, burn_in, act = self.layout.segment_length, self.layout.burn_in, self.act[g]
        observed, window_carry = stream.observed[g], stream.window_carry[g]
        steps, truncated = self._no_steps(g, observed), list[TruncatedStep]()
        for t, time in enumerate(self._times):
            if t % length == 0:
                steps.carries.append(window_carry if burn_in else observed.carry)
            if burn_in and t % length == length - burn_in:
                window_carry = observed.carry  # the next segment's memory starts from here
            acted = act(policy, observed, draws.uniform[g], draws.epsilon[g], time)
            start_fetching(acted.action)
            steps.add_acting(t, observed, acted)
            meanwhile()
            yield
            steps.action[:, t] = np.asarray(acted.action)
            with simulators.stepping:
                simulators.send(g, steps.action[:, t])
                timestep = simulators.recv(g)
            steps.add_outcome(t, timestep)
            if self.layout.bootstraps:
                action = steps.action[:, t]
                truncated += truncated_steps(t, self.layout.groups[g], timestep, action, acted.carry)
            observed = _after(simulators, timestep, acted)
        # V(s_T), computed by the same program as the values of the other steps.
        acted = act(policy, observed, draws.uniform[g], draws.epsilon[g], self._times[-1])
        steps.note.append(acted.note)
        return GroupRollout(steps, observed._replace(**acted.kept._asdict()), window_carry, truncated)

    def _no_steps(self, g: int, observed: Observed) -> GroupSteps:
        layout = self.layout
        shape = (layout.num_seeds, layout.steps, layout.groups[g].size)
        return GroupSteps(
            obs=[],
            avail=[],
            world=[],
            note=[],
            carries=[],
            last_action=observed.last_action,
            last_reward=observed.last_reward,
            action=np.empty((*shape, layout.num_agents), np.int32),
            first=np.empty((*shape, layout.num_agents), bool),
            reward=np.empty(shape, np.float32),
            terminated=np.empty(shape, bool),
            truncated=np.empty(shape, bool),
            over=np.empty(shape, bool),
            valid=np.empty(shape, bool) if self._has_valid else None,
            info={name: np.empty(shape, np.float32) for name in self._info},
        )

    def collected_shape(self, policy: Policy, stream: SimulatorStream, draws: Draws) -> Collected:
        """Shapes of a rollout, from the shapes of what it is collected with; nothing is stepped."""
        layout, groups = self.layout, []
        for g, observed in enumerate(stream.observed):
            given = (policy, observed, draws.uniform[g], draws.epsilon[g], self._times[0])
            note = jax.eval_shape(self.act[g], *given).note
            lists = {
                "obs": [observed.obs] * layout.steps,
                "avail": [observed.avail] * layout.steps,
                "world": [observed.world] * layout.steps,
                "note": [note] * (layout.steps + 1),
                "carries": [observed.carry] * (layout.steps // layout.segment_length),
            }
            groups.append(shapes_of(self._no_steps(g, observed))._replace(**lists))
        final_value = shapes_of(self._final_values.none) if layout.bootstraps else None
        return Collected(tuple(groups), final_value, stream)

    def compile_acting(self, simulators: Simulators, policy: Policy, stream: SimulatorStream, draws: Draws) -> None:
        """Calls `act` of every group once, since jit compiles at the first call and its calls are the fastest ones."""
        for g, (act, observed) in enumerate(zip(self.act, stream.observed, strict=True)):
            given = (draws.uniform[g], draws.epsilon[g], self._times[0])
            acted = jax.block_until_ready(act(policy, observed, *given))
            if simulators.stacks and not isinstance(observed.obs, Shifted):
                shifted = observed._replace(obs=Shifted.of(acted.kept.obs, observed.obs))
                jax.block_until_ready(act(policy, shifted, *given))


def _after(simulators: Simulators, timestep: TimeStep, acted: Acted) -> Observed:
    """What a group observed after a step. A stack follows from the one before, except where a game began."""
    observed = Observed.of(timestep, acted.action, acted.carry)
    if simulators.stacks and not np.any(timestep.over):
        return observed._replace(obs=Shifted.of(acted.kept.obs, timestep.obs))
    return observed


def shapes_of(tree: PyTree) -> PyTree:
    """Shapes and dtypes of the arrays of a tree."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), tree)
