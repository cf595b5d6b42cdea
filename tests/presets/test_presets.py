"""Every preset builds and steps. Their numbers are compared in test_preset_table.py."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, build

from pqn.config import ALGORITHMS
from pqn.errors import ConfigError
from pqn.presets import PRESETS, VARIANTS, preset, presets_of

LONG = {"craftax", "craftax-rnn", "craftax-paper", "craftax-rnn-paper"}  # minutes of compiling; Classic is the same
LONG |= {name for name in PRESETS if name.startswith("smax-")} - {"smax-2s3z", "smax-2s3z-paper"}  # one map and layout
LONG |= {name for name in PRESETS if name.startswith("overcooked-")} - {"overcooked-cramped_room"}  # stand for all
# Most `-paper` twins differ in numbers only, not in what is compiled. These differ in more.
OTHER_PROGRAMS = {"memory-chain-paper", "smax-2s3z-paper", "craftax-paper", "craftax-rnn-paper"}
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
    for name, entry in PRESETS.items()
    if entry.config.algorithm == "pqn"
    and not name.startswith("atari-")  # emulators: no single compiled program
    and (not name.endswith("-paper") or name in OTHER_PROGRAMS)
]


@pytest.mark.parametrize("name", NAMES)
def test_presets_build_and_step(name):
    config = preset(name)
    assert config.validate().preset == name
    if name.startswith("craftax"):
        pytest.importorskip("craftax", reason="needs pip install -e '.[craftax]'")
    if name.startswith(("smax", "overcooked", "hanabi", "mpe")):
        pytest.importorskip("jaxmarl", reason="needs pip install -e '.[marl]'")
    smaller = {"network.hidden": (8,), "network.memory_size": 8, "total_steps": 64}
    small = config.replace(TINY | smaller).validate()
    program = build(small)
    both = jax.jit(lambda seeds: program._chunk(jax.vmap(program.init_one)(seeds), program.hyper, jnp.int32(1)))
    quick = {"xla_backend_optimization_level": 0}  # compiling is the whole cost here
    state, _ = both.lower(program.seeds).compile(compiler_options=quick)(program.seeds)
    assert int(state.learner.updates[0]) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.learner.params))


OPPONENTS = (
    "dqn-cartpole", "dqn-acrobot", "dqn-minatar-breakout", "pqn-replay-craftax", "qmix-replay-smax-2s3z",
    "vdn-replay-overcooked-cramped_room", "ppo-cartpole", "ppo-acrobot", "ppo-minatar-breakout", "ppo-craftax",
    "ppo-rnn-craftax", "mappo-smax-2s3z", "ippo-smax-2s3z", "ippo-overcooked-cramped_room", "mappo-hanabi",
)  # fmt: skip


def test_every_kind_of_opponent_is_traced():
    kind = {name: entry.group or re.sub("(minatar)-.*", r"\1", name) for name, entry in PRESETS.items()}
    opponents = {name for name, entry in PRESETS.items() if entry.config.algorithm != "pqn"}
    # emulators: no single compiled program
    assert {kind[n] for n in opponents} - {kind[n] for n in OPPONENTS} == {"dqn-atari-GAME", "ppo-atari-GAME"}


@pytest.mark.parametrize("name", OPPONENTS)
def test_opponents_trace(name):
    """The whole program of the preset, at its full size: shapes only, nothing is compiled or computed."""
    config = preset(name)
    if "craftax" in name:  # its worlds take ten seconds to trace, and PQN's presets do so
        config = config.replace({"env.name": "CartPole-v1", "env.kwargs": {"max_timesteps": None}})
    elif "smax" in name or "overcooked" in name or "hanabi" in name:
        pytest.importorskip("jaxmarl", reason="needs pip install -e '.[marl]'")
    program = build(config.validate())

    def both(seeds):
        before = jax.vmap(program.init_one)(seeds)
        return before, program._chunk(before, program.hyper, jnp.int32(1))[0]

    before, after = jax.eval_shape(both, program.seeds)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), before)
    if config.replays:
        held = jax.tree.leaves(after.learner.buffer.experience)[0].shape[1:3]
        assert held == (config.env.num_envs, config.replay.size // config.env.num_envs)


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, *VARIANTS])
def test_presets_by_algorithm(algorithm):
    found = presets_of(algorithm)
    assert found
    if algorithm in ALGORITHMS:
        assert set(found) == {name for name, entry in PRESETS.items() if entry.config.algorithm == algorithm}
        return
    assert set(found) == {name for name in PRESETS if name.startswith(f"{algorithm}-")}
    ofs = {
        (entry.config.ppo.critic, entry.config.network.memory, entry.config.learner.mixer) for entry in found.values()
    }
    wanted = {
        "ppo-rnn": {("shared", "gru", "vdn")},
        "ippo": {("shared", "gru", "vdn"), ("shared", "none", "vdn")},
        "mappo": {("world", "gru", "vdn"), ("world", "none", "vdn")},
        "vdn-replay": {("separate", "none", "vdn")},
        "qmix-replay": {("separate", "gru", "qmix")},
    }
    assert ofs == wanted[algorithm]


def test_every_preset_belongs_to_one_algorithm():
    assert sum(len(presets_of(algorithm)) for algorithm in ALGORITHMS) == len(PRESETS)


def test_an_unknown_algorithm_is_one_sentence():
    with pytest.raises(ConfigError, match="there is no algorithm 'mapo'; did you mean 'mappo'"):
        presets_of("mapo")
    with pytest.raises(
        ConfigError, match="there is no algorithm 'sarsa'; there are pqn, pqn-replay, dqn, ppo, ppo-rnn"
    ):
        presets_of("sarsa")


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_are_complete(name):
    entry = PRESETS[name]
    assert entry.config.validate().preset == name and entry.description and entry.source
    if name.endswith("-paper"):
        assert not entry.config.learner.bootstrap_truncation


def test_a_misspelt_preset_or_option_suggests_the_right_one():
    with pytest.raises(ConfigError, match="did you mean 'cartpole'"):
        preset("cartpol")
    with pytest.raises(ConfigError, match="did you mean 'lam'"):
        preset("cartpole", {"learner.lamm": 0.5})
