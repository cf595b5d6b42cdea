"""What is compared: hyperparameters in words of neither side, and what they are called here.

The peers' scripts read the same numbers. A number that one of the two sides counts differently is converted where that
side reads it, with the reason beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pqn.config import Config


@dataclasses.dataclass(frozen=True)
class Task:
    """One algorithm on one environment."""

    peer: str
    env: str
    steps: int
    eval_envs: int
    numbers: Mapping[str, float | bool]
    hidden: tuple[int, ...]
    seeds: int = 5
    init: str = "orthogonal"
    """PPO: of the hidden layers; those of DQN are drawn from LeCun's normal distribution."""
    activation: str = "tanh"
    """PPO: of the hidden layers."""
    truncation: bool = True
    """Whether an episode that is cut by a time limit bootstraps."""

    @property
    def algorithm(self) -> str:
        return "dqn" if "buffer" in self.numbers else "ppo"

    def ours(self) -> Config:
        """The same as a configuration of ours."""
        options = _dqn(self) if self.algorithm == "dqn" else _ppo(self)
        common = {
            "algorithm": self.algorithm,
            "total_steps": self.steps,
            "seeds": self.seeds,
            "env.name": self.env,
            "network.hidden": self.hidden,
            "network.norm": "none",
            "learner.optimizer": "adam",
            "learner.lr": self.numbers["lr"],
            "learner.lr_decay": self.numbers["lr_decay"],
            "learner.gamma": self.numbers["gamma"],
            "learner.max_grad_norm": self.numbers["max_grad_norm"],
            "learner.bootstrap_truncation": self.truncation,
            "eval.num_envs": self.eval_envs,
            "eval.count": 1,
            "save.checkpoints": 1,
        }
        return Config().replace(common | options).validate()

    def theirs(self) -> dict[str, object]:
        """What the peer's script reads."""
        return {**dataclasses.asdict(self), "numbers": dict(self.numbers), "algorithm": self.algorithm}


def _ppo(task: Task) -> dict[str, object]:
    numbers = task.numbers
    return {
        "env.num_envs": numbers["envs"],
        "network.init": task.init,
        "network.activation": task.activation,
        "learner.rollout_steps": numbers["rollout"],
        "learner.epochs": numbers["epochs"],
        "learner.minibatches": numbers["minibatches"],
        "learner.lam": numbers["lam"],
        "ppo.critic": "separate",
        "ppo.clip": numbers["clip"],
        "ppo.clip_value": numbers["clip_value"],
        "ppo.entropy": numbers["entropy"],
        # `value` is the weight of (R − V)²; our loss has a factor ½ in front of it.
        "ppo.value_weight": 2.0 * numbers["value"],
    }


def _dqn(task: Task) -> dict[str, object]:
    numbers = task.numbers
    return {
        "env.num_envs": 1,
        "learner.rollout_steps": numbers["train_every"],
        "learner.epochs": 1,
        "learner.minibatches": numbers["gradient_steps"],
        "learner.eps_start": 1.0,
        "learner.eps_finish": numbers["eps_finish"],
        "learner.eps_decay": numbers["eps_decay"],
        "replay.size": numbers["buffer"],
        "replay.start": numbers["start"],
        "replay.batch": numbers["batch"],
        # Counted in updates here, in steps there.
        "target.interval": max(1, int(numbers["target_every"]) // int(numbers["train_every"])),
        "target.loss": "huber",
    }


_SB3, _REJAX = "stable-baselines3", "rejax"

TASKS: dict[str, Task] = {
    # RL Baselines3 Zoo, hyperparams/ppo.yml, CartPole-v1; but the clip does not fall with the learning rate.
    "ppo-cartpole": Task(
        _SB3,
        "CartPole-v1",
        100_000,
        64,
        {
            "envs": 8, "rollout": 32, "epochs": 20, "minibatches": 1, "lr": 1e-3, "lr_decay": True, "gamma": 0.98,
            "lam": 0.8, "clip": 0.2, "clip_value": False, "entropy": 0.0, "value": 0.5, "max_grad_norm": 0.5,
        },
        (64, 64),
    ),
    # The Zoo's Acrobot normalises observations and rewards, which ours cannot: numbers of our own choice.
    "ppo-acrobot": Task(
        _SB3,
        "Acrobot-v1",
        100_000,
        64,
        {
            "envs": 8, "rollout": 128, "epochs": 10, "minibatches": 4, "lr": 1e-3, "lr_decay": True, "gamma": 0.99,
            "lam": 0.95, "clip": 0.2, "clip_value": False, "entropy": 0.01, "value": 0.5, "max_grad_norm": 0.5,
        },
        (64, 64),
    ),
    # RL Baselines3 Zoo, hyperparams/dqn.yml, CartPole-v1, with layers a quarter as wide. Its target network moves every
    # 10 steps, but 256 steps have the same network: it moves once per training.
    "dqn-cartpole": Task(
        _SB3,
        "CartPole-v1",
        50_000,
        64,
        {
            "train_every": 256, "gradient_steps": 128, "batch": 64, "buffer": 100_000, "start": 1_000, "lr": 2.3e-3,
            "lr_decay": False, "gamma": 0.99, "target_every": 10, "eps_decay": 0.16, "eps_finish": 0.04,
            "max_grad_norm": 10.0,
        },
        (64, 64),
        seeds=20,  # some fail within these steps, on both sides
    ),
    # RL Baselines3 Zoo, hyperparams/dqn.yml, Acrobot-v1, with layers a quarter as wide; 248 is 250 in whole
    # trainings.
    "dqn-acrobot": Task(
        _SB3,
        "Acrobot-v1",
        100_000,
        64,
        {
            "train_every": 4, "gradient_steps": 4, "batch": 128, "buffer": 50_000, "start": 128, "lr": 6.3e-4,
            "lr_decay": False, "gamma": 0.99, "target_every": 248, "eps_decay": 0.12, "eps_finish": 0.1,
            "max_grad_norm": 10.0,
        },
        (64, 64),
    ),
    # The numbers of purejaxrl's PPO for MinAtar, with a constant learning rate a fifth as high, on dense layers. rejax
    # clips single numbers of a gradient, not its norm; so nothing is clipped. Neither side learns much.
    "ppo-minatar-breakout": Task(
        _REJAX,
        "Breakout-MinAtar",
        1_000_000,
        64,
        {
            "envs": 64, "rollout": 128, "epochs": 4, "minibatches": 8, "lr": 1e-3, "lr_decay": False, "gamma": 0.99,
            "lam": 0.95, "clip": 0.2, "clip_value": True, "entropy": 0.01, "value": 0.25, "max_grad_norm": 1e9,
        },
        (64, 64),
        init="lecun_normal",
        truncation=False,
    ),
    # With purejaxrl's activation, and half of its learning rate, which falls as it does there. Both sides learn.
    "ppo-minatar-breakout-3m": Task(
        _REJAX,
        "Breakout-MinAtar",
        3_000_000,
        64,
        {
            "envs": 64, "rollout": 128, "epochs": 4, "minibatches": 8, "lr": 2.5e-3, "lr_decay": True, "gamma": 0.99,
            "lam": 0.95, "clip": 0.2, "clip_value": True, "entropy": 0.01, "value": 0.25, "max_grad_norm": 1e9,
        },
        (64, 64),
        seeds=10,
        init="lecun_normal",
        activation="relu",
        truncation=False,
    ),
}  # fmt: skip
