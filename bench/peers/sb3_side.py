"""Stable-Baselines3's part of a comparison: reads a task as JSON, trains each seed, writes the final returns as JSON.

Runs in the peers' virtual environment, so nothing of `pqn` is imported here.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env


def ppo(task: dict, seed: int) -> PPO:
    numbers = task["numbers"]
    env = make_vec_env(task["env"], n_envs=numbers["envs"], seed=seed)
    lr = numbers["lr"]
    return PPO(
        "MlpPolicy",
        env,
        learning_rate=(lambda remaining: remaining * lr) if numbers["lr_decay"] else lr,
        n_steps=numbers["rollout"],
        batch_size=numbers["rollout"] * numbers["envs"] // numbers["minibatches"],
        n_epochs=numbers["epochs"],
        gamma=numbers["gamma"],
        gae_lambda=numbers["lam"],
        clip_range=numbers["clip"],
        clip_range_vf=numbers["clip"] if numbers["clip_value"] else None,
        ent_coef=numbers["entropy"],
        vf_coef=numbers["value"],
        max_grad_norm=numbers["max_grad_norm"],
        # Its default ε is 1e-5; optax's is 1e-8, which ours uses.
        policy_kwargs={
            "net_arch": {"pi": task["hidden"], "vf": task["hidden"]},
            "activation_fn": torch.nn.Tanh,
            "ortho_init": True,
            "optimizer_kwargs": {"eps": 1e-8},
        },
        seed=seed,
        device="cpu",
    )


def dqn(task: dict, seed: int) -> DQN:
    numbers = task["numbers"]
    env = make_vec_env(task["env"], n_envs=1, seed=seed)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=numbers["lr"],
        buffer_size=numbers["buffer"],
        learning_starts=numbers["start"],
        batch_size=numbers["batch"],
        gamma=numbers["gamma"],
        train_freq=numbers["train_every"],
        gradient_steps=numbers["gradient_steps"],
        target_update_interval=numbers["target_every"],
        exploration_fraction=numbers["eps_decay"],
        exploration_final_eps=numbers["eps_finish"],
        max_grad_norm=numbers["max_grad_norm"],
        policy_kwargs={"net_arch": list(task["hidden"])},
        seed=seed,
        device="cpu",
    )
    for layer in model.q_net.modules():
        if isinstance(layer, torch.nn.Linear):
            initialise(layer)
    model.q_net_target.load_state_dict(model.q_net.state_dict())
    return model


def initialise(layer: torch.nn.Linear) -> None:
    """As ours: LeCun's normal distribution, cut at two standard deviations, and biases of zero."""
    # 0.8796 is the standard deviation of a unit normal that is cut so.
    scale = layer.in_features**-0.5 / 0.87962566
    torch.nn.init.trunc_normal_(layer.weight, std=scale, a=-2 * scale, b=2 * scale)
    torch.nn.init.zeros_(layer.bias)


def final_return(model: DQN | PPO, task: dict, seed: int, greedy: bool = True) -> float:
    """The mean over the first full episode of each evaluation environment; not greedy: with drawn actions."""
    env = make_vec_env(task["env"], n_envs=task["eval_envs"], seed=10_000 + 1_000 * seed)
    obs, returns, running = env.reset(), np.zeros(env.num_envs), np.ones(env.num_envs, bool)
    while running.any():
        actions, _ = model.predict(obs, deterministic=greedy)
        obs, rewards, dones, _ = env.step(actions)
        returns += rewards * running
        running &= ~dones
    return float(returns.mean())


def main() -> None:
    task = json.load(sys.stdin)
    torch.set_num_threads(1)
    make = {"dqn": dqn, "ppo": ppo}[task["algorithm"]]
    returns, drawn = [], []
    for seed in range(task["seeds"]):
        model = make(task, seed).learn(task["steps"])
        returns.append(final_return(model, task, seed))
        if task["algorithm"] == "ppo":
            drawn.append(final_return(model, task, seed, greedy=False))
        print(f"{task['algorithm']} {task['env']} seed {seed}: {returns[-1]:g}", file=sys.stderr, flush=True)
    versions = {"stable-baselines3": stable_baselines3.__version__, "torch": torch.__version__}
    versions |= {"gymnasium": gymnasium.__version__, "numpy": version("numpy")}
    scores = {"returns": returns} | ({"drawn_returns": drawn} if drawn else {})
    json.dump(scores | {"versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
