"""Unrolling loops: a function is traced, and the short loops in its jaxpr are unrolled."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from pqn.types import PyTree

P = ParamSpec("P")
R = TypeVar("R")


def written_out(function: Callable[P, R], at_most: int) -> Callable[P, R]:
    """`function` with each loop of fixed length unrolled that has at most `at_most` operations afterwards."""

    def rewritten(*args: P.args, **_: P.kwargs) -> R:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        out = jaxpr_as_fun(_write_out(closed, at_most))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return rewritten


def _write_out(closed: ClosedJaxpr, at_most: int) -> ClosedJaxpr:
    def inside(value: PyTree) -> PyTree:
        if isinstance(value, tuple):  # the branches of a condition
            return tuple(map(inside, value))
        return _write_out(value, at_most) if isinstance(value, ClosedJaxpr) else value

    def changed(eqn: JaxprEqn) -> JaxprEqn:
        if eqn.primitive.name not in ("scan", "while", "cond", "jit"):
            return eqn
        params = {name: inside(value) for name, value in eqn.params.items()}
        if eqn.primitive.name == "scan" and params["length"] * _operations(params["jaxpr"].jaxpr) <= at_most:
            params["unroll"] = max(1, params["length"])
        return eqn.replace(params=params)

    return ClosedJaxpr(closed.jaxpr.replace(eqns=list(map(changed, closed.jaxpr.eqns))), closed.consts)


def _operations(jaxpr: Jaxpr) -> int:
    """How many there are, those of inner functions and loop bodies included."""

    def is_code(value: object) -> bool:
        return isinstance(value, Jaxpr | ClosedJaxpr)

    def inner(eqn: JaxprEqn) -> list[Jaxpr]:
        return [
            getattr(value, "jaxpr", value) for value in jax.tree.leaves(eqn.params, is_leaf=is_code) if is_code(value)
        ]

    return sum(1 + sum(_operations(code) for code in inner(eqn)) for eqn in jaxpr.eqns)
