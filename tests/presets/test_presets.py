"""Every preset builds and steps. Their numbers are compared in test_preset_table.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, build

from pqn.errors import ConfigError
from pqn.presets import PRESETS, preset

LONG = {"craftax", "craftax-rnn", "craftax-paper", "craftax-rnn-paper"}  # minutes of compiling; Classic is the same
LONG |= {name for name in PRESETS if name.startswith("smax-")} - {"smax-2s3z", "smax-2s3z-paper"}  # one map and layout
LONG |= {name for name in PRESETS if name.startswith("overcooked-")} - {"overcooked-cramped_room"}  # stand for all
# Most `-paper` twins differ in numbers only, not in what is compiled. These differ in more.
OTHER_PROGRAMS = {"memory-chain-paper", "smax-2s3z-paper", "craftax-paper", "craftax-rnn-paper"}
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
    for name in PRESETS
    if not name.startswith("atari-")  # emulators: no single compiled program
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
