"""Tasks that need memory: MemoryChain, and CartPole without its velocities. The paper shows neither."""

from __future__ import annotations

from pqn.options import EnvConfig
from pqn.presets.base import BOOTSTRAPS, NO_PAST_ACTION, TARGETS_ONCE, WINDOW, Preset
from pqn.presets.classic import paper

_GRU = {"network.memory": "gru", "network.memory_size": 256}

_CHAIN = paper("MemoryChain-bsuite").replace(
    _GRU
    | {
        "env": EnvConfig("MemoryChain-bsuite", num_envs=32, kwargs={"memory_length": 100}),
        "learner.rollout_steps": 128,
        "learner.lr": 1e-3,
        "learner.lr_decay": False,
        "learner.eps_finish": 0.01,
        "learner.eps_decay": 0.1,
        "learner.reward_scale": 1.0,
    }
)
_CARTPOLE = paper("CartPole-v1").replace(
    _GRU | {"env": EnvConfig("CartPole-v1", num_envs=32, kwargs={"observe": [0, 2]})}
)

_NO_WINDOW = "no memory window (there: the four steps before each rollout, with a loss)"
_NO_ACTION = "the network is not shown its last action (there: always)"
_LAST_STEP = "the last step of a rollout has a loss (there: only as part of the next window)"
_OURS = (BOOTSTRAPS, TARGETS_ONCE, _NO_WINDOW, _LAST_STEP, _NO_ACTION)

PRESETS = {
    "memory-chain": Preset(
        _CHAIN.replace({"total_steps": 1_000_000, "learner.bootstrap_truncation": True}),
        "MemoryChain of length 100: recall a bit after 100 steps",
        "the public recurrent configuration of MemoryChain (the paper has no such experiment)",
        ("ten times its 1e5 steps", *_OURS),
    ),
    "memory-chain-paper": Preset(
        _CHAIN.replace(
            {
                "total_steps": 100_000,
                "network.last_action": True,
                "learner.burn_in": 4,
                "learner.targets": "minibatch",
            }
        ),
        "MemoryChain of length 100 as published",
        "the public recurrent configuration of MemoryChain (the paper has no such experiment)",
        (WINDOW, NO_PAST_ACTION),
    ),
    "cartpole-rnn": Preset(
        _CARTPOLE.replace({"learner.bootstrap_truncation": True}),
        "CartPole-v1 with its velocities hidden",
        "the public recurrent configuration of CartPole (the paper has no such experiment)",
        ("the velocities are hidden (there: shown, so that nothing has to be remembered)", *_OURS),
    ),
}
