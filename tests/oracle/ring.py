"""A small world with everything an environment can have, in integer arithmetic and tables.

Agents walk around a ring of places. Where they get to depends on their actions and on luck, which is a generator of
integers that every copy of the world owns. All numbers that anybody sees are read from tables, so the world is the same
to the bit in numpy (the oracle, the simulators) and in jax.numpy (the compiled program): `xp` is one of the two.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

PLACES, ACTIONS, FEATURES, WORLD, TIMES = 9, 3, 3, 2, 8
LIMIT = 3  # steps until the time limit

_tables = np.random.default_rng(1)
OBS = _tables.normal(size=(PLACES, TIMES, 2, FEATURES)).astype(np.float32)
STATE = _tables.normal(size=(PLACES, TIMES, WORLD)).astype(np.float32)
REWARD = _tables.normal(size=(PLACES, 7)).astype(np.float32)
LEGAL = _tables.random((PLACES, 2, ACTIONS)) < 0.6
LEGAL[0, 0] = LEGAL[1, 1] = LEGAL[5] = False  # one agent, the other, or both cannot act
STARTS = np.array([0, 1, 2, 5, 6], np.int32)
ENDS = np.isin(np.arange(PLACES), (3, 7))  # the task ends here
LEAVES = np.isin(np.arange(PLACES), (4, 8))  # with `cuts="anywhere"`, an episode is cut here


@dataclasses.dataclass(frozen=True)
class Ring:
    """Which of its features the world has."""

    agents: int = 1
    masked: bool = False
    world: bool = False
    cuts: str = "never"
    """Truncations: `never`, at the time `limit` that the spec promises, or `anywhere`, without a promise."""
    next_step: bool = False
    """Episodes are reset by the step after their last, which ignores the actions and is no transition."""
    lives: bool = False
    """Only some ends of an episode are the end of a game."""


class State(NamedTuple):
    place: Any  # [N] int32
    time: Any  # [N] int32, steps in the open episode
    luck: Any  # [N] uint32
    over: Any  # [N] bool: the next step only resets


class Outcome(NamedTuple):
    """What a step shows: the fields of the contract in `pqn.types.TimeStep`, by the same names."""

    obs: Any
    first: Any
    reward: Any
    terminated: Any
    truncated: Any
    final_obs: Any
    avail: Any
    final_avail: Any
    world: Any
    final_world: Any
    ended: Any
    info: dict[str, Any]
    valid: Any


def start(xp: Any, ring: Ring, luck: Any) -> tuple[State, Outcome]:
    """Starts N episodes; `luck` [N] uint32 is all that distinguishes them."""
    no = xp.zeros(luck.shape, bool)
    state = _fresh(xp, State(no.astype(xp.int32), no.astype(xp.int32), luck, no))
    zero = xp.zeros(luck.shape, xp.float32)
    return state, _outcome(xp, ring, state, state, first=~no, reward=zero, terminated=no, truncated=no, valid=~no)


def step(xp: Any, ring: Ring, state: State, action: Any) -> tuple[State, Outcome]:
    """Takes the actions [N, M]."""
    resets = state.over
    legal = xp.asarray(LEGAL)[state.place][:, : ring.agents]
    acts = xp.any(legal, -1) | (not ring.masked)  # [N, M] what an agent does that can do nothing has no effect
    push = xp.sum(xp.where(acts, action, 0) * (1 + xp.arange(ring.agents)), -1).astype(xp.int32)
    luck = _next(xp, state.luck)
    place = (state.place + 1 + push + _draw(xp, luck, 2)) % PLACES
    time = state.time + 1
    terminated = xp.asarray(ENDS)[place] & ~resets
    cut = {"never": resets & False, "limit": time >= LIMIT, "anywhere": xp.asarray(LEAVES)[place]}[ring.cuts]
    truncated = cut & ~terminated & ~resets
    reward = xp.where(resets, xp.float32(0), xp.asarray(REWARD)[state.place, push])
    final = State(place, time, luck, terminated | truncated)
    first = resets if ring.next_step else final.over
    after = State(*(xp.where(first, new, old) for new, old in zip(_fresh(xp, final), final, strict=True)))
    facts = {"first": first, "reward": reward, "terminated": terminated, "truncated": truncated, "valid": ~resets}
    return after, _outcome(xp, ring, after, final, **facts)


def _outcome(xp: Any, ring: Ring, state: State, final: State, **facts: Any) -> Outcome:
    """What is seen in `state`, and was seen in `final` if that ended an episode."""

    def seen(state: State) -> tuple[Any, Any, Any]:
        where = (state.place, xp.minimum(state.time, TIMES - 1))
        avail = xp.asarray(LEGAL)[state.place][:, : ring.agents]
        obs, world = xp.asarray(OBS)[where][:, : ring.agents], xp.asarray(STATE)[where]
        return obs, avail if ring.masked else None, world if ring.world else None

    obs, avail, world = seen(state)
    final_obs, final_avail, final_world = seen(final) if ring.cuts != "never" else (None, None, None)
    return Outcome(
        obs=obs,
        first=xp.broadcast_to(facts["first"][:, None], obs.shape[:2]),
        reward=facts["reward"],
        terminated=facts["terminated"],
        truncated=facts["truncated"],
        final_obs=final_obs,
        avail=avail,
        final_avail=final_avail,
        world=world,
        final_world=final_world,
        ended=final.over & (final.place < 5) if ring.lives else None,
        info={"score": facts["reward"] + final.time.astype(xp.float32)},
        valid=facts["valid"] if ring.next_step else None,
    )


def _fresh(xp: Any, state: State) -> State:
    luck = _next(xp, state.luck)
    place = xp.asarray(STARTS)[_draw(xp, luck, len(STARTS))]
    return State(place, xp.zeros_like(state.time), luck, xp.zeros_like(state.over))


def _next(xp: Any, luck: Any) -> Any:
    return luck * xp.uint32(1664525) + xp.uint32(1013904223)


def _draw(xp: Any, luck: Any, below: int) -> Any:
    return ((luck >> xp.uint32(16)) % xp.uint32(below)).astype(xp.int32)
