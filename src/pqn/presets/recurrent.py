"""Tasks that need memory: MemoryChain, and CartPole without its velocities."""

from __future__ import annotations

from pqn.config import Config, EnvConfig, LearnerConfig, NetworkConfig

_PUBLIC = "the public recurrent configurations of the paper's code, with a GRU of 256 units"

_CHAIN = Config(
    total_steps=1_000_000,
    env=EnvConfig("MemoryChain-bsuite", num_envs=32, kwargs={"memory_length": 100}),
    network=NetworkConfig(hidden=(256, 256), memory="gru", memory_size=256),
    learner=LearnerConfig(
        rollout_steps=128,
        epochs=4,
        minibatches=16,
        lr=1e-3,
        lr_decay=False,
        max_grad_norm=10.0,
        gamma=0.99,
        lam=0.95,
        eps_start=1.0,
        eps_finish=0.01,
        eps_decay=0.1,
    ),
)

_CARTPOLE = Config(
    total_steps=500_000,
    env=EnvConfig("CartPole-v1", num_envs=32, kwargs={"observe": [0, 2]}),
    network=NetworkConfig(hidden=(256, 256), memory="gru", memory_size=256),
    learner=LearnerConfig(
        rollout_steps=64,
        epochs=4,
        minibatches=16,
        lr=1e-4,
        lr_decay=True,
        max_grad_norm=10.0,
        gamma=0.99,
        lam=0.95,
        eps_start=1.0,
        eps_finish=0.2,
        eps_decay=0.2,
        reward_scale=0.1,
    ),
)

PRESETS = {
    "memory-chain": (
        _CHAIN,
        "MemoryChain of length 100: recall a bit after 100 steps",
        f"{_PUBLIC}; ten times its 1e5 steps, without its memory window of 4",
    ),
    "cartpole-rnn": (
        _CARTPOLE,
        "CartPole-v1 with its velocities hidden",
        f"{_PUBLIC}, without its memory window of 4",
    ),
}
