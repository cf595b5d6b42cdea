"""Baird, the lemma and DeepSea, at sizes small enough for a test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.experiments import baird, deepsea, deepsea_agent, lemma
from pqn.experiments.configs import DEEPSEA_PRESETS, BairdConfig, DeepSeaConfig, LemmaConfig


@pytest.fixture(scope="module")
def baird_result():
    return baird.run(BairdConfig(arms=("none", "layer+l2"), kinds=("expected",), updates=6000, records=20, seeds=10))


def test_baird_diverges_without_normalisation_and_converges_with_layer_norm_and_l2(baird_result):
    found = baird_result.summary()["expected"]
    assert found["none"]["diverged"] == 10
    assert found["layer+l2"]["diverged"] == 0
    assert found["layer+l2"]["converged"] == 10
    assert found["layer+l2"]["growth_max"] <= 1.0 + 1e-6


def test_baird_writes_its_result_and_how_it_was_made(baird_result, tmp_path):
    paths = baird_result.save(tmp_path, command="pqn theory baird --out here")
    assert [path.name for path in paths] == ["baird.json", "baird.png"]
    content = json.loads(paths[0].read_text())
    assert content["provenance"]["command"] == "pqn theory baird --out here"
    assert content["provenance"]["versions"]["jax"]
    assert len(content["curves"]["expected"]["none"]["norm"]) == 10
    assert paths[1].stat().st_size > 10_000


def test_sampled_baird_updates_average_to_the_expected_one():
    """Over the behaviour's stationary distribution the importance-weighted TD errors are the expected update's."""
    keys = jax.random.split(jax.random.key(0), 20_000)
    states = jnp.arange(20_000) % 7
    weight, after, _ = jax.vmap(baird.sample)(keys, states)
    np.testing.assert_allclose(weight.mean(0), 1 / 7, atol=0.03)
    assert bool((after[weight.sum(1) > 0] == 6).all())


@pytest.fixture(scope="module")
def widths():
    config = LemmaConfig(widths=(64, 512), norms=("none", "layer"), seeds=2, iterations=25)
    return config, lemma.sweep_width(config, "random")


def test_the_terms_fall_with_width_as_the_lemma_says_and_only_with_its_layer_norm(widths):
    config, found = widths
    slopes = {
        norm: {q: lemma.slope(config.widths, found[norm][q], 64) for q in ("off_M", "nonlinear")} for norm in found
    }
    assert slopes["layer"]["nonlinear"] <= -0.5 + 0.15
    assert slopes["layer"]["off_M"] <= -1 + 0.15
    assert slopes["none"]["nonlinear"] > -0.3
    assert slopes["none"]["off_M"] > -0.3


def test_the_final_layer_term_obeys_its_bound_and_l2_makes_the_widest_stable(widths):
    _, found = widths
    bound = (0.99 / 2) ** 2
    assert (found["layer"]["off_w"] <= bound).all()
    assert (found["layer"]["regularised"][:, -1] < 0).all()
    assert (found["none"]["off_w"][:, -1] > bound).all()
    assert (found["none"]["regularised"][:, -1] > 0).all()


def test_deepsea_moves():
    config = DeepSeaConfig(depth=4)
    total, column = 0.0, jnp.asarray(0)
    for row in range(4):
        reward, column = deepsea_agent.move(config, jnp.asarray(row), column, jnp.asarray(True))
        total += float(reward)
    assert total == pytest.approx(0.99)  # bsuite's best return
    reward, column = deepsea_agent.move(config, jnp.asarray(0), jnp.asarray(0), jnp.asarray(False))
    assert (float(reward), int(column)) == (0.0, 0)


def test_deepsea_depth_10_is_solved():
    config = DeepSeaConfig(depth=10, norms=("layer",), ensemble=10, seeds=1, episodes=1000, chunk=50)
    result = deepsea.run(config)
    assert result.summary()["layer"]["solved"] == 1
    assert result.runs["layer"].solved()[0] < 2**10 / 2  # random exploration needs about 2^10 episodes


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_deepsea_runs_with_every_norm_and_writes_its_result(norm, tmp_path):
    small = DeepSeaConfig(depth=3, ensemble=2, hidden=(4,), seeds=2, episodes=90, chunk=45, min_replay=8)
    config = replace(small, norms=(norm,))
    result = deepsea.run(config)
    assert result.runs[norm].found.shape[0] == 2
    assert result.runs[norm].found.any()
    paths = result.save(tmp_path)
    assert [path.name for path in paths] == ["deepsea-3.json", "deepsea-3.png"]
    assert json.loads(paths[0].read_text())["summary"][norm]["seeds"] == 2


def test_bsuite_solution_criterion():
    found = np.zeros((2, 20), bool)
    found[0, [9, 10]] = True
    runs = deepsea.DeepSeaRuns(found, 0.0)
    assert runs.first_treasure() == [10, None]
    assert runs.solved() == [11, None]  # 9 bad of 11 is the first share below 0.9; 9 of 10 is not
    assert runs.regret()[:, -1].tolist() == [18, 20]


def test_presets_are_valid():
    assert list(DEEPSEA_PRESETS) == ["deepsea-20", "deepsea-30", "deepsea-40"]
    for config in DEEPSEA_PRESETS.values():
        config.validate()


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (BairdConfig(arms=("group",)), "arms has the unknown value 'group'"),
        (BairdConfig(arms=()), "arms is empty"),
        (BairdConfig(eta=1.0), "eta > 1"),
        (BairdConfig(gamma=1.0), "discount in"),
        (LemmaConfig(norms=("group",)), "norms has the unknown value 'group'"),
        (LemmaConfig(widths=(64,)), "two widths"),
        (DeepSeaConfig(norms=("group",)), "norms has the unknown value 'group'"),
        (DeepSeaConfig(batch_size=0), "batch_size is 0"),
        (DeepSeaConfig(episodes=150), "multiple of chunk"),
    ],
)
def test_bad_options_get_one_sentence(config, sentence):
    with pytest.raises(ValueError, match=sentence):
        config.validate()


def test_configs_import_without_jax():
    code = "import sys, pqn.experiments.configs; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_deepsea_seed_is_the_same_alone_and_among_others():
    config = DeepSeaConfig(depth=4, ensemble=3, hidden=(4,), min_replay=8)
    init, run_episodes = deepsea_agent.make_program(config, "layer")
    together, _ = run_episodes(init(jax.vmap(jax.random.key)(jnp.arange(3))), jnp.asarray(8), 3, True)[0]
    alone, _ = run_episodes(init(jax.vmap(jax.random.key)(jnp.arange(1, 2))), jnp.asarray(8), 3, True)[0]
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(a[1], b[0], atol=1e-5)
