"""Unrolling loops: a function is traced, and the short loops of the trace are unrolled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

P = ParamSpec("P")
T = TypeVar("T")


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
