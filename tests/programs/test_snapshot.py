"""What a checkpoint holds of a compiled program: arrays by readable name, and all of the learner."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from conftest import build, run_updates, tiny

from pqn.algorithms.packing import Packed


def test_a_restored_state_is_the_saved_one_to_the_bit():
    program = build(tiny(seeds=2))
    state = run_updates(program, 2)
    saved = program.snapshot(state)
    opt = saved.learner.opt
    assert jax.tree.structure(opt.mu) == jax.tree.structure(opt.nu) == jax.tree.structure(state.learner.params)
    assert jax.tree.structure(saved) == jax.tree.structure(program.saved_shape())
    restored = program.restore(jax.tree.map(jnp.asarray, saved), lambda text: None)
    assert isinstance(restored.learner.opt.mu, Packed)
    jax.tree.map(np.testing.assert_array_equal, restored.learner, state.learner)
    assert jax.tree.structure(restored) == jax.tree.structure(state)
