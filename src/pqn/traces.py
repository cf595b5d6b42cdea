"""Rewriting a function that JAX has traced: the same results, from operations that suit an accelerator better.

Environment packages are written for one environment and one step. What they do is right; how it compiles for thousands
of environments on a GPU is another matter. Here a function is traced, and single operations of the trace are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.lax import GatherScatterMode

from pqn.types import Array

P = ParamSpec("P")
T = TypeVar("T")
# What to do instead of an operation; None leaves it as it is. What is inside of it, as in a loop, is rewritten before.
Rule = Callable[[JaxprEqn], Callable[..., list[Array]] | None]


def rewritten(function: Callable[P, T], *rules: Rule) -> Callable[P, T]:
    """`function` with the operations replaced for which a rule, the first one that does, knows another way."""

    def changed(*args: P.args, **_: P.kwargs) -> T:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        out = _evaluate(closed, jax.tree.leaves(args), rules)
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return changed


def as_traced(eqn: JaxprEqn, *values: Array) -> list[Array]:
    """The results of an operation as it is."""
    inner = eqn.primitive.get_bind_params(eqn.params)
    functions, params = inner if isinstance(inner, tuple) else ((), inner)  # only params, in recent versions of JAX
    out = eqn.primitive.bind(*functions, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def _evaluate(closed: ClosedJaxpr, args: list[Array], rules: tuple[Rule, ...]) -> list[Array]:
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values |= dict(zip(closed.jaxpr.invars, args, strict=True))

    def read(variable: Var | Literal) -> Array:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name in ("scan", "while", "cond", "jit"):
            eqn = eqn.replace(params={name: _inside(value, rules) for name, value in eqn.params.items()})
        ways = (rule(eqn) for rule in rules)
        instead = next((way for way in ways if way is not None), None)
        given = [read(variable) for variable in eqn.invars]
        out = as_traced(eqn, *given) if instead is None else instead(*given)
        values |= dict(zip(eqn.outvars, out, strict=True))
    return [read(variable) for variable in closed.jaxpr.outvars]


def _inside(value: object, rules: tuple[Rule, ...]) -> object:
    """A parameter of an operation; the code in it, such as a loop's body, rewritten."""
    if isinstance(value, tuple):  # the branches of a condition
        return tuple(_inside(one, rules) for one in value)
    if not isinstance(value, ClosedJaxpr):
        return value
    shapes = map(_shape, value.jaxpr.invars)
    return jax.make_jaxpr(lambda *args: _evaluate(value, list(args), rules))(*shapes)


def _shape(variable: Var | Literal) -> jax.ShapeDtypeStruct:
    aval: Any = variable.aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


# ------------------------------------------------------------------------------------------------------------- rules


def unrolled(at_most: int) -> Rule:
    """Loops of fixed length are unrolled, if the result of a loop has at most `at_most` operations."""

    def rule(eqn: JaxprEqn) -> Callable[..., list[Array]] | None:
        if eqn.primitive.name != "scan" or eqn.params["length"] * operations(eqn.params["jaxpr"]) > at_most:
            return None
        whole = eqn.replace(params=eqn.params | {"unroll": max(1, eqn.params["length"])})
        return lambda *values: as_traced(whole, *values)

    return rule


def small_updates_select(at_most: int) -> Rule:
    """`x.at[i].set(y)` and `.add(y)` choose between old and new for every number, in arrays of at most so many.

    A scatter is a kernel of its own on a GPU, before which its operand is often copied. A choice is part of the kernel
    that computes what it chooses from. The numbers are the same in every bit.
    """

    def rule(eqn: JaxprEqn) -> Callable[..., list[Array]] | None:
        if eqn.primitive.name not in ("scatter", "scatter-add"):
            return None
        operand, indices, updates = map(_shape, eqn.invars)
        names = eqn.params["dimension_numbers"]
        one_place = indices.ndim == 1 and not names.operand_batching_dims
        drops = eqn.params["mode"] == GatherScatterMode.FILL_OR_DROP  # nothing is written outside of the array
        if math.prod(operand.shape) > at_most or not (one_place and drops):
            return None
        # Along the other dimensions the update is as long as the array, or it would need an offset.
        whole = [axis for axis in range(operand.ndim) if axis not in names.inserted_window_dims]
        chosen = names.scatter_dims_to_operand_dims
        if any(
            length != (1 if axis in chosen else operand.shape[axis])
            for axis, length in zip(whole, updates.shape, strict=True)
        ):
            return None

        def choose(old: Array, index: Array, update: Array) -> list[Array]:
            here = jnp.bool_(True)
            for place, axis in enumerate(chosen):
                here = here & (jax.lax.broadcasted_iota(index.dtype, old.shape, axis) == index[place])
            update = jnp.broadcast_to(jnp.expand_dims(update, names.inserted_window_dims), old.shape)
            return [jnp.where(here, old + update if eqn.primitive.name == "scatter-add" else update, old)]

        return choose

    return rule


_INDEXED = ("dynamic_slice", "dynamic_update_slice", "gather", "scatter", "scatter-add")


def first_index_bounded(shape: tuple[int, ...]) -> Rule:
    """In arrays of this shape an index beyond the first axis means its last place, to read and to write."""
    last = shape[0] - 1

    def rule(eqn: JaxprEqn) -> Callable[..., list[Array]] | None:
        if eqn.primitive.name not in _INDEXED or _shape(eqn.invars[0]).shape != shape:
            return None
        match eqn.primitive.name:
            case "dynamic_slice":
                return lambda x, first, *rest: as_traced(eqn, x, jnp.minimum(first, last), *rest)
            case "dynamic_update_slice":
                return lambda x, y, first, *rest: as_traced(eqn, x, y, jnp.minimum(first, last), *rest)
            case "gather":
                axes = eqn.params["dimension_numbers"].start_index_map
            case _:
                axes = eqn.params["dimension_numbers"].scatter_dims_to_operand_dims
        if 0 not in axes:
            return None

        def bounded(x: Array, indices: Array, *rest: Array) -> list[Array]:
            level = jnp.arange(len(axes)) == axes.index(0)
            return as_traced(eqn, x, jnp.where(level, jnp.minimum(indices, last), indices), *rest)

        return bounded

    return rule


def _is_code(value: object) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def operations(code: Jaxpr | ClosedJaxpr) -> int:
    """The number of operations, those of inner functions and loop bodies included."""
    jaxpr = code.jaxpr if isinstance(code, ClosedJaxpr) else code

    def inner(eqn: JaxprEqn) -> list[Jaxpr | ClosedJaxpr]:
        return [value for value in jax.tree.leaves(eqn.params, is_leaf=_is_code) if _is_code(value)]

    return sum(1 + sum(map(operations, inner(eqn))) for eqn in jaxpr.eqns)
