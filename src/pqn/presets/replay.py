"""Opponents that learn from a replay buffer: DQN, PQN with a buffer, and QMIX and VDN with a target network.

One step of a buffer here is one step of one environment, with all its agents.
"""

from __future__ import annotations

from pqn.config import Config
from pqn.envs.catalog import ATARI_57, ATARI_TITLES
from pqn.options import EnvConfig, EvalConfig, LearnerConfig, NetworkConfig, ReplayConfig, TargetConfig
from pqn.presets import craftax
from pqn.presets.base import HALF_CLIP, RENORM, Preset
from pqn.presets.minatar import COMPARED as MINATAR
from pqn.presets.multiagent import DEAD, OVERCOOKED_LAYOUTS, SHAPING, SMAX_MAPS

_NO_CLIP = 1e9

_ZOO = "RL Baselines3 Zoo, hyperparams/dqn.yml, and the defaults of Stable-Baselines3"
_CLEANRL = "CleanRL, dqn_atari_jax.py, the DQN that the paper times"
_MINATAR = "the MinAtar authors' examples/dqn.py (the paper has no DQN on MinAtar)"
_JAXMARL = "JaxMARL, baselines/QLearning/config/alg/{}"

# The buffer does not keep the last observation of a truncated episode.
_CUT = "a step that a time limit cuts has no loss (there: {})"
_CUT_BOOTSTRAPS = _CUT.format("it has one, with the value of the episode's last observation")
_CUT_ENDS = _CUT.format("the limit counts as an end")
_LECUN = "kernels are drawn from LeCun's normal distribution ({})"
_TORCH = _LECUN.format("there: from PyTorch's uniform one, and biases as well")
_EPSILON = "ε changes with every training (there: with every step, and it is 1 until learning starts)"
_MANY = "{} environments (there: one)"


def _dqn(env: EnvConfig, total_steps: int, network: NetworkConfig, **learner: object) -> Config:
    config = Config(algorithm="dqn", total_steps=total_steps, env=env, network=network)
    plain: dict[str, object] = {"epochs": 1, "optimizer": "adam", "lr_decay": False, "gamma": 0.99, "eps_start": 1.0}
    return config.replace({f"learner.{name}": value for name, value in (plain | learner).items()})


_CARTPOLE = _dqn(
    EnvConfig("CartPole-v1", num_envs=1),
    50_000,
    NetworkConfig(hidden=(256, 256), norm="none"),
    rollout_steps=256,
    minibatches=128,
    lr=2.3e-3,
    max_grad_norm=10.0,
    eps_finish=0.04,
    eps_decay=0.16,
).replace(
    replay=ReplayConfig(size=100_000, start=1_000, batch=64),
    # There every 10 steps; but a network that is trained every 256 steps changes no oftener than that.
    target=TargetConfig(interval=1, loss="huber"),
)
_ACROBOT = _dqn(
    EnvConfig("Acrobot-v1", num_envs=1),
    100_000,
    NetworkConfig(hidden=(256, 256), norm="none"),
    rollout_steps=4,
    minibatches=4,
    lr=6.3e-4,
    max_grad_norm=10.0,
    eps_finish=0.1,
    eps_decay=0.12,
).replace(
    replay=ReplayConfig(size=50_000, start=0, batch=128),
    target=TargetConfig(interval=62, loss="huber"),
)


def _minatar(env: str) -> Config:
    """32 environments step at once; as in the Nature DQN there is a gradient step for every four steps."""
    return _dqn(
        EnvConfig(env, num_envs=32),
        10_000_000,
        NetworkConfig(torso="minatar", hidden=(128,), norm="none"),
        rollout_steps=1,
        minibatches=8,
        lr=2.5e-4,
        max_grad_norm=_NO_CLIP,
        eps_finish=0.1,
        eps_decay=0.01,
    ).replace(
        replay=ReplayConfig(size=100_000, start=5_000, batch=32),
        target=TargetConfig(interval=31, loss="huber"),
    )


def _atari(game: str) -> Config:
    return _dqn(
        EnvConfig(f"atari:{game}", num_envs=8, kwargs={"protocol": "paper"}),
        10_000_000,
        NetworkConfig(torso="nature", hidden=(512,), norm="none"),
        rollout_steps=1,
        minibatches=2,
        lr=1e-4,
        max_grad_norm=_NO_CLIP,
        eps_finish=0.01,
        eps_decay=0.1,
    ).replace(
        replay=ReplayConfig(size=1_000_000, start=80_000, batch=32),
        target=TargetConfig(interval=125),
        eval=EvalConfig(num_envs=8),
    )


def _qmix(name: str) -> Config:
    return Config(
        algorithm="dqn",
        total_steps=10_000_000,
        env=EnvConfig(f"smax:{name}", num_envs=16),
        network=NetworkConfig(hidden=(512,), norm="none", memory="gru", memory_size=512, agent_id=True),
        learner=LearnerConfig(
            rollout_steps=128,
            epochs=1,
            minibatches=8,
            lr=5e-5,
            lr_decay=False,
            max_grad_norm=5.0,
            gamma=0.99,
            eps_start=1.0,
            eps_finish=0.05,
            eps_decay=0.1,
            reward_scale=10.0,
            mixer="qmix",
            mixer_size=64,
        ),
        # There 5000 rollouts of 128 steps.
        replay=ReplayConfig(size=640_000, start=10_000, batch=32),
        target=TargetConfig(interval=10, double=True),
        eval=EvalConfig(count=20, num_envs=128),
    )


def _vdn(layout: str) -> Config:
    num_envs = 32
    return Config(
        algorithm="dqn",
        total_steps=5_000_000,
        env=EnvConfig(f"overcooked:{layout}", num_envs=num_envs, kwargs={"shaping_steps": SHAPING // num_envs}),
        network=NetworkConfig(torso="grid", hidden=(64, 64), norm="none"),
        learner=LearnerConfig(
            rollout_steps=1,
            epochs=1,
            minibatches=4,
            lr=7e-5,
            lr_decay=True,
            max_grad_norm=0.5,
            gamma=0.99,
            eps_start=1.0,
            eps_finish=0.05,
            eps_decay=0.1,
        ),
        replay=ReplayConfig(size=100_000, start=1_000, batch=128),
        target=TargetConfig(interval=10),
        eval=EvalConfig(count=20, num_envs=64),
    )


_WITH_BUFFER = craftax.PRESETS["craftax"]
_PQN_REPLAY = _WITH_BUFFER.config.replace(
    {"algorithm": "pqn-replay", "replay": ReplayConfig(size=1_000_000, start=10_240, batch=1024)}
)

PRESETS = {
    "dqn-cartpole": Preset(_CARTPOLE, "CartPole-v1, DQN", _ZOO, (_TORCH, _EPSILON, _CUT_BOOTSTRAPS)),
    "dqn-acrobot": Preset(
        _ACROBOT,
        "Acrobot-v1, DQN",
        _ZOO,
        ("the target network moves every 248 steps (there: every 250)", _TORCH, _EPSILON, _CUT_BOOTSTRAPS),
    ),
    "pqn-replay-craftax": Preset(
        _PQN_REPLAY,
        "Craftax, feed-forward, PQN with a replay buffer of a million steps (33 GB), the paper's ablation",
        "the paper's ablation of the replay buffer, which names its size, and the public configuration of Craftax "
        "without memory",
        (
            "a minibatch of 1024 steps, as many as without a buffer, after the first 10 240 steps: the paper says "
            "neither, and its code for this is not public",
            craftax.LIMIT,
            craftax.POOLS,
            _CUT_ENDS,
            RENORM,
        ),
    ),
}
for _name, _env in MINATAR.items():
    PRESETS[f"dqn-minatar-{_name}"] = Preset(
        _minatar(_env),
        f"MinAtar {_env.removesuffix('-MinAtar')}, DQN",
        _MINATAR,
        (
            _MANY.format(32),
            "a gradient step for every four steps (there: for every step)",
            "Adam (there: centred RMSProp with momentum)",
            "1e7 steps, as many as PQN has (there: 5e6)",
            "the target network moves every 992 steps (there: every 1000)",
            "ε starts to fall at once (there: when learning starts)",
            _TORCH,
            _CUT.format("there is no limit"),
        ),
    )
for _map in SMAX_MAPS:
    PRESETS[f"qmix-replay-smax-{_map}"] = Preset(
        _qmix(_map),
        f"SMAX {_map}, QMIX with replay and a target network, GRU",
        _JAXMARL.format("ql_rnn_smax.yaml"),
        (
            HALF_CLIP,
            "sequences of the buffer start anywhere, with an empty memory (there: every rollout starts new episodes, "
            "and a sequence is a whole rollout)",
            "the hypernetworks of the mixer have 64 hidden units and a LayerNorm (there: 256 and none)",
            DEAD,
            _LECUN.format("there: orthogonal ones, small in the mixer"),
            _CUT_ENDS,
        ),
        "qmix-replay-smax-MAP",
    )
for _layout in OVERCOOKED_LAYOUTS:
    PRESETS[f"vdn-replay-overcooked-{_layout}"] = Preset(
        _vdn(_layout),
        f"Overcooked {_layout}, VDN with replay and a target network",
        _JAXMARL.format("ql_cnn_overcooked.yaml"),
        (HALF_CLIP, _CUT_ENDS),
        "vdn-replay-overcooked-LAYOUT",
    )
for _game in ATARI_57:
    PRESETS[f"dqn-atari-{_game}"] = Preset(
        _atari(_game),
        f"Atari {ATARI_TITLES[_game]}, DQN with a buffer of a million steps (28 GB)",
        _CLEANRL,
        (
            _MANY.format("eight"),
            "the buffer holds whole observations, of four frames (there: single frames)",
            _EPSILON,
            _CUT_BOOTSTRAPS,
        ),
        "dqn-atari-GAME",
    )
