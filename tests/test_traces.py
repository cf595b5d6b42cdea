"""What was traced and rewritten computes the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.traces import first_index_bounded, rewritten, small_updates_select, unrolled


def loops(function, *args):
    """Lengths of the loops that would be compiled as loops, at any depth."""
    found = []

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "scan" and eqn.params["unroll"] != eqn.params["length"]:
                found.append(eqn.params["length"])
            for value in jax.tree.leaves(eqn.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
                if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                    walk(getattr(value, "jaxpr", value))

    walk(jax.make_jaxpr(function)(*args).jaxpr)
    return found


TABLE = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def tangled(key, tree, x):
    """Loops in a loop, in a condition, in a `while` and in a jitted function; constants, keys and None."""

    @jax.jit
    def inner(x):
        return jax.lax.fori_loop(0, 4, lambda i, c: c * 0.5 + jnp.asarray(TABLE)[:, i].sum(), x)

    def outer(c, row):
        c = jax.lax.scan(lambda c, v: (jax.nn.relu(jnp.sin(c + v)) - 0.1, c), c, row)[0]
        return c, jax.lax.cond(c > 0, lambda: inner(c), lambda: c)

    total, rows = jax.lax.scan(outer, x, jnp.asarray(TABLE))
    grown = jax.lax.while_loop(lambda c: c < 100.0, lambda c: inner(c) + c + 40.0, total)
    noise = jax.lax.map(jax.random.normal, jax.random.split(key, 5))
    return {"total": total, "rows": rows, "none": None, "pair": (grown, tree["a"] + noise.sum()), "key": key}


def test_loops_are_gone_and_the_results_are_the_same():
    args = jax.random.key(3), {"a": jnp.ones(2), "b": None}, jnp.float32(0.3)
    assert sorted(loops(tangled, *args)) == [3, 4, 4, 4, 5]
    whole = rewritten(tangled, unrolled(10_000))
    assert loops(whole, *args) == []
    expected, got = jax.jit(tangled)(*args), jax.jit(whole)(*args)
    assert jax.tree.structure(expected) == jax.tree.structure(got)
    assert jnp.array_equal(jax.random.key_data(expected.pop("key")), jax.random.key_data(got.pop("key")))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), got, expected)
    many = jax.vmap(whole, in_axes=(0, None, 0))(jax.random.split(args[0], 3), args[1], jnp.arange(3.0))
    assert many["total"].shape == (3,)


def test_a_loop_that_would_become_too_long_stays_one():
    def function(x):
        return jax.lax.fori_loop(0, 50, lambda i, c: jnp.cos(c) + i, x)

    def nothing(x):
        return jax.lax.fori_loop(0, 0, lambda i, c: c + 1.0, x)

    assert loops(rewritten(function, unrolled(1000)), 0.1) == []
    assert loops(rewritten(function, unrolled(40)), 0.1) == [50]
    assert rewritten(nothing, unrolled(1000))(0.25) == 0.25


# ---- small updates ----


def primitives(function, *args):
    """The names of all operations, at any depth."""
    found = set()

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            found.add(eqn.primitive.name)
            for value in jax.tree.leaves(eqn.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
                if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                    walk(getattr(value, "jaxpr", value))

    walk(jax.make_jaxpr(function)(*args).jaxpr)
    return found


X = np.linspace(-3, 3, 30).reshape(5, 3, 2).astype(np.float32)
UPDATES = {
    "a number": lambda x, i: x.at[i, 1, 0].set(9.0),
    "a row": lambda x, i: x.at[i, 2].set(jnp.array([7.0, 8.0])),
    "a slab": lambda x, i: x.at[i].set(jnp.arange(6.0).reshape(3, 2)),
    "across": lambda x, i: x.at[:, i % 3].set(jnp.arange(10.0).reshape(5, 2)),
    "inner and outer": lambda x, i: x.at[i, :, i % 2].set(jnp.array([1.0, 2.0, 3.0])),
    "a sum": lambda x, i: x.at[i, i % 3, 1].add(0.1),
    "a sum of rows": lambda x, i: x.at[i, 0].add(jnp.array([0.3, -0.0])),
    "in a loop": lambda x, i: jax.lax.fori_loop(0, 3, lambda n, x: x.at[i, n, 0].add(1.5), x),
    "whole numbers": lambda x, i: (x * 9).astype(jnp.int32).at[i, 0, 0].add(-4),
    "flags": lambda x, i: (x > 0).at[i, 1].set(True),
    "narrow": lambda x, i: (x * 9).astype(jnp.uint8).at[i, 1, 1].set(250),
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_a_small_update_is_a_choice_with_the_same_result(update):
    """Also where the place is outside of the array: there nothing is written; a negative one counts from the end."""
    chosen = rewritten(update, small_updates_select(30))
    args = jnp.asarray(X), jnp.int32(2)
    assert {"scatter", "scatter-add"} & primitives(update, *args)
    assert not {"scatter", "scatter-add"} & primitives(chosen, *args)
    for place in (0, 4, 5, 17, -1, -5, -6):
        expected, got = update(args[0], jnp.int32(place)), chosen(args[0], jnp.int32(place))
        assert got.dtype == expected.dtype and got.weak_type == expected.weak_type
        np.testing.assert_array_equal(got, expected)
    places = jnp.array([3, 0, 9])
    many, xs = jax.vmap(chosen, (0, 0)), jnp.stack([args[0], args[0] * 2, args[0] - 1])
    np.testing.assert_array_equal(jax.jit(many)(xs, places), jax.vmap(update, (0, 0))(xs, places))


def test_a_sum_leaves_every_other_bit_alone():
    """Adding 0 to the others would make a 0 of a −0."""
    zeros = jnp.full((3,), -0.0)
    got = rewritten(lambda x, i: x.at[i].add(1.0), small_updates_select(3))(zeros, jnp.int32(1))
    np.testing.assert_array_equal(np.signbit(got), [True, False, True])


LEFT_ALONE = {
    "a large array": lambda x, i: jnp.concatenate([x, x]).at[i, 1, 0].set(9.0),
    "several places": lambda x, i: x.at[jnp.stack([i, i + 1]), 0, 0].set(9.0),
    "several places, added": lambda x, i: x.at[jnp.stack([i, i]), 0, 0].add(9.0),
    "moved inside": lambda x, i: x.at[i, 1, 0].set(9.0, mode="clip"),
    "a part of an axis": lambda x, i: jax.lax.scatter(
        x,
        i[None],
        jnp.ones((2, 3, 2)),
        jax.lax.ScatterDimensionNumbers(
            update_window_dims=(0, 1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
        ),
        mode=jax.lax.GatherScatterMode.FILL_OR_DROP,
    ),
    "a product": lambda x, i: x.at[i, 1, 0].mul(9.0),
}


@pytest.mark.parametrize("update", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_other_updates_stay_as_they_are(update):
    same = rewritten(update, small_updates_select(30))
    for place in (0, 1, 3, 4, 7):
        args = jnp.asarray(X), jnp.int32(place)
        assert primitives(same, *args) >= {name for name in primitives(update, *args) if name.startswith("scatter")}
        np.testing.assert_array_equal(same(*args), update(*args))


# ---- an index that is bounded ----

FLOORS = np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5)
USES = {
    "read a floor": lambda x, i: x[i],
    "read a square": lambda x, i: x[i, 3, 4],
    "read a square outside": lambda x, i: x.at[i, 9, 4].get(mode="fill", fill_value=-7.0),
    "read the ground": lambda x, i: x[0] + i,
    "read a window": lambda x, i: jax.lax.dynamic_slice(x, (i, 1, 2), (1, 2, 2)),
    "write a floor": lambda x, i: x.at[i].set(-1.0),
    "write a square": lambda x, i: x.at[i, 2, 2].set(-1.0),
    "write a square outside": lambda x, i: x.at[i, 4, 2].set(-1.0),
    "add to a square": lambda x, i: x.at[i, 0, 1].add(5.0),
    "write a window": lambda x, i: jax.lax.dynamic_update_slice(x, jnp.ones((1, 2, 2)), (i, 1, 2)),
    "write squares": lambda x, i: x.at[i, jnp.array([0, 1]), jnp.array([2, 3])].set(jnp.array([-1.0, -2.0])),
    "in a loop": lambda x, i: jax.lax.fori_loop(0, 3, lambda n, x: x.at[i, n, n].add(x[i, n, 0]), x),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_floor_beyond_the_second_is_the_second(use):
    bounded = jax.jit(rewritten(use, first_index_bounded(FLOORS.shape)))
    for floor in (0, 1):
        np.testing.assert_array_equal(bounded(FLOORS, jnp.int32(floor)), use(jnp.asarray(FLOORS), jnp.int32(floor)))
    if use is not USES["read the ground"]:
        np.testing.assert_array_equal(bounded(FLOORS, jnp.int32(7)), use(jnp.asarray(FLOORS), jnp.int32(1)))


def test_other_arrays_keep_their_indices():
    def use(x, i):
        return x.at[i, 0, 0].set(-1.0)

    nine = np.zeros((9, 4, 5), np.float32)
    bounded = rewritten(use, first_index_bounded(FLOORS.shape))
    np.testing.assert_array_equal(bounded(jnp.asarray(nine), jnp.int32(7)), use(jnp.asarray(nine), jnp.int32(7)))
