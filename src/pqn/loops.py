"""Unrolling loops: how often is worth it in a run, and the short loops of a trace written out.

A copy of a loop's body takes the compiler time once. An iteration less saves a little time as often as the loop runs.
So how much is unrolled follows from how often a loop will run, which the plan of a run says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

P = ParamSpec("P")
T = TypeVar("T")

# Estimates. On an H200 an empty iteration of a loop over the parameters takes 12 µs, and unrolling four steps of a
# memory saves some 7 µs a step. One more copy of CartPole's gradient step took a 2-core machine two processor seconds,
# one more step of a memory a tenth of one; what they take the host of an H200 was not measured.
SECONDS_PER_ITERATION = 1e-5
SECONDS_PER_COPY = 1.0
MOST_COPIES = 8  # what four copies, doubled by the compiler, were before


class Plan(NamedTuple):
    """How often the code that is being traced will run."""

    times: int = 1
    doubled: bool = False  # whether the compiler will unroll every loop once more by itself


_ONCE = Plan()
_PLAN: ContextVar[Plan] = ContextVar("_PLAN", default=_ONCE)


@contextlib.contextmanager
def repeated(times: int, doubled: bool | None = None) -> Iterator[None]:
    """What is traced within will run `times` as often as what is around it."""
    now = _PLAN.get()
    token = _PLAN.set(Plan(now.times * times, now.doubled if doubled is None else doubled))
    try:
        yield
    finally:
        _PLAN.reset(token)


def worthwhile(steps: int) -> int:
    """How many iterations of a loop of `steps` to compile into one, if it is in what is being traced.

    From u/2 to u copies the loop makes 1/u fewer iterations and the compiler u/2 more copies. The largest power of two
    for which the first takes longer than the second.
    """
    plan, copies = _PLAN.get(), 1
    while 2 * copies <= min(steps, MOST_COPIES):
        saved = plan.times * steps * SECONDS_PER_ITERATION / (2 * copies)
        if saved <= copies * SECONDS_PER_COPY:
            break
        copies *= 2
    return max(1, copies // 2) if plan.doubled else copies


def written_out(function: Callable[P, T], at_most: int) -> Callable[P, T]:
    """`function` with its loops of fixed length unrolled, if the result of a loop has at most `at_most` operations."""

    def rewritten(*args: P.args, **_: P.kwargs) -> T:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        out = jaxpr_as_fun(_write_out(closed, at_most))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return rewritten


def _write_out(closed: ClosedJaxpr, at_most: int) -> ClosedJaxpr:
    def inside(value: object) -> object:
        if isinstance(value, tuple):  # the branches of a condition
            return tuple(map(inside, value))
        return _write_out(value, at_most) if isinstance(value, ClosedJaxpr) else value

    def changed(eqn: JaxprEqn) -> JaxprEqn:
        if eqn.primitive.name not in ("scan", "while", "cond", "jit"):
            return eqn
        params: dict[str, Any] = {name: inside(value) for name, value in eqn.params.items()}
        if eqn.primitive.name == "scan" and params["length"] * _operations(params["jaxpr"]) <= at_most:
            params["unroll"] = max(1, params["length"])
        return eqn.replace(params=params)

    return ClosedJaxpr(closed.jaxpr.replace(eqns=list(map(changed, closed.jaxpr.eqns))), closed.consts)


def _is_code(value: object) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def _operations(code: Jaxpr | ClosedJaxpr) -> int:
    """The number of operations, those of inner functions and loop bodies included."""
    jaxpr = code.jaxpr if isinstance(code, ClosedJaxpr) else code

    def inner(eqn: JaxprEqn) -> list[Jaxpr | ClosedJaxpr]:
        return [value for value in jax.tree.leaves(eqn.params, is_leaf=_is_code) if _is_code(value)]

    return sum(1 + sum(map(_operations, inner(eqn))) for eqn in jaxpr.eqns)
