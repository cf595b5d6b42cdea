"""What was published for the paper's opponents, transcribed from the sources in their own words, and what each preset
makes of it. `test_preset_table.py` compares; nothing here is taken from `pqn.presets`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    source: str | None
    env: str
    own: dict[str, Any]
    """Every option that differs from the source."""


# The names of JaxMARL, of Craftax_Baselines and of the paper's own PPO, and ours.
NAMES = {
    "UPDATE_EPOCHS": "learner.epochs",
    "GAE_LAMBDA": "learner.lam",
    "ANNEAL_LR": "learner.lr_decay",
    "CLIP_EPS": "ppo.clip",
    "ENT_COEF": "ppo.entropy",
    "VF_COEF": "ppo.value_weight",  # of ½ (R − V)², there as here
    "BUFFER_SIZE": "replay.size",
    "BUFFER_BATCH_SIZE": "replay.batch",
    "LEARNING_STARTS": "replay.start",
    "TARGET_UPDATE_INTERVAL": "target.interval",
    "TAU": "target.rate",
    "GRADIENT_STEPS": "learner.minibatches",  # what their Q-learning calls NUM_EPOCHS: each has its own sample
    "MIXER_EMBEDDING_DIM": "learner.mixer_size",
}

# What the scripts do and no configuration says. They clip values, normalise advantages and use Adam.
PURE_PPO = {"algorithm": "ppo", "learner.optimizer": "adam", "ppo.clip_value": True, "ppo.normalize": True}
ONE_SAMPLE = {"learner.epochs": 1}  # a gradient step has a sample of its own
RADAM_DQN = {"algorithm": "dqn", "learner.optimizer": "radam", "target.loss": "squared"} | ONE_SAMPLE
DENSE = {"torso": "mlp", "norm": "none", "norm_input": "none", "activation": "relu"}
ORTHOGONAL = DENSE | {"init": "orthogonal"}
LECUN = DENSE | {"init": "lecun_normal"}

PUBLISHED: dict[str, dict[str, Any]] = {
    # purejaxql/config/alg/ppo_minatar.yaml, purejaxql/ppo_minatar.py: two networks of 16 filters of 3 and 128 units
    "ppo_minatar": {
        "TOTAL_TIMESTEPS": 1e7, "NUM_ENVS": 64, "NUM_STEPS": 128, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 8,
        "LR": 0.005, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2, "ENT_COEF": 0.0001, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"torso": "minatar", "hidden": (128,)},
        "script": PURE_PPO | {"ppo.critic": "separate"},
    },
    # Craftax_Baselines: ppo.py; models/actor_critic.py: three tanh layers for the actor and three for the critic
    "ppo_craftax": {
        "TOTAL_TIMESTEPS": 1e9, "NUM_ENVS": 1024, "NUM_STEPS": 64, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 8,
        "LR": 2e-4, "GAMMA": 0.99, "GAE_LAMBDA": 0.8, "CLIP_EPS": 0.2, "ENT_COEF": 0.01, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 1.0, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"hidden": (512, 512, 512), "activation": "tanh"},
        "script": PURE_PPO | {"ppo.critic": "separate"},
    },
    # Craftax_Baselines: ppo_rnn.py; a layer and a GRU of 512 for both actor and critic
    "ppo_rnn_craftax": {
        "TOTAL_TIMESTEPS": 1e9, "NUM_ENVS": 1024, "NUM_STEPS": 64, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 8,
        "LR": 2e-4, "GAMMA": 0.99, "GAE_LAMBDA": 0.8, "CLIP_EPS": 0.2, "ENT_COEF": 0.01, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 1.0, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"hidden": (512,), "memory": "gru", "memory_size": 512},
        "script": PURE_PPO | {"ppo.critic": "shared"},
    },
    # JaxMARL: baselines/MAPPO/config/mappo_homogenous_rnn_smax.yaml, mappo_rnn_smax.py: FC_DIM_SIZE, GRU_HIDDEN_DIM 128
    "mappo_smax": {
        "TOTAL_TIMESTEPS": 1e7, "NUM_ENVS": 128, "NUM_STEPS": 128, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 4,
        "LR": 0.002, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2, "ENT_COEF": 0.0, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.25, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"hidden": (128,), "memory": "gru", "memory_size": 128},
        "script": PURE_PPO | {"ppo.critic": "world"},
    },
    # JaxMARL: baselines/IPPO/config/ippo_rnn_smax.yaml, ippo_rnn_smax.py
    "ippo_smax": {
        "TOTAL_TIMESTEPS": 1e7, "NUM_ENVS": 128, "NUM_STEPS": 128, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 4,
        "LR": 0.004, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.05, "ENT_COEF": 0.01, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.25, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"hidden": (128,), "memory": "gru", "memory_size": 128},
        "script": PURE_PPO | {"ppo.critic": "shared"},
    },
    # JaxMARL: baselines/IPPO/config/ippo_cnn_overcooked.yaml, ippo_cnn_overcooked.py
    "ippo_overcooked": {
        "TOTAL_TIMESTEPS": 5e6, "NUM_ENVS": 64, "NUM_STEPS": 256, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 16,
        "LR": 0.0005, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2, "ENT_COEF": 0.01, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"torso": "grid", "hidden": (64, 64)},
        "script": PURE_PPO | {"ppo.critic": "shared"},
    },
    # JaxMARL: baselines/MAPPO/config/mappo_homogenous_ff_hanabi.yaml, mappo_ff_hanabi.py: FC_DIM_SIZE 128, two layers
    "mappo_hanabi": {
        "TOTAL_TIMESTEPS": 1e10, "NUM_ENVS": 1024, "NUM_STEPS": 128, "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 4,
        "LR": 5e-4, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2, "ENT_COEF": 0.01, "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5, "ANNEAL_LR": True,
        "network": ORTHOGONAL | {"hidden": (128, 128)},
        "script": PURE_PPO | {"ppo.critic": "world"},
    },
    # JaxMARL: baselines/QLearning/config/alg/ql_rnn_smax.yaml, qmix_rnn.py: actions by the network, values by the
    # target network; BUFFER_SIZE 5000 rollouts of 128 steps; CTRolloutManager appends agent ids
    "qmix_smax": {
        "TOTAL_TIMESTEPS": 1e7, "NUM_ENVS": 16, "NUM_STEPS": 128, "BUFFER_SIZE": 5000 * 128, "BUFFER_BATCH_SIZE": 32,
        "MIXER_EMBEDDING_DIM": 64, "EPS_START": 1.0, "EPS_FINISH": 0.05, "EPS_DECAY": 0.1, "MAX_GRAD_NORM": 10,
        "TARGET_UPDATE_INTERVAL": 10, "TAU": 1.0, "GRADIENT_STEPS": 8, "LR": 0.00005, "LEARNING_STARTS": 10000,
        "LR_LINEAR_DECAY": False, "GAMMA": 0.99, "REW_SCALE": 10.0,
        "network": LECUN | {"hidden": (512,), "memory": "gru", "memory_size": 512, "agent_id": True},
        "script": RADAM_DQN | {"learner.mixer": "qmix", "target.double": True},
    },
    # JaxMARL: baselines/QLearning/config/alg/ql_cnn_overcooked.yaml, vdn_cnn_overcooked.py: 64 units after the
    # convolutions, then HIDDEN_SIZE 64; the greatest value of the target network
    "vdn_overcooked": {
        "TOTAL_TIMESTEPS": 5e6, "NUM_ENVS": 32, "NUM_STEPS": 1, "BUFFER_SIZE": 1e5, "BUFFER_BATCH_SIZE": 128,
        "EPS_START": 1.0, "EPS_FINISH": 0.05, "EPS_DECAY": 0.1, "LEARNING_STARTS": 1e3, "MAX_GRAD_NORM": 1,
        "TARGET_UPDATE_INTERVAL": 10, "GRADIENT_STEPS": 4, "LR": 0.00007, "LR_LINEAR_DECAY": True, "GAMMA": 0.99,
        "TAU": 1.0,
        "network": LECUN | {"torso": "grid", "hidden": (64, 64)},
        "script": RADAM_DQN | {"learner.mixer": "vdn", "target.double": False},
    },
}  # fmt: skip

# RL Baselines3 Zoo: hyperparams/ppo.yml and dqn.yml. What they leave out are defaults of Stable-Baselines3.
ZOO_PPO = {
    "CartPole-v1": {
        "n_envs": 8, "n_timesteps": 1e5, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98,
        "n_epochs": 20, "ent_coef": 0.0, "learning_rate": "lin_0.001", "clip_range": "lin_0.2",
    },
    "Acrobot-v1": {
        "n_envs": 16, "n_timesteps": 1e6, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4,
        "ent_coef": 0.0,
    },
}  # fmt: skip
SB3_PPO = {"batch_size": 64, "learning_rate": 3e-4, "clip_range": 0.2, "vf_coef": 0.5, "max_grad_norm": 0.5}
ZOO_DQN = {
    "CartPole-v1": {
        "n_timesteps": 5e4, "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100000, "learning_starts": 1000,
        "gamma": 0.99, "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128,
        "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
    },
    "Acrobot-v1": {
        "n_timesteps": 1e5, "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50000, "learning_starts": 0,
        "gamma": 0.99, "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1,
        "exploration_fraction": 0.12, "exploration_final_eps": 0.1,
    },
}  # fmt: skip


def options_of(network: dict[str, Any]) -> dict[str, Any]:
    return {f"network.{name}": value for name, value in network.items()}


def zoo_ppo(env: str) -> dict[str, Any]:
    """Stable-Baselines3's MlpPolicy: two networks of two tanh layers of 64, orthogonal; its value loss has no ½."""
    numbers = SB3_PPO | ZOO_PPO[env]
    lr, clip = (float(str(numbers[name]).removeprefix("lin_")) for name in ("learning_rate", "clip_range"))
    return options_of(ORTHOGONAL | {"hidden": (64, 64), "activation": "tanh"}) | {
        "algorithm": "ppo", "learner.optimizer": "adam", "learner.bootstrap_truncation": True, "ppo.critic": "separate",
        "ppo.normalize": True, "ppo.clip_value": False, "total_steps": numbers["n_timesteps"],
        "env.num_envs": numbers["n_envs"], "learner.rollout_steps": numbers["n_steps"],
        "learner.minibatches": numbers["n_envs"] * numbers["n_steps"] // numbers["batch_size"],
        "learner.epochs": numbers["n_epochs"], "learner.lr": lr,
        "learner.lr_decay": str(numbers["learning_rate"]).startswith("lin_"), "learner.gamma": numbers["gamma"],
        "learner.lam": numbers["gae_lambda"], "learner.max_grad_norm": numbers["max_grad_norm"], "ppo.clip": clip,
        "ppo.entropy": numbers["ent_coef"], "ppo.value_weight": 2 * numbers["vf_coef"],
    }  # fmt: skip


def zoo_dqn(env: str) -> dict[str, Any]:
    """Stable-Baselines3's DQN has one environment, the Huber loss, a clip of 10, and starts with ε = 1."""
    numbers = ZOO_DQN[env]
    every = numbers["train_freq"]
    steps = numbers["gradient_steps"] if numbers["gradient_steps"] > 0 else every  # -1: as many as there were steps
    return options_of(LECUN | {"hidden": (256, 256)}) | ONE_SAMPLE | {
        "algorithm": "dqn", "learner.optimizer": "adam", "learner.bootstrap_truncation": True, "target.loss": "huber",
        "total_steps": numbers["n_timesteps"], "env.num_envs": 1, "learner.rollout_steps": every,
        "learner.minibatches": steps, "learner.lr": numbers["learning_rate"], "learner.lr_decay": False,
        "learner.gamma": numbers["gamma"], "learner.max_grad_norm": 10.0, "learner.eps_start": 1.0,
        "learner.eps_finish": numbers["exploration_final_eps"], "learner.eps_decay": numbers["exploration_fraction"],
        "replay.size": numbers["buffer_size"], "replay.start": numbers["learning_starts"],
        "replay.batch": numbers["batch_size"],
        "target.interval": max(1, numbers["target_update_interval"] // every),  # trainings, for steps
    }  # fmt: skip


# CleanRL: cleanrl/dqn_atari_jax.py, with eight games that step together; its loss is not clipped, nor its gradients.
CLEANRL_DQN = options_of(LECUN | {"torso": "nature", "hidden": (512,)}) | ONE_SAMPLE | {
    "algorithm": "dqn", "learner.optimizer": "adam", "target.loss": "squared", "total_steps": 10_000_000,
    "learner.lr": 1e-4, "learner.lr_decay": False, "replay.size": 1_000_000, "learner.gamma": 0.99, "target.rate": 1.0,
    "target.interval": 1000 // 8, "replay.batch": 32, "learner.eps_start": 1.0, "learner.eps_finish": 0.01,
    "learner.eps_decay": 0.10, "replay.start": 80_000, "env.num_envs": 8, "learner.rollout_steps": 1,
    "learner.minibatches": 8 // 4, "learner.max_grad_norm": 1e9, "learner.bootstrap_truncation": True,
}  # fmt: skip
# CleanRL: cleanrl/ppo_atari_envpool.py
CLEANRL_PPO = options_of(ORTHOGONAL | {"torso": "nature", "hidden": (512,)}) | PURE_PPO | {
    "ppo.critic": "shared", "learner.lr": 2.5e-4, "env.num_envs": 8, "learner.rollout_steps": 128,
    "learner.lr_decay": True, "learner.gamma": 0.99, "learner.lam": 0.95, "learner.minibatches": 4,
    "learner.epochs": 4, "ppo.clip": 0.1, "ppo.entropy": 0.01, "ppo.value_weight": 0.5, "learner.max_grad_norm": 0.5,
}  # fmt: skip
# MinAtar: examples/dqn.py; 32 environments, a gradient step for every four steps.
MINATAR_DQN = options_of(LECUN | {"torso": "minatar", "hidden": (128,)}) | ONE_SAMPLE | {
    "algorithm": "dqn", "learner.optimizer": "adam", "target.loss": "huber", "replay.batch": 32, "replay.size": 100_000,
    "target.interval": 1000 // 32, "replay.start": 5_000, "learner.eps_start": 1.0, "learner.eps_finish": 0.1,
    "learner.eps_decay": 100_000 / 10_000_000, "learner.lr": 0.00025, "learner.lr_decay": False,
    "learner.gamma": 0.99, "env.num_envs": 32, "learner.rollout_steps": 1, "learner.minibatches": 32 // 4,
    "learner.max_grad_norm": 1e9, "total_steps": 10_000_000, "learner.bootstrap_truncation": True,
}  # fmt: skip

BOOTSTRAP = {"learner.bootstrap_truncation": True}
CRAFTAX = BOOTSTRAP | {"env.kwargs": {"max_timesteps": 10_000}, "eval.num_envs": 128}
SMAX = BOOTSTRAP | {"eval.count": 20, "eval.num_envs": 128}
OVERCOOKED = BOOTSTRAP | {"eval.count": 20}
# The paper names the size of the buffer only; the rest is the public configuration of Craftax.
PQN_REPLAY = {"algorithm": "pqn-replay", "replay.size": 1_000_000, "replay.start": 10_240, "replay.batch": 1024}

ROWS: dict[str, Row] = {
    "dqn-cartpole": Row(None, "CartPole-v1", zoo_dqn("CartPole-v1")),
    "dqn-acrobot": Row(None, "Acrobot-v1", zoo_dqn("Acrobot-v1")),
    "ppo-cartpole": Row(None, "CartPole-v1", zoo_ppo("CartPole-v1")),
    "ppo-acrobot": Row(None, "Acrobot-v1", zoo_ppo("Acrobot-v1")),
    "ppo-craftax": Row("ppo_craftax", "Craftax-Symbolic-v1", CRAFTAX),
    "ppo-rnn-craftax": Row("ppo_rnn_craftax", "Craftax-Symbolic-v1", CRAFTAX),
    "pqn-replay-craftax": Row("craftax", "Craftax-Symbolic-v1", CRAFTAX | PQN_REPLAY),
    "mappo-hanabi": Row("mappo_hanabi", "hanabi:2", BOOTSTRAP | {"eval.count": 100, "eval.num_envs": 1024}),
}
for _game in ("Asterix", "Breakout", "Freeway", "SpaceInvaders"):
    ROWS[f"ppo-minatar-{_game.lower()}"] = Row("ppo_minatar", f"{_game}-MinAtar", BOOTSTRAP)
    ROWS[f"dqn-minatar-{_game.lower()}"] = Row(None, f"{_game}-MinAtar", MINATAR_DQN)


def more_rows(maps: tuple[str, ...], layouts: tuple[str, ...], games: tuple[str, ...]) -> dict[str, Row]:
    """The opponents on the maps, layouts and games of PQN's own presets."""
    rows: dict[str, Row] = {}
    for name in maps:
        rows[f"mappo-smax-{name}"] = Row("mappo_smax", f"smax:{name}", SMAX)
        rows[f"ippo-smax-{name}"] = Row("ippo_smax", f"smax:{name}", SMAX)
        # Half the published 10, for a loss of half the size.
        rows[f"qmix-replay-smax-{name}"] = Row("qmix_smax", f"smax:{name}", SMAX | {"learner.max_grad_norm": 5.0})
    for name in layouts:
        # REW_SHAPING_HORIZON 2.5e6, of 64 and of 32 environments together
        shaped = OVERCOOKED | {"env.kwargs": {"shaping_steps": 39_062}}
        rows[f"ippo-overcooked-{name}"] = Row("ippo_overcooked", f"overcooked:{name}", shaped)
        shaped = OVERCOOKED | {"env.kwargs": {"shaping_steps": 78_125}, "learner.max_grad_norm": 0.5}
        rows[f"vdn-replay-overcooked-{name}"] = Row("vdn_overcooked", f"overcooked:{name}", shaped)
    for name in games:
        own = {"env.kwargs": {"protocol": "paper"}, "eval.num_envs": 8}
        rows[f"dqn-atari-{name}"] = Row(None, f"atari:{name}", CLEANRL_DQN | own)
        # 200M frames of the paper's figure, four to a step
        longer = BOOTSTRAP | own | {"total_steps": 50_000_000}
        rows[f"ppo-atari-{name}"] = Row(None, f"atari:{name}", CLEANRL_PPO | longer)
    return rows
