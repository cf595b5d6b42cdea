"""`Agent`: a trained network that acts, `pqn.load("runs/…").act(obs)`.

A small network takes some ten microseconds for an observation, no longer than one operation of JAX that is called from
Python. So all of a call is one compiled program, from the observation as it was given to the action. What Python still
does is to check the arguments, with numpy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from pqn.algorithms.base import Actor
from pqn.errors import ObservationError
from pqn.exploration import epsilon_greedy
from pqn.fields import brief, checked
from pqn.options import Seed, Share
from pqn.types import Array, EnvSpec, Policy, PyTree

HostOrDevice = Array | np.ndarray


class _Memory(NamedTuple):
    """What an agent keeps from one call to the next, of B observations."""

    carry: PyTree  # [B, M, ...] of a recurrent network
    last_action: Array  # [B, M] int32


class _Chance(NamedTuple):
    """Random actions in the place of greedy ones."""

    seed: Array | np.uint32
    epsilon: Array | np.float32


class Agent:
    """Acts in B environments at once, keeping the memory of a recurrent network between calls.

    Attributes:
      spec: the environment it was trained for.
      config: the configuration it was trained with.
      step: environment steps it was trained for.
      policy: its weights.
      actor: how its algorithm acts with them.
      origin: the run and the checkpoint that it was loaded from: "path", "run", "checkpoint", "seed".
    """

    def __init__(self, actor: Actor, policy: Policy, step: int, origin: dict[str, object] | None = None):
        self.config, self.spec, self.step = actor.config, actor.spec, step
        self.policy, self.origin = policy, {"path": "an agent"} | (origin or {})
        self.actor = actor
        self._policy = jax.tree.map(jnp.asarray, policy)  # on the device from now on
        self._agents = (self.spec.num_agents,) if self.spec.num_agents > 1 else ()
        self._calls = 0
        self._turn = jax.jit(self._compute)
        self.reset()

    def __getstate__(self) -> dict[str, object]:
        """For `pickle` and `copy`: all but the compiled program, which is of this process."""
        return {name: value for name, value in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._turn = jax.jit(self._compute)

    def reset(self) -> None:
        """Forgets the memory of a recurrent network, as at the start of an episode."""
        self._batch: int | None = None  # of the memory; None right after a reset

    def q_values(self, obs: ArrayLike, *, first: ArrayLike | None = None, reward: ArrayLike = 0.0) -> np.ndarray:
        """Q-values of one observation, [A], or of a batch, [B, A] (with several agents [M, A] and [B, M, A]).

        An algorithm without Q-values, such as PPO, has the logarithms of its actions' probabilities here, up to a
        constant: the best action has the largest one, too.

        A network with memory remembers the observation, as with `act`: ask one of the two for each observation.

        Raises:
          ObservationError: what was given is not as the environment's spec says.
        """
        batch, single = self._batched(obs)
        # No action is taken: the last one is still that of the last call of `act`.
        carry, _, q = self._turn(*self._before(batch, first, reward), None, None)
        self._memory = self._memory._replace(carry=carry)
        return self._unbatch(q, single)

    def act(
        self,
        obs: ArrayLike,
        *,
        avail: ArrayLike | None = None,
        first: ArrayLike | None = None,
        reward: ArrayLike = 0.0,
        epsilon: float = 0.0,
        seed: int | None = None,
    ) -> int | np.ndarray:
        """The greedy action of one observation (an int) or of a batch ([B] int32).

        Args:
          obs: [*obs_shape] or [B, *obs_shape]; with several agents [M, *obs_shape] or [B, M, *obs_shape].
          avail: mask of legal actions, shaped like the Q-values; without it, all count as legal. Of several agents
            some may have none, and then get any action.
          first: [B] bool, where an episode starts; clears the memory of a recurrent network there.
          reward: [B] received with `obs`; only networks with `last_reward` look at it.
          epsilon: chance of a random legal action instead.
          seed: of those random actions; by default a fresh draw each call.

        Raises:
          ObservationError: what was given is not as the environment's spec says.
          ConfigError: `epsilon` or `seed` is out of bounds.
        """
        epsilon = 0.0 if _is_zero(epsilon) else checked("epsilon", Share, epsilon)
        seed = None if seed is None else checked("seed", Seed, seed)
        batch, single = self._batched(obs)
        mask = None if avail is None else _mask(avail, (*batch.shape[:2], self.spec.num_actions))
        before = self._before(batch, first, reward)
        self._calls += 1
        draw = np.uint32(self._calls if seed is None else seed)
        chance = _Chance(draw, np.float32(epsilon)) if epsilon else None  # the greedy program draws no numbers
        carry, action, _ = self._turn(*before, mask, chance)
        self._memory = _Memory(carry, action)
        action = self._unbatch(action, single)
        return action.item() if action.ndim == 0 else action

    def _batched(self, obs: ArrayLike) -> tuple[HostOrDevice, bool]:
        """obs as [B, M, *obs_shape], and whether it came without a batch axis."""
        spec, one = self.spec, (*self._agents, *self.spec.obs_shape)
        array = _finite(spec, obs)
        if (array.shape != one and array.shape[1:] != one) or not array.size:
            raise ObservationError(
                f"an observation of {spec.name} has shape {one}, or [B, ...] in a batch, not {array.shape}"
            )
        return array.reshape(-1, spec.num_agents, *spec.obs_shape), array.shape == one

    def _before(
        self, obs: HostOrDevice, first: ArrayLike | None, reward: ArrayLike
    ) -> tuple[Policy, _Memory, HostOrDevice, HostOrDevice, HostOrDevice]:
        """The arguments of `_compute` that do not choose the action. All are checked before any memory changes."""
        batch = len(obs)
        fresh = self._batch != batch
        received = None if _is_zero(reward) else _shaped("reward", reward, np.float32, (batch,))
        start = None if first is None else _shaped("first", first, bool, (batch, 1))
        if fresh:
            agents = self.spec.num_agents
            self._batch, self._no_reward, self._goes_on = batch, jnp.zeros(batch), jnp.zeros((batch, 1), bool)
            last_action = jnp.zeros((batch, agents), jnp.int32)
            self._memory = _Memory(self.actor.initial_carry(batch, agents), last_action)
        if start is None:
            start = np.ones((batch, 1), bool) if fresh else self._goes_on
        return self._policy, self._memory, obs, start, self._no_reward if received is None else received

    def _compute(
        self,
        policy: Policy,
        memory: _Memory,
        obs: Array,  # [B, M, *obs_shape]
        first: Array,  # [B, 1]
        reward: Array,  # [B]
        avail: Array | None,  # [B, M, A]
        chance: _Chance | None,
    ) -> tuple[PyTree, Array, Array]:
        """The new carry, actions [B, M] and scores [B, M, A]: the one compiled program of an agent."""
        first = jnp.broadcast_to(first, obs.shape[:2])
        inputs = self.actor.inputs(obs, first, memory.last_action, reward)
        carry, q = self.actor.scores(policy, memory.carry, inputs)
        if chance is None:
            return carry, epsilon_greedy(jnp.ones(q.shape[:2]), q, avail, 0.0), q
        uniform = jax.random.uniform(jax.random.key(chance.seed), q.shape[:2])
        return carry, epsilon_greedy(uniform, q, avail, jnp.asarray(chance.epsilon)), q

    def _unbatch(self, x: Array, single: bool) -> np.ndarray:
        host = np.asarray(x)
        host = host if self._agents else host[:, 0]
        return host[0] if single else host


def _is_zero(value: object) -> bool:
    """Whether it is the number that stands for nothing, which needs no further check."""
    return type(value) is float and value == 0.0


def _finite(spec: EnvSpec, obs: ArrayLike) -> HostOrDevice:
    """obs as an array of the environment's own type, of finite numbers that this type can hold."""
    wanted, array = spec.obs_dtype, _numbers(obs)
    if array is not None and array.dtype.kind == "f" and not _all_finite(array):
        raise ObservationError(f"an observation of {spec.name} is finite, without NaN or infinity")
    held = None if array is None else _held(array, wanted)
    if held is None:
        raise ObservationError(f"an observation of {spec.name} is of type {wanted}; what was given is not")
    return jnp.asarray(obs, wanted) if isinstance(obs, jax.Array) else held


def _held(array: np.ndarray, wanted: np.dtype) -> np.ndarray | None:
    """The numbers as another type, if it can hold them: floats may be rounded, other numbers must stay the same."""
    if array.dtype == wanted:
        return array
    with np.errstate(invalid="ignore", over="ignore"):  # a number that is too large for the type
        cast = array.astype(wanted)
    rounded = np.can_cast(array.dtype, wanted, "same_kind")
    fits = _all_finite(cast) if rounded else np.array_equal(array, cast)
    return cast if fits else None


def _all_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())


def _numbers(values: ArrayLike) -> np.ndarray | None:
    """An array of real numbers; None for texts, lists of different lengths and the like."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array
        return None if array.dtype.kind in "cSUmM" else array.astype(np.float32)
    except jax.errors.TracerArrayConversionError as error:
        raise ObservationError(
            "an agent cannot be called inside of jax.jit or jax.vmap, since it keeps a memory; give it a batch, or "
            "compile agent.actor.scores, which takes agent.policy"
        ) from error
    except (TypeError, ValueError, OverflowError):
        return None


def _mask(avail: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    mask = _shaped("avail", avail, bool, shape)
    if not mask.any(axis=(-2, -1)).all():  # an agent of several may be dead, or not at turn
        raise ObservationError("avail leaves no legal action; each observation must have one at least")
    return mask


def _shaped(name: str, value: ArrayLike, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """One entry for each observation, or one for all of them."""
    array = _numbers(value)
    try:
        if array is None or not _all_finite(array):
            raise ValueError
        array = array.reshape(shape) if array.size == math.prod(shape) else np.broadcast_to(array, shape)
    except ValueError:  # or the shapes do not agree
        raise ObservationError(f"{name} is {brief(value)}; it must be finite and of the shape {shape}") from None
    return array.astype(dtype, copy=False)
