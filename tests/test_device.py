"""Loops written out: the same results, without the loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.device import compiler_options, simulator_groups, write_out_loops
from pqn.envs import autoreset, make
from pqn.loops import written_out


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
    whole = written_out(tangled, 10_000)
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

    assert loops(written_out(function, 1000), 0.1) == []
    assert loops(written_out(function, 40), 0.1) == [50]
    assert written_out(nothing, 1000)(0.25) == 0.25


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="says what happens on a CPU")
def test_a_cpu_is_given_the_function_as_it_is():
    assert write_out_loops(tangled, 1000) is tangled


def test_the_compiler_knows_the_options_we_give_it_on_a_gpu(monkeypatch):
    """A release of XLA without one of them would stop every run on a GPU; any backend knows their names."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together, serial, several = compiler_options(), compiler_options(Looping()), compiler_options(devices=2)
    monkeypatch.undo()
    assert serial and together and several and serial.items() < together.items() < several.items()
    for options in (serial, together, several):
        assert jax.jit(lambda x: x + 1).lower(1).compile(options)(1) == 2


class Looping:
    loops_up_to = 300


@pytest.mark.parametrize("name", ["Asterix-MinAtar", "smax:2s3z", "hanabi:2", "Craftax-Classic-Symbolic-v1"])
def test_environments_play_the_same_game_with_their_loops_written_out(name, monkeypatch):
    def play(env):
        def step(carry, key):
            state, avail = carry
            logits = jnp.zeros((2, env.spec.num_agents, env.spec.num_actions))
            action = jax.random.categorical(key, logits if avail is None else jnp.where(avail, logits, -1e9))
            state, timestep = env.step(state, action)
            return (state, timestep.avail), timestep

        def whole(key):
            state, timestep = env.reset(key)
            return jax.lax.scan(step, (state, timestep.avail), jax.random.split(key, 30))[1]

        return jax.device_get(jax.jit(whole, compiler_options={"xla_backend_optimization_level": 0})(jax.random.key(1)))

    plain = play(make(name, 2))
    monkeypatch.setattr(autoreset, "write_out_loops", written_out)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), play(make(name, 2)), plain)


@pytest.mark.parametrize(("backend", "concurrent", "groups"), [("gpu", True, 3), ("gpu", False, 2), ("cpu", True, 2)])
def test_a_third_group_needs_an_accelerator_and_threads_of_its_own(monkeypatch, backend, concurrent, groups):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert simulator_groups(concurrent) == groups
