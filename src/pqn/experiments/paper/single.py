"""Experiments with one agent in JAX: classic control, MinAtar, Craftax; and ours with memory."""

from __future__ import annotations

from pqn.experiments.paper.base import Arm, Experiment, Published

GAMES = {"asterix": "Asterix", "breakout": "Breakout", "freeway": "Freeway", "spaceinvaders": "SpaceInvaders"}
OURS = "PQN (our preset)"
ENDS = "PQN counts a time limit as an end, as published; our preset bootstraps there."
OTHER_EPISODES = (
    "The public evaluation steps 128 environments for a fixed number of steps and averages every episode that ends, "
    "which counts short episodes more often than long ones. Ours counts the first episode of each of 64 environments."
)
CRAFTAX_MAXIMUM = 226.0  # the sum of all rewards of Craftax-Symbolic
CRAFTAX_UNIT = "% of the maximum return"
NUMBERS = (4, 8, 32, 128, 512, 2048)

CLASSIC = Experiment(
    "classic",
    "Classic control",
    "appendix, further results, figure classic_control",
    "return",
    "greedy return",
    10,
    tuple(
        arm
        for task, title in (("cartpole", "CartPole"), ("acrobot", "Acrobot"))
        for arm in (
            Arm(f"pqn-{task}", "PQN", title, f"{task}-paper", public=task, minutes=0.6),
            Arm(f"pqn-ours-{task}", OURS, title, task, minutes=0.6),
            Arm(f"dqn-{task}", "DQN", title, f"dqn-{task}", "dqn", minutes=20.0),
        )
    ),
    "PQN is ten times faster than DQN with a single environment on a CPU.",
    (Published("PQN is 10 times faster than DQN", "caption of figure classic_control"),),
    notes=(
        ENDS,
        OTHER_EPISODES,
        "The paper shows curves and prints no final score.",
        "DQN has the budgets of the source of its numbers: a tenth of PQN's steps on CartPole, a fifth on Acrobot.",
    ),
)

MINATAR = Experiment(
    "minatar",
    "MinAtar",
    "appendix, further results, figure minatar_all",
    "return",
    "greedy return",
    10,
    tuple(
        arm
        for game, title in GAMES.items()
        for arm in (
            Arm(f"pqn-{game}", "PQN", title, f"minatar-{game}-paper", public=f"minatar:{title}", minutes=1.2),
            Arm(f"pqn-ours-{game}", OURS, title, f"minatar-{game}", minutes=1.2),
            Arm(f"ppo-{game}", "PPO", title, f"ppo-minatar-{game}", "ppo", minutes=4.0),
            Arm(f"dqn-{game}", "DQN", title, f"dqn-minatar-{game}", "dqn", minutes=6.0),
        )
    ),
    "PQN is compared with PPO on four games; both were tuned.",
    notes=(ENDS, OTHER_EPISODES, "The paper shows curves and prints no final score."),
)

NUM_ENVS = Experiment(
    "num-envs",
    "Number of environments",
    "section Ablations, figure num_envs_minatar; appendix, figure env_ablation_minatar",
    "return",
    "greedy return",
    10,
    tuple(
        Arm(
            f"pqn-{game}-{number}",
            f"N = {number}",
            title,
            f"minatar-{game}-paper",
            options={"env.num_envs": number, "learner.minibatches": number // 4},
            minutes={4: 6.0, 8: 4.0, 32: 2.5, 128: 1.2, 512: 1.0, 2048: 1.0}[number],
        )
        for game, title in GAMES.items()
        for number in NUMBERS
    ),
    "PQN learns with few environments, but clearly benefits from collecting more experience in parallel.",
    notes=(
        "A batch always has 128 steps and there is one gradient step for every 64 steps, whatever N is, as published.",
        "Fewer than 4 environments cannot fill a batch of 128 steps with this rollout; the paper changes the learning "
        "rate there, and we leave those out.",
    ),
)

CRAFTAX = Experiment(
    "craftax",
    "Craftax without memory",
    "appendix, figure craftax-mlp",
    "return",
    CRAFTAX_UNIT,
    10,
    (
        Arm("pqn", "PQN", "Craftax", "craftax-paper", public="craftax_mlp", minutes=300.0, gigabytes=4.1),
        Arm("pqn-ours", OURS, "Craftax", "craftax", minutes=300.0, gigabytes=4.1),
        Arm("ppo", "PPO", "Craftax", "ppo-craftax", "ppo", minutes=300.0, gigabytes=6.0),
    ),
    "PQN is compared with PPO over 1e9 steps.",
    scale=100 / CRAFTAX_MAXIMUM,
)

CRAFTAX_RNN = Experiment(
    "craftax-rnn",
    "Craftax with memory",
    "section Craftax, figure craftax_rnn; appendix, figure craftax-rnn",
    "return",
    CRAFTAX_UNIT,
    10,
    (
        Arm(
            "pqn",
            "PQN",
            "Craftax",
            "craftax-rnn-paper",
            paper=16.0,
            public="craftax_rnn",
            minutes=400.0,
            gigabytes=13.5,
        ),
        Arm("pqn-ours", OURS, "Craftax", "craftax-rnn", minutes=400.0, gigabytes=13.5),
        Arm("ppo", "PPO", "Craftax", "ppo-rnn-craftax", "ppo", paper=15.3, minutes=400.0, gigabytes=13.5),
    ),
    "PQN with an LSTM reaches 16 % of the maximum return, PPO with one 15.3 %.",
    scale=100 / CRAFTAX_MAXIMUM,
)

CRAFTAX_NORM = Experiment(
    "craftax-norm",
    "Normalisation in Craftax",
    "section Ablations, figure craftax_normalisation",
    "return",
    CRAFTAX_UNIT,
    10,
    tuple(
        Arm(
            f"{norm}-{'input' if at_input != 'none' else 'plain'}",
            {"batch_renorm": "BatchNorm", "layer": "LayerNorm", "none": "no norm"}[norm]
            + (", input normalised" if at_input != "none" else ""),
            "Craftax",
            "craftax-rnn-paper",
            options={"network.norm": norm, "network.norm_input": at_input},
            minutes=400.0,
            gigabytes=13.5,
        )
        for at_input in ("none", "batch_renorm")
        for norm in ("batch_renorm", "layer", "none")
    ),
    "Without input normalisation BatchNorm helps much. It is best to normalise the input only; LayerNorm in the rest "
    "of the network is similar.",
    scale=100 / CRAFTAX_MAXIMUM,
    notes=("What the public code calls batch norm here is batch renormalisation.",),
)

CRAFTAX_REPLAY = Experiment(
    "craftax-replay",
    "A replay buffer in Craftax",
    "section Ablations, figure craftax-buffer; appendix, figure app_fig:craftax-buffer",
    "return",
    CRAFTAX_UNIT,
    10,
    (
        Arm("pqn", "PQN", "Craftax", "craftax-paper", minutes=300.0, gigabytes=4.1),
        Arm(
            "pqn-replay",
            "PQN with a replay buffer",
            "Craftax",
            "pqn-replay-craftax",
            "pqn-replay",
            {},
            minutes=1800.0,
            gigabytes=40.0,
        ),
    ),
    "With a buffer of 1M steps PQN ends at the same score and takes 6 times as long.",
    (Published("6 times longer", "section Ablations, Replay Buffer"), Published("30 GB", "section Craftax")),
    scale=100 / CRAFTAX_MAXIMUM,
)

RECURRENT = Experiment(
    "recurrent",
    "Tasks that need memory",
    "not in the paper",
    "return",
    "greedy return",
    10,
    (
        Arm("pqn-memory-chain", "PQN", "MemoryChain-100", "memory-chain", minutes=1.5),
        Arm("pqn-cartpole-rnn", "PQN", "CartPole without velocities", "cartpole-rnn", minutes=1.5),
    ),
    digits=2,
    in_paper=False,
)

CRAFTAX_CLASSIC = Experiment(
    "craftax-classic",
    "Craftax-Classic",
    "not in the paper",
    "return",
    CRAFTAX_UNIT,
    3,
    (
        Arm("pqn-rnn", "PQN with an LSTM", "Craftax-Classic", "craftax-classic-rnn", minutes=40.0, gigabytes=7.4),
        Arm("pqn", "PQN", "Craftax-Classic", "craftax-classic", minutes=20.0, gigabytes=2.0),
    ),
    scale=100 / 22.0,
    in_paper=False,
)

EXPERIMENTS = (
    CLASSIC,
    MINATAR,
    NUM_ENVS,
    CRAFTAX,
    CRAFTAX_RNN,
    CRAFTAX_NORM,
    CRAFTAX_REPLAY,
    RECURRENT,
    CRAFTAX_CLASSIC,
)
