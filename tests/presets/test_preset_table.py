"""Every number of every preset against a transcription of the paper's tables and of the public configurations.

`PUBLISHED` has the sources in their own words. `ROWS` says, preset by preset, which source it follows and every option
in which it does not. Those of the paper's opponents are in opponent_table.py. Nothing is taken from `pqn.presets`: a
wrong digit there is a difference here.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import opponent_table
import optax
import pytest
from opponent_table import Row

from pqn.config import Config
from pqn.envs.adapters.atari import options as atari_options
from pqn.envs.adapters.smax import OPTIONS as SMAX_OPTIONS
from pqn.experiments.configs import DEEPSEA_PRESETS, BairdConfig, DeepSeaConfig
from pqn.presets import PRESETS

# ---- what was published ----

# The published name of an option, and ours.
NAMES = {
    "TOTAL_TIMESTEPS": "total_steps",
    "NUM_ENVS": "env.num_envs",
    "NUM_STEPS": "learner.rollout_steps",
    "NUM_EPOCHS": "learner.epochs",
    "NUM_MINIBATCHES": "learner.minibatches",
    "EPS_START": "learner.eps_start",
    "EPS_FINISH": "learner.eps_finish",
    "EPS_DECAY": "learner.eps_decay",
    "LR": "learner.lr",
    "LR_LINEAR_DECAY": "learner.lr_decay",
    "MAX_GRAD_NORM": "learner.max_grad_norm",
    "GAMMA": "learner.gamma",
    "LAMBDA": "learner.lam",
    "REW_SCALE": "learner.reward_scale",
    "MEMORY_WINDOW": "learner.burn_in",
}

# Each with its file. "network" is what that file's script builds from HIDDEN_SIZE, NUM_LAYERS, NORM_TYPE, NORM_INPUT …
PUBLISHED: dict[str, dict[str, Any]] = {
    # purejaxql/config/alg/pqn_cartpole.yaml, purejaxql/pqn_gymnax.py
    "cartpole": {
        "TOTAL_TIMESTEPS": 5e5, "NUM_ENVS": 32, "NUM_STEPS": 64, "EPS_START": 1.0, "EPS_FINISH": 0.2, "EPS_DECAY": 0.2,
        "NUM_MINIBATCHES": 16, "NUM_EPOCHS": 4, "LR": 0.0001, "MAX_GRAD_NORM": 10, "LR_LINEAR_DECAY": True,
        "REW_SCALE": 0.1, "GAMMA": 0.99, "LAMBDA": 0.95,
        "network": {
            "torso": "mlp", "hidden": (256, 256), "norm": "layer", "norm_input": "none", "init": "lecun_normal",
        },
    },
    # purejaxql/config/alg/pqn_minatar.yaml, purejaxql/pqn_minatar.py; the paper's appendix: 16 filters of 3, then 128
    "minatar": {
        "TOTAL_TIMESTEPS": 1e7, "NUM_ENVS": 128, "NUM_STEPS": 32, "EPS_START": 1.0, "EPS_FINISH": 0.05,
        "EPS_DECAY": 0.1, "NUM_MINIBATCHES": 32, "NUM_EPOCHS": 2, "LR": 0.0005, "MAX_GRAD_NORM": 10,
        "LR_LINEAR_DECAY": True, "GAMMA": 0.99, "LAMBDA": 0.65,
        "network": {"torso": "minatar", "hidden": (128,), "norm": "layer", "norm_input": "none", "init": "he_normal"},
    },
    # the paper's table "Atari Hyperparameters"; purejaxql/config/alg/pqn_atari.yaml, purejaxql/pqn_atari.py
    # TOTAL_TIMESTEPS: 200M frames of the Atari-10 figure, four to a step (the yaml's default is 1e7)
    "atari": {
        "TOTAL_TIMESTEPS": 5e7, "NUM_ENVS": 128, "NUM_STEPS": 32, "EPS_START": 1.0, "EPS_FINISH": 0.001,
        "EPS_DECAY": 0.1, "NUM_EPOCHS": 2, "NUM_MINIBATCHES": 32, "LR": 0.00025, "MAX_GRAD_NORM": 10,
        "LR_LINEAR_DECAY": False, "GAMMA": 0.99, "LAMBDA": 0.65,
        "network": {"torso": "nature", "hidden": (512,), "norm": "layer", "norm_input": "none", "init": "he_normal"},
    },
    # purejaxql/config/alg/pqn_rnn_memory_chain.yaml, purejaxql/pqn_rnn_gymnax.py (which always shows the last action)
    "memory_chain": {
        "TOTAL_TIMESTEPS": 1e5, "NUM_ENVS": 32, "MEMORY_WINDOW": 4, "NUM_STEPS": 128, "EPS_START": 1.0,
        "EPS_FINISH": 0.01, "EPS_DECAY": 0.1, "NUM_MINIBATCHES": 16, "NUM_EPOCHS": 4, "LR": 0.001, "MAX_GRAD_NORM": 10,
        "LR_LINEAR_DECAY": False, "REW_SCALE": 1.0, "GAMMA": 0.99, "LAMBDA": 0.95,
        "network": {
            "torso": "mlp", "hidden": (256, 256), "norm": "layer", "norm_input": "none", "init": "lecun_normal",
            "memory": "gru", "memory_size": 256, "last_action": True,
        },
    },
    # purejaxql/config/alg/pqn_rnn_cartpole.yaml, purejaxql/pqn_rnn_gymnax.py
    "cartpole_rnn": {
        "TOTAL_TIMESTEPS": 5e5, "NUM_ENVS": 32, "MEMORY_WINDOW": 4, "NUM_STEPS": 64, "EPS_START": 1.0,
        "EPS_FINISH": 0.2, "EPS_DECAY": 0.2, "NUM_MINIBATCHES": 16, "NUM_EPOCHS": 4, "LR": 0.0001, "MAX_GRAD_NORM": 10,
        "LR_LINEAR_DECAY": True, "REW_SCALE": 0.1, "GAMMA": 0.99, "LAMBDA": 0.95,
        "network": {
            "torso": "mlp", "hidden": (256, 256), "norm": "layer", "norm_input": "none", "init": "lecun_normal",
            "memory": "gru", "memory_size": 256, "last_action": True,
        },
    },
    # purejaxql/config/alg/pqn_craftax.yaml (4 × 1024), purejaxql/pqn_craftax.py: the input norm is a batch renorm
    "craftax": {
        "TOTAL_TIMESTEPS": 1e9, "NUM_ENVS": 1024, "NUM_STEPS": 1, "EPS_START": 0.1, "EPS_FINISH": 0.005,
        "EPS_DECAY": 0.2, "NUM_MINIBATCHES": 1, "NUM_EPOCHS": 1, "LR": 0.0001, "MAX_GRAD_NORM": 1.0,
        "LR_LINEAR_DECAY": True, "REW_SCALE": 1.0, "GAMMA": 0.99, "LAMBDA": 0,
        "network": {
            "torso": "mlp", "hidden": (1024, 1024, 1024, 1024), "norm": "layer", "norm_input": "batch_renorm",
            "init": "lecun_normal",
        },
    },
    # the paper's table "Craftax RNN Hyperparameters"; purejaxql/config/alg/pqn_rnn_craftax.yaml,
    # purejaxql/pqn_rnn_craftax.py: what NORM_TYPE calls "batch_norm" is a batch renorm, and so is the input norm
    "craftax_rnn": {
        "TOTAL_TIMESTEPS": 1e9, "NUM_ENVS": 1024, "MEMORY_WINDOW": 0, "NUM_STEPS": 128, "EPS_START": 1.0,
        "EPS_FINISH": 0.005, "EPS_DECAY": 0.1, "NUM_MINIBATCHES": 4, "NUM_EPOCHS": 4, "LR": 0.0003,
        "MAX_GRAD_NORM": 0.5, "LR_LINEAR_DECAY": True, "REW_SCALE": 1.0, "GAMMA": 0.99, "LAMBDA": 0.5,
        "network": {
            "torso": "mlp", "hidden": (512,), "norm": "batch_renorm", "norm_input": "batch_renorm",
            "init": "lecun_normal", "memory": "lstm", "memory_size": 512, "memory_layers": 1, "last_action": True,
        },
    },
    # the paper's table "SMAX Hyperparameters"; purejaxql/config/alg/pqn_vdn_rnn_smax.yaml,
    # purejaxql/pqn_vdn_rnn_jaxmarl.py: CTRolloutManager with preprocess_obs appends agent ids
    "smax": {
        "TOTAL_TIMESTEPS": 1e7, "NUM_ENVS": 128, "MEMORY_WINDOW": 4, "NUM_STEPS": 128, "EPS_START": 1.0,
        "EPS_FINISH": 0.01, "EPS_DECAY": 0.1, "MAX_GRAD_NORM": 1, "NUM_MINIBATCHES": 16, "NUM_EPOCHS": 4,
        "LR": 0.00025, "LR_LINEAR_DECAY": True, "GAMMA": 0.99, "LAMBDA": 0.85, "REW_SCALE": 10.0,
        "network": {
            "torso": "mlp", "hidden": (512, 512), "norm": "batch", "norm_input": "batch", "init": "lecun_normal",
            "memory": "gru", "memory_size": 512, "agent_id": True,
        },
    },
    # the paper's table of Overcooked; JaxMARL: baselines/QLearning/config/alg/pqn_vdn_cnn_overcooked.yaml,
    # and pqn_vdn_cnn_overcooked.py: preprocess_obs=False, so no agent ids
    "overcooked": {
        "TOTAL_TIMESTEPS": 5e6, "NUM_ENVS": 64, "NUM_STEPS": 16, "EPS_START": 1.0, "EPS_FINISH": 0.2, "EPS_DECAY": 0.2,
        "MAX_GRAD_NORM": 10, "NUM_MINIBATCHES": 16, "NUM_EPOCHS": 4, "LR": 0.000075, "LR_LINEAR_DECAY": True,
        "GAMMA": 0.99, "LAMBDA": 0.5,
        "network": {
            "torso": "grid", "hidden": (512, 512), "norm": "layer", "norm_input": "none", "init": "lecun_normal",
            "agent_id": False,
        },
    },
    # the paper's table "Hanabi Hyperparameters"; JaxMARL/baselines/QLearning/config/alg/pqn_vdn_ff_hanabi.yaml,
    # pqn_vdn_ff.py: preprocess_obs=True
    "hanabi": {
        "TOTAL_TIMESTEPS": 1e10, "NUM_ENVS": 1024, "NUM_STEPS": 1, "EPS_START": 0.01, "EPS_FINISH": 0.001,
        "EPS_DECAY": 0.1, "MAX_GRAD_NORM": 0.5, "NUM_MINIBATCHES": 1, "NUM_EPOCHS": 1, "LR": 0.0003,
        "LR_LINEAR_DECAY": False, "GAMMA": 0.99, "LAMBDA": 0.0,
        "network": {
            "torso": "mlp", "hidden": (512, 512, 512), "norm": "layer", "norm_input": "none", "init": "lecun_normal",
            "head": "dueling", "agent_id": True,
        },
    },
}  # fmt: skip

# What all public scripts have in common and no configuration mentions: RAdam, VDN, float32, no ℓ2, a time limit that
# counts as an end; recurrent ones compute targets in every minibatch, from whole rollouts. The rest is not about
# learning, and of no source: how often is evaluated and saved.
COMMON: dict[str, Any] = {
    "seed": 0, "seeds": 1, "shards": 1, "env.kwargs": {}, "simulators.cores": "reserved",
    "network.head": "linear", "network.conv": "matmul", "network.memory": "none", "network.memory_size": 128,
    "network.memory_layers": 1, "network.last_action": False, "network.last_reward": False, "network.agent_id": False,
    "network.dtype": "float32",
    "learner.segment_length": 0, "learner.burn_in": 0, "learner.targets": "rollout", "learner.optimizer": "radam",
    "learner.mixer": "vdn", "learner.mixer_size": 32, "learner.reward_scale": 1.0, "learner.l2_final": 0.0,
    "learner.l2_inner": 0.0, "simulators.overlap": False, "learner.bootstrap_truncation": False,
    "eval.count": 10, "eval.num_envs": 64, "simulators.greedy_envs": 8, "eval.epsilon": 0.0, "eval.max_steps": 0,
    "save.checkpoints": 10, "save.keep": 3, "save.minutes": 10.0, "log.rows": 100, "log.stability": 0,
    "log.to": (),
}  # fmt: skip


# ---- what each preset makes of it ----


BOOTSTRAP = {"learner.bootstrap_truncation": True}
PLAIN_MEMORY = BOOTSTRAP | {"network.last_action": False, "learner.burn_in": 0}
FRESH = {"learner.targets": "minibatch"}
CRAFTAX_OURS = BOOTSTRAP | {"env.kwargs": {"max_timesteps": 10_000}, "eval.num_envs": 128}
CRAFTAX_PAPER = {  # USE_OPTIMISTIC_RESETS, OPTIMISTIC_RESET_RATIO 16: 1024/16 worlds per step; TEST_NUM_STEPS 10 000
    "env.kwargs": {"reset_ratio": 16, "reset_every": 1}, "eval.num_envs": 128, "eval.max_steps": 10_000,
}  # fmt: skip
MULTI_EVAL = {"eval.count": 20}  # TEST_INTERVAL 0.05

ROWS: dict[str, Row] = {
    "cartpole": Row(
        "cartpole",
        "CartPole-v1",
        BOOTSTRAP
        | {
            "total_steps": 300_000,
            "network.hidden": (64, 64),
            "learner.rollout_steps": 32,
            "learner.minibatches": 8,
            "learner.lr": 0.001,
            "learner.eps_finish": 0.1,
            "learner.eps_decay": 0.3,
        },
    ),
    "cartpole-paper": Row("cartpole", "CartPole-v1", {}),
    "acrobot": Row("cartpole", "Acrobot-v1", BOOTSTRAP),
    "acrobot-paper": Row("cartpole", "Acrobot-v1", {}),
    "memory-chain": Row(
        "memory_chain",
        "MemoryChain-bsuite",
        PLAIN_MEMORY | {"total_steps": 1_000_000, "env.kwargs": {"memory_length": 100}},
    ),
    "memory-chain-paper": Row("memory_chain", "MemoryChain-bsuite", FRESH | {"env.kwargs": {"memory_length": 100}}),
    "cartpole-rnn": Row("cartpole_rnn", "CartPole-v1", PLAIN_MEMORY | {"env.kwargs": {"observe": [0, 2]}}),
    "craftax": Row("craftax", "Craftax-Symbolic-v1", CRAFTAX_OURS),
    "craftax-paper": Row("craftax", "Craftax-Symbolic-v1", CRAFTAX_PAPER),
    "craftax-rnn": Row("craftax_rnn", "Craftax-Symbolic-v1", CRAFTAX_OURS | {"network.norm": "layer"}),
    "craftax-rnn-paper": Row("craftax_rnn", "Craftax-Symbolic-v1", CRAFTAX_PAPER | FRESH),
    "craftax-classic": Row("craftax", "Craftax-Classic-Symbolic-v1", CRAFTAX_OURS | {"total_steps": 100_000_000}),
    "craftax-classic-rnn": Row(
        "craftax_rnn",
        "Craftax-Classic-Symbolic-v1",
        CRAFTAX_OURS | {"network.norm": "layer", "total_steps": 100_000_000},
    ),
    "hanabi": Row("hanabi", "hanabi:2", BOOTSTRAP | {"eval.count": 100, "eval.num_envs": 1024}),
    # Half the published 0.5, for a loss of half the size.
    "hanabi-paper": Row(
        "hanabi", "hanabi:2", {"learner.max_grad_norm": 0.25, "eval.count": 100, "eval.num_envs": 1024}
    ),
    "mpe-spread": Row(  # our own choice: no source
        None,
        "mpe:simple_spread",
        BOOTSTRAP
        | {
            "total_steps": 1_000_000,
            "env.num_envs": 32,
            "network.torso": "mlp",
            "network.hidden": (64, 64),
            "network.norm": "layer",
            "network.norm_input": "none",
            "network.init": "lecun_normal",
            "network.agent_id": True,
            "learner.rollout_steps": 26,
            "learner.epochs": 2,
            "learner.minibatches": 8,
            "learner.lr": 0.001,
            "learner.lr_decay": True,
            "learner.max_grad_norm": 10.0,
            "learner.gamma": 0.9,
            "learner.lam": 0.9,
            "learner.eps_start": 1.0,
            "learner.eps_finish": 0.05,
            "learner.eps_decay": 0.2,
            "eval.num_envs": 256,
        },
    ),
}
for _game in ("Asterix", "Breakout", "Freeway", "SpaceInvaders", "Seaquest"):
    ROWS[f"minatar-{_game.lower()}"] = Row("minatar", f"{_game}-MinAtar", BOOTSTRAP)
    ROWS[f"minatar-{_game.lower()}-paper"] = Row("minatar", f"{_game}-MinAtar", {})
MAPS = (
    "2s3z", "3s5z", "3s_vs_5z", "5m_vs_6m", "6h_vs_8z", "10m_vs_11m", "3s5z_vs_3s6z", "smacv2_5_units",
    "smacv2_10_units",
)  # fmt: skip
LAYOUTS = ("cramped_room", "asymm_advantages", "coord_ring", "forced_coord", "counter_circuit")
for _map in MAPS:
    _eval = MULTI_EVAL | {"eval.num_envs": 128}  # TEST_NUM_ENVS
    ROWS[f"smax-{_map}"] = Row("smax", f"smax:{_map}", BOOTSTRAP | _eval)
    # Half the published 1, for a loss of half the size; a dead unit may stop.
    _own = FRESH | {"learner.max_grad_norm": 0.5, "env.kwargs": {"dead_may_stop": True}}
    ROWS[f"smax-{_map}-paper"] = Row("smax", f"smax:{_map}", _own | _eval)
for _layout in LAYOUTS:
    # REW_SHAPING_HORIZON: 2.5e6 steps of 64 environments together. The fused kernels compute the same network.
    _own = MULTI_EVAL | {"env.kwargs": {"shaping_steps": 39_062}, "network.conv": "fused"}
    ROWS[f"overcooked-{_layout}"] = Row("overcooked", f"overcooked:{_layout}", BOOTSTRAP | _own)
    # Half the published 10, for a loss of half the size.
    ROWS[f"overcooked-{_layout}-paper"] = Row(
        "overcooked", f"overcooked:{_layout}", _own | {"learner.max_grad_norm": 5.0}
    )
ATARI = (
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone", "beam_rider",
    "berzerk", "bowling", "boxing", "breakout", "centipede", "chopper_command", "crazy_climber", "defender",
    "demon_attack", "double_dunk", "enduro", "fishing_derby", "freeway", "frostbite", "gopher", "gravitar", "hero",
    "ice_hockey", "jamesbond", "kangaroo", "krull", "kung_fu_master", "montezuma_revenge", "ms_pacman",
    "name_this_game", "phoenix", "pitfall", "pong", "private_eye", "qbert", "riverraid", "road_runner", "robotank",
    "seaquest", "skiing", "solaris", "space_invaders", "star_gunner", "surround", "tennis", "time_pilot", "tutankham",
    "up_n_down", "venture", "video_pinball", "wizard_of_wor", "yars_revenge", "zaxxon",
)  # fmt: skip
for _game in ATARI:
    _own = {"env.kwargs": {"protocol": "paper"}, "eval.num_envs": 8}  # TEST_ENVS
    ROWS[f"atari-{_game}"] = Row("atari", f"atari:{_game}", BOOTSTRAP | _own)
    ROWS[f"atari-{_game}-paper"] = Row("atari", f"atari:{_game}", _own)
NAMES |= opponent_table.NAMES
PUBLISHED |= opponent_table.PUBLISHED
ROWS |= opponent_table.ROWS | opponent_table.more_rows(MAPS, LAYOUTS, ATARI)


# ---- the comparison ----


def flat(config: Config) -> dict[str, Any]:
    """Every option by its command-line name; the preset's own name is none."""
    options: dict[str, Any] = {}
    for name, value in dataclasses.asdict(config).items():
        options |= {f"{name}.{part}": v for part, v in value.items()} if isinstance(value, dict) else {name: value}
    options.pop("preset")
    return options


def expected(row: Row) -> dict[str, Any]:
    source = dict(PUBLISHED[row.source]) if row.source else {}
    network = {f"network.{part}": value for part, value in source.pop("network", {}).items()}
    network |= source.pop("script", {})
    named = {NAMES[key]: value for key, value in source.items()}
    return COMMON | network | named | {"env.name": row.env} | row.own


def test_every_preset_has_a_row_and_every_row_a_preset():
    assert set(ROWS) == set(PRESETS) and len(ATARI) == 57


@pytest.mark.parametrize("name", list(PRESETS))
def test_numbers_are_those_of_the_table(name):
    found, wanted = flat(PRESETS[name].config), expected(ROWS[name])
    # An option that is newer than this table must be left alone by a preset that has no word about it.
    wanted = {key: value for key, value in flat(Config()).items() if key not in wanted} | wanted
    assert (
        {k: v for k, v in found.items() if v != wanted.get(k)}
        == {k: v for k, v in wanted.items() if v != found.get(k)}
        == {}
    )
    assert all(type(found[k]) is type(v) or isinstance(v, int | float) for k, v in wanted.items())


def test_without_a_preset_the_numbers_are_those_of_cartpole():
    """`pqn train --env NAME`: the published configuration, of true rewards and with true values at the time limit."""
    wanted = expected(Row("cartpole", "CartPole-v1", BOOTSTRAP | {"learner.reward_scale": 1.0}))
    found = flat(Config())
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("name", list(PRESETS))
def test_whoever_differs_from_its_source_says_so(name):
    """And names a source at all; a preset of our own choice has nothing to differ from."""
    row, entry = ROWS[name], PRESETS[name]
    unspoken = {"env.kwargs", "network.conv", "eval.num_envs", "eval.count", "eval.max_steps"}
    assert entry.source
    if not entry.source.startswith("our own") and set(row.own) - unspoken - set(FRESH):
        assert entry.deviations
    bootstraps = any("bootstraps from its true last observation" in each for each in entry.deviations)
    limited = not any(task in name for task in ("hanabi", "mpe-", "cartpole")) or name == "cartpole-rnn"
    differs = expected(row)["learner.bootstrap_truncation"] and name not in ALWAYS_DID
    if entry.config.replays:  # a buffer does not keep the last observation: neither an end nor a bootstrap
        assert not bootstraps and any("a time limit cuts has no loss" in each for each in entry.deviations)
    else:
        assert bootstraps == (differs and limited)


ALWAYS_DID = {"ppo-cartpole", "ppo-acrobot"}  # Stable-Baselines3 bootstraps at the time limit


def test_every_experiment_of_the_paper_has_its_paper_preset():
    families = (
        "cartpole",
        "acrobot",
        "minatar-asterix",
        "minatar-breakout",
        "minatar-freeway",
        "minatar-spaceinvaders",
    )
    families += ("craftax", "craftax-rnn", "hanabi", "memory-chain")
    several = [name for name in PRESETS if name.startswith(("smax-", "overcooked-", "atari-", "minatar-"))]
    for name in (*families, *(n for n in several if not n.endswith("-paper"))):
        assert not PRESETS[f"{name}-paper"].config.learner.bootstrap_truncation
        assert "as published" in PRESETS[f"{name}-paper"].description


def test_environments_default_to_what_was_published():
    """What the presets leave to the environment: ENV_KWARGS of pqn_vdn_rnn_smax.yaml and of pqn_atari.yaml."""
    smax = {"see_enemy_actions": True, "walls_cause_death": True, "attack_mode": "closest"}
    assert smax == {name: SMAX_OPTIONS[name].default for name in smax}
    atari = {"episodic_life": True, "clip_rewards": True, "sticky_actions": 0.0, "frame_skip": 4, "noop_max": 30}
    found = atari_options("paper")
    assert atari == {name: found[name].default for name in atari}


def test_half_the_clip_is_the_same_clipping_for_half_the_loss():
    """What the multi-agent `-paper` presets rely on: RAdam does not see the scale, after its first five steps."""
    published, ours = (optax.chain(optax.clip_by_global_norm(c), optax.scale_by_radam()) for c in (1.0, 0.5))
    states = [published.init(np.zeros(3, np.float32)), ours.init(np.zeros(3, np.float32))]
    rng = np.random.default_rng(0)
    for step in range(1, 12):
        gradient = (rng.normal(size=3) * rng.choice([0.1, 1.0, 3.0])).astype(
            np.float32
        )  # some are clipped, some are not
        whole, states[0] = published.update(2 * gradient, states[0])
        half, states[1] = ours.update(gradient, states[1])
        np.testing.assert_allclose(whole, np.asarray(half) * (2 if step <= 5 else 1), rtol=1e-5)


# ---- theory ----

# bsuite/baselines/tf/boot_dqn/agent.py, `default_agent`; no ε, as in run.py beside it. Environment: deep_sea.py
BSUITE = {
    "ensemble": 20,
    "hidden": (50, 50),
    "prior_scale": 3.0,
    "learning_rate": 1e-3,
    "batch_size": 128,
    "replay_capacity": 10_000,
    "min_replay": 128,
    "sgd_period": 1,
    "mask_probability": 0.5,
    "gamma": 0.99,
    "move_cost": 0.01,
    "episodes": 10_000,
}


@pytest.mark.parametrize("depth", [20, 30, 40])
def test_deepsea_has_bsuites_numbers(depth):
    config = DEEPSEA_PRESETS[f"deepsea-{depth}"]
    own = {"depth": depth, "norms": ("none", "layer", "batch"), "batch_norm_momentum": 0.9, "chunk": 100}
    own |= {"stop_when_solved": True, "seeds": 10, "seed": 0}
    assert dataclasses.asdict(config) == BSUITE | own
    assert dataclasses.replace(config, depth=DeepSeaConfig.depth) == DeepSeaConfig()


def test_baird_has_sutton_and_bartos_numbers_and_the_papers_network():
    config = BairdConfig()
    assert (config.gamma, config.learning_rate, config.width) == (0.99, 0.01, 16)
    assert set(config.arms) == {"linear", "linear+l2", "none", "l2", "layer", "layer+l2", "batch"}
    assert (config.eta, config.l2_final, config.l2_inner, config.pre, config.post) == (
        1.01, None, None, "identity", "identity",
    )  # fmt: skip
