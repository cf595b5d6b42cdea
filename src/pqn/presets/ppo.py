"""Proximal policy optimisation, the paper's main opponent: PPO, PPO-RNN, and with several agents IPPO and MAPPO."""

from __future__ import annotations

from pqn.config import Config
from pqn.envs.catalog import ATARI_57, ATARI_TITLES
from pqn.options import EnvConfig, EvalConfig, NetworkConfig, PPOConfig
from pqn.presets import craftax
from pqn.presets.base import BOOTSTRAPS, Preset
from pqn.presets.minatar import COMPARED as MINATAR
from pqn.presets.multiagent import OVERCOOKED_LAYOUTS, SHAPING, SMAX_MAPS

_ZOO = "RL Baselines3 Zoo, hyperparams/ppo.yml, and the defaults of Stable-Baselines3"
_MINATAR = "the paper's public code, ppo_minatar.yaml and ppo_minatar.py"
_CRAFTAX = "the Craftax authors' Craftax_Baselines, {}"
_CLEANRL = "CleanRL, ppo_atari_envpool.py"
_JAXMARL = "JaxMARL, {}"

_ADAM = "Adam's ε is 1e-8 (there: 1e-5)"
_RATE = "the learning rate falls with every gradient step (there: with every rollout)"
_SAMPLED = "evaluations take the most probable action (there: sampled ones)"
_ORTHOGONAL = "convolutions have orthogonal kernels, too (there: LeCun's normal ones)"
_TEAMS = "minibatches are made of whole teams (there: of single agents)"
_HEADS = "the heads follow the memory at once (there: after {} for each)"
_PURE = (_ADAM, _RATE, BOOTSTRAPS)  # what the descendants of purejaxrl have in common


def _ppo(env: EnvConfig, total_steps: int, network: NetworkConfig, ppo: PPOConfig, **learner: object) -> Config:
    config = Config(algorithm="ppo", total_steps=total_steps, env=env, network=network, ppo=ppo)
    plain: dict[str, object] = {"optimizer": "adam", "lr_decay": True, "gamma": 0.99, "lam": 0.95, "epochs": 4}
    return config.replace({f"learner.{name}": value for name, value in (plain | learner).items()})


_DENSE = NetworkConfig(hidden=(64, 64), norm="none", activation="tanh", init="orthogonal")
# Its loss of the values is (R − V)², without the ½ of ours: its weight of 0.5 is 1 here.
_SB3 = PPOConfig(critic="separate", clip=0.2, value_weight=1.0, entropy=0.0)

_CARTPOLE = _ppo(
    EnvConfig("CartPole-v1", num_envs=8),
    100_000,
    _DENSE,
    _SB3,
    rollout_steps=32,
    epochs=20,
    minibatches=1,
    lr=1e-3,
    max_grad_norm=0.5,
    gamma=0.98,
    lam=0.8,
)
_ACROBOT = _ppo(
    EnvConfig("Acrobot-v1", num_envs=16),
    1_000_000,
    _DENSE,
    _SB3,
    rollout_steps=256,
    minibatches=64,
    lr=3e-4,
    lr_decay=False,
    max_grad_norm=0.5,
    lam=0.94,
)


def _minatar(env: str) -> Config:
    return _ppo(
        EnvConfig(env, num_envs=64),
        10_000_000,
        NetworkConfig(torso="minatar", hidden=(128,), norm="none", init="orthogonal"),
        PPOConfig(critic="separate", clip=0.2, clip_value=True, value_weight=0.5, entropy=1e-4),
        rollout_steps=128,
        minibatches=8,
        lr=5e-3,
        max_grad_norm=0.5,
    )


def _craftax(network: NetworkConfig, critic: str) -> Config:
    config = _ppo(
        EnvConfig("Craftax-Symbolic-v1", num_envs=1024, kwargs={"max_timesteps": 10_000}),
        1_000_000_000,
        network,
        PPOConfig(clip=0.2, clip_value=True, value_weight=0.5, entropy=0.01),
        rollout_steps=64,
        minibatches=8,
        lr=2e-4,
        max_grad_norm=1.0,
        lam=0.8,
    )
    return config.replace({"ppo.critic": critic, "eval.num_envs": 128})


_CRAFTAX_MLP = _craftax(
    NetworkConfig(hidden=(512, 512, 512), norm="none", activation="tanh", init="orthogonal"), "separate"
)
_CRAFTAX_RNN = _craftax(
    NetworkConfig(hidden=(512,), norm="none", init="orthogonal", memory="gru", memory_size=512), "shared"
)


def _atari(game: str) -> Config:
    return _ppo(
        EnvConfig(f"atari:{game}", num_envs=8, kwargs={"protocol": "paper"}),
        50_000_000,
        NetworkConfig(torso="nature", hidden=(512,), norm="none", init="orthogonal"),
        PPOConfig(critic="shared", clip=0.1, clip_value=True, value_weight=0.5, entropy=0.01),
        rollout_steps=128,
        minibatches=4,
        lr=2.5e-4,
        max_grad_norm=0.5,
    ).replace(eval=EvalConfig(num_envs=8))


def _smax(name: str, ppo: PPOConfig, lr: float) -> Config:
    return _ppo(
        EnvConfig(f"smax:{name}", num_envs=128),
        10_000_000,
        NetworkConfig(hidden=(128,), norm="none", init="orthogonal", memory="gru", memory_size=128),
        ppo,
        rollout_steps=128,
        minibatches=4,
        lr=lr,
        max_grad_norm=0.25,
    ).replace(eval=EvalConfig(count=20, num_envs=128))


_SMAX_MAPPO = PPOConfig(critic="world", clip=0.2, clip_value=True, value_weight=0.5, entropy=0.0)
_SMAX_IPPO = PPOConfig(critic="shared", clip=0.05, clip_value=True, value_weight=0.5, entropy=0.01)


def _overcooked(layout: str) -> Config:
    num_envs = 64
    return _ppo(
        EnvConfig(f"overcooked:{layout}", num_envs=num_envs, kwargs={"shaping_steps": SHAPING // num_envs}),
        5_000_000,
        NetworkConfig(torso="grid", hidden=(64, 64), norm="none", init="orthogonal"),
        PPOConfig(critic="shared", clip=0.2, clip_value=True, value_weight=0.5, entropy=0.01),
        rollout_steps=256,
        minibatches=16,
        lr=5e-4,
        max_grad_norm=0.5,
    ).replace(eval=EvalConfig(count=20, num_envs=64))


_HANABI = _ppo(
    EnvConfig("hanabi:2", num_envs=1024),
    10_000_000_000,
    NetworkConfig(hidden=(128, 128), norm="none", init="orthogonal"),
    PPOConfig(critic="world", clip=0.2, clip_value=True, value_weight=0.5, entropy=0.01),
    rollout_steps=128,
    minibatches=4,
    lr=5e-4,
    max_grad_norm=0.5,
).replace(eval=EvalConfig(count=100, num_envs=1024))

_TEAM_VALUE = (
    "the team has one value, of the global state (there: each agent has its own, of the global state and its number)"
)
_ONE_CLIP = "the gradients of actor and critic are clipped together (there: each by itself)"
_NO_PART = "a dead agent has no part in the loss (there: it may stop, and counts)"

PRESETS = {
    "ppo-cartpole": Preset(
        _CARTPOLE,
        "CartPole-v1, PPO",
        _ZOO,
        ("the clip stays 0.2 (there: it falls linearly to 0 with the learning rate)", _ADAM, _RATE),
    ),
    "ppo-acrobot": Preset(
        _ACROBOT,
        "Acrobot-v1, PPO",
        _ZOO,
        ("observations and rewards are as they are (there: normalised by running statistics)", _ADAM),
    ),
    "ppo-craftax": Preset(
        _CRAFTAX_MLP,
        "Craftax, feed-forward, PPO",
        _CRAFTAX.format("ppo.py"),
        (craftax.LIMIT, craftax.POOLS, *_PURE),
    ),
    "ppo-rnn-craftax": Preset(
        _CRAFTAX_RNN,
        "Craftax with a GRU, PPO-RNN, the paper's strongest opponent there",
        _CRAFTAX.format("ppo_rnn.py"),
        (_HEADS.format("two layers of 512"), craftax.LIMIT, craftax.POOLS, *_PURE),
    ),
    "mappo-hanabi": Preset(
        _HANABI,
        "Hanabi with two players, MAPPO",
        _JAXMARL.format("baselines/MAPPO/config/mappo_homogenous_ff_hanabi.yaml"),
        (
            "the team has one value, of what both players see (there: each player has its own, of what it sees)",
            _ONE_CLIP,
            "minibatches are made of single steps (there: of whole rollouts of single players)",
            "the value's output layer starts with a gain of 1 (there: 0.01)",
            _ADAM,
            _RATE,
        ),
    ),
}
for _name, _env in MINATAR.items():
    PRESETS[f"ppo-minatar-{_name}"] = Preset(
        _minatar(_env), f"MinAtar {_env.removesuffix('-MinAtar')}, PPO", _MINATAR, (_ORTHOGONAL, _SAMPLED, *_PURE)
    )
for _map in SMAX_MAPS:
    PRESETS[f"mappo-smax-{_map}"] = Preset(
        _smax(_map, _SMAX_MAPPO, 2e-3),
        f"SMAX {_map}, MAPPO with a GRU",
        _JAXMARL.format("baselines/MAPPO/config/mappo_homogenous_rnn_smax.yaml"),
        (_TEAM_VALUE, _ONE_CLIP, _HEADS.format("a layer of 128"), _NO_PART, _TEAMS, *_PURE),
        "mappo-smax-MAP",
    )
for _map in SMAX_MAPS:
    PRESETS[f"ippo-smax-{_map}"] = Preset(
        _smax(_map, _SMAX_IPPO, 4e-3),
        f"SMAX {_map}, IPPO with a GRU",
        _JAXMARL.format("baselines/IPPO/config/ippo_rnn_smax.yaml"),
        (_HEADS.format("a layer of 128"), _NO_PART, _TEAMS, *_PURE),
        "ippo-smax-MAP",
    )
for _layout in OVERCOOKED_LAYOUTS:
    PRESETS[f"ippo-overcooked-{_layout}"] = Preset(
        _overcooked(_layout),
        f"Overcooked {_layout}, IPPO",
        _JAXMARL.format("baselines/IPPO/config/ippo_cnn_overcooked.yaml"),
        (
            "actor and critic share both layers of 64 (there: the first)",
            "each agent learns from the shaped rewards of both (there: from its own)",
            _TEAMS,
            *_PURE,
        ),
        "ippo-overcooked-LAYOUT",
    )
for _game in ATARI_57:
    PRESETS[f"ppo-atari-{_game}"] = Preset(
        _atari(_game),
        f"Atari {ATARI_TITLES[_game]}, PPO",
        _CLEANRL,
        ("5e7 steps, the 200M frames of the paper's Atari-10 results (there: 1e7)", _SAMPLED, *_PURE),
        "ppo-atari-GAME",
    )
