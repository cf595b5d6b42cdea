"""Tasks that need memory: MemoryChain, and CartPole without its velocities."""

from __future__ import annotations

from pqn.presets.classic import paper

_PUBLIC = "the public recurrent configurations of the paper's code, with a GRU of 256 units"

_GRU = {"network.memory": "gru", "network.memory_size": 256, "learner.bootstrap_truncation": True}

_CHAIN = paper("MemoryChain-bsuite").replace(
    _GRU
    | {
        "total_steps": 1_000_000,
        "env.kwargs": {"memory_length": 100},
        "learner.rollout_steps": 128,
        "learner.lr": 1e-3,
        "learner.lr_decay": False,
        "learner.eps_finish": 0.01,
        "learner.eps_decay": 0.1,
        "learner.reward_scale": 1.0,
    }
)
_CARTPOLE = paper("CartPole-v1").replace(_GRU | {"env.kwargs": {"observe": [0, 2]}})

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
