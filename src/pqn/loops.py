"""Writing out loops: a function is traced, and its short loops are unrolled in what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun


def written_out(function: Callable[..., Any], at_most: int) -> Callable[..., Any]:
    """`function` with its loops of fixed length written out, unless one would become more than `at_most` operations."""

    def rewritten(*args: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        out = jaxpr_as_fun(_write_out(closed, at_most))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return rewritten


def _write_out(closed: ClosedJaxpr, at_most: int) -> ClosedJaxpr:
    def inside(value: Any) -> Any:
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

    def inner(eqn: JaxprEqn) -> list[Any]:
        is_code = lambda value: isinstance(value, Jaxpr | ClosedJaxpr)  # noqa: E731
        return [value for value in jax.tree.leaves(eqn.params, is_leaf=is_code) if is_code(value)]

    return sum(1 + sum(_operations(getattr(code, "jaxpr", code)) for code in inner(eqn)) for eqn in jaxpr.eqns)
