"""Loops written out: the same results, without the loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny

import pqn
from pqn.device import UPDATES_UP_TO, compiler_options, in_few_kernels, simulator_groups
from pqn.envs import autoreset, make
from pqn.errors import DeviceError
from pqn.traces import rewritten, small_updates_select, unrolled


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="says what happens on a CPU")
def test_a_cpu_is_given_the_function_as_it_is():
    assert in_few_kernels(np.sin, 1000) is np.sin


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
def test_environments_play_the_same_game_in_few_kernels(name, monkeypatch):
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
    rules = (unrolled(5000), small_updates_select(UPDATES_UP_TO))
    monkeypatch.setattr(autoreset, "in_few_kernels", lambda function, _: rewritten(function, *rules))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), play(make(name, 2)), plain)


@pytest.mark.parametrize(("backend", "concurrent", "groups"), [("gpu", True, 3), ("gpu", False, 2), ("cpu", True, 2)])
def test_a_third_group_needs_an_accelerator_and_threads_of_its_own(monkeypatch, backend, concurrent, groups):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert simulator_groups(concurrent) == groups


@pytest.mark.parametrize(
    "use",
    [pqn.load, lambda run: pqn.evaluate(run, episodes=1), lambda run: pqn.train(tiny(), out="new")],
    ids=["load", "evaluate", "train"],
)
def test_numbers_of_64_bits_are_refused(use, finished_run, tmp_path, monkeypatch):
    """JAX would say that types differ, and checkpoints would seem to be of another network."""
    monkeypatch.chdir(tmp_path)
    with jax.enable_x64(True), pytest.raises(DeviceError, match="unset JAX_ENABLE_X64"):
        use(finished_run)
    assert not list(tmp_path.iterdir())


def test_training_is_compiled(tmp_path):
    with jax.disable_jit(), pytest.raises(DeviceError, match="set not to compile"):
        pqn.train(tiny(), out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
