"""Every preset builds and steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, build

from pqn.envs.atari_games import ATARI_57
from pqn.errors import ConfigError
from pqn.presets import PRESETS, preset

LONG = {"craftax", "craftax-rnn"}  # compiles for minutes; Classic has the same presets
LONG |= {name for name in PRESETS if name.startswith("smax-")} - {"smax-2s3z"}  # one map and one layout
LONG |= {name for name in PRESETS if name.startswith("overcooked-")} - {"overcooked-cramped_room"}  # stand for all
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
    for name in PRESETS
    if not name.endswith("-paper") and not name.startswith("atari-")  # emulators: no single compiled program
]


@pytest.mark.parametrize("name", NAMES)
def test_presets_build_and_step(name):
    """The `-paper` twins differ in numbers only, not in what is compiled; the test below looks at those."""
    config = preset(name)
    assert config.validate().preset == name
    if name.startswith("craftax"):
        pytest.importorskip("craftax", reason="needs pip install 'pqn-jax[craftax]'")
    if name.startswith(("smax", "overcooked", "hanabi", "mpe")):
        pytest.importorskip("jaxmarl", reason="needs pip install 'pqn-jax[marl]'")
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


def test_published_numbers():
    """Spot checks against the paper's public configurations."""
    c = preset("cartpole-paper")
    assert (c.env.num_envs, c.learner.rollout_steps, c.learner.minibatches, c.learner.epochs) == (32, 64, 16, 4)
    assert (c.learner.lr, c.learner.lam, c.learner.reward_scale, c.network.hidden) == (1e-4, 0.95, 0.1, (256, 256))
    m = preset("minatar-breakout-paper")
    assert (m.env.num_envs, m.learner.rollout_steps, m.learner.minibatches, m.learner.epochs) == (128, 32, 32, 2)
    assert (m.learner.lr, m.learner.lam, m.learner.eps_finish, m.learner.eps_decay) == (5e-4, 0.65, 0.05, 0.1)


def test_all_57_atari_games_follow_one_rule():
    games = [name for name in PRESETS if name.startswith("atari-")]
    assert games == [f"atari-{game}" for game in ATARI_57]
    for name, game in zip(games, ATARI_57, strict=True):
        pong = preset("atari-pong", {"env.name": f"atari:{game}"}, preset=name)
        assert preset(name) == pong
    a = preset("atari-pong")
    assert (a.env.num_envs, a.learner.rollout_steps, a.learner.minibatches, a.learner.epochs) == (128, 32, 32, 2)
    assert (a.learner.lr, a.learner.lr_decay, a.learner.lam, a.learner.max_grad_norm) == (2.5e-4, False, 0.65, 10)
    assert (a.learner.eps_start, a.learner.eps_finish, a.learner.eps_decay) == (1.0, 0.001, 0.1)
    assert (a.network.torso, a.network.hidden, a.network.norm, a.network.init) == (
        "nature",
        (512,),
        "layer",
        "he_normal",
    )
    assert a.total_steps == 50_000_000 and a.eval.num_envs == 8


def test_a_misspelt_preset_or_option_suggests_the_right_one():
    with pytest.raises(ConfigError, match="did you mean 'cartpole'"):
        preset("cartpol")
    with pytest.raises(ConfigError, match="did you mean 'lam'"):
        preset("cartpole", {"learner.lamm": 0.5})
