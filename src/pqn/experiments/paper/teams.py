"""Experiments with several agents: SMAX, Overcooked, Hanabi; and what memory and speed the paper claims."""

from __future__ import annotations

from pqn.experiments.paper.base import Arm, Experiment, Published
from pqn.experiments.paper.single import OURS
from pqn.presets.multiagent import OVERCOOKED_LAYOUTS, SMAX_MAPS

VDN = "PQN-VDN"

SMAX = Experiment(
    "smax",
    "SMAX",
    "section Multi-Agent Tasks, figure smax-iqm; appendix, figure smax_all",
    "win",
    "win rate",
    10,
    tuple(
        arm
        for name in SMAX_MAPS
        for arm in (
            Arm(f"pqn-{name}", VDN, name, f"smax-{name}-paper", public=f"smax:{name}", minutes=15.0, gigabytes=2.0),
            Arm(f"pqn-ours-{name}", OURS, name, f"smax-{name}", minutes=15.0, gigabytes=2.0),
            Arm(f"mappo-{name}", "MAPPO", name, f"mappo-smax-{name}", "mappo", minutes=15.0, gigabytes=2.0),
            Arm(f"ippo-{name}", "IPPO", name, f"ippo-smax-{name}", "ippo", minutes=15.0, gigabytes=2.0),
            Arm(f"qmix-{name}", "QMIX", name, f"qmix-replay-smax-{name}", "qmix-replay", minutes=60.0, gigabytes=12.0),
        )
    ),
    "PQN-VDN is above MAPPO and QMIX, and needs about 10 minutes where QMIX needs an hour.",
    (Published("about 10 minutes against QMIX's 1 hour", "section Multi-Agent Tasks"),),
    digits=2,
    aggregate="mean",
    notes=("The paper shows curves and prints no final win rate.",),
)

OVERCOOKED = Experiment(
    "overcooked",
    "Overcooked",
    "section Multi-Agent Tasks, figure overcooked; appendix, figure overcooked_all",
    "return",
    "greedy return",
    10,
    tuple(
        arm
        for name in OVERCOOKED_LAYOUTS
        for arm in (
            Arm(f"pqn-{name}", VDN, name, f"overcooked-{name}-paper", public=f"overcooked:{name}", minutes=6.0),
            Arm(f"pqn-ours-{name}", OURS, name, f"overcooked-{name}", minutes=6.0),
            Arm(
                f"vdn-{name}",
                "VDN with replay",
                name,
                f"vdn-replay-overcooked-{name}",
                "vdn-replay",
                minutes=20.0,
                gigabytes=3.0,
            ),
            Arm(f"ippo-{name}", "IPPO", name, f"ippo-overcooked-{name}", "ippo", minutes=6.0),
        )
    ),
    "PQN-VDN is above VDN with a replay buffer and above PPO.",
    aggregate="per_maximum",
    notes=("The paper shows the IQM of returns divided by the largest one, on four layouts, and prints no score.",),
)

HANABI = Experiment(
    "hanabi",
    "Hanabi, two players",
    "section Multi-Agent Tasks, figure hanabi",
    "score",
    "points of 25",
    10,
    (
        Arm("pqn", VDN, "Hanabi", "hanabi-paper", paper=24.0, public="hanabi", minutes=600.0),
        Arm("pqn-ours", OURS, "Hanabi", "hanabi", minutes=600.0),
        Arm("mappo", "MAPPO", "Hanabi", "mappo-hanabi", "mappo", minutes=600.0),
    ),
    "PQN-VDN scores 24 points on average and is far more sample-efficient than MAPPO.",
    (Published("24 points, average over 100k games", "section Multi-Agent Tasks; appendix, Hanabi"),),
    digits=2,
)

_SPEED = {  # preset: steps that take about half a minute with one seed, gigabytes
    "cartpole-paper": (5_000_000, 0.2),
    "acrobot-paper": (5_000_000, 0.2),
    "minatar-breakout-paper": (20_000_000, 0.3),
    "minatar-asterix-paper": (10_000_000, 0.3),
    "overcooked-cramped_room-paper": (3_000_000, 0.3),
    "smax-2s3z-paper": (2_000_000, 1.0),
    "hanabi-paper": (50_000_000, 0.3),
    "craftax-paper": (8_000_000, 4.1),
    "craftax-rnn-paper": (6_000_000, 13.5),
    "atari-pong-paper": (500_000, 0.5),
}

SPEED = Experiment(
    "speed",
    "Speed and memory",
    "section Conclusion, table memory_speedup",
    "steps_per_second",
    "steps/s",
    1,
    tuple(
        Arm(
            name.removesuffix("-paper"),
            "PQN",
            name,
            name,
            options={"total_steps": steps, "eval.count": 0},
            minutes=2.0,
            gigabytes=gigabytes,
        )
        for name, (steps, gigabytes) in _SPEED.items()
    ),
    "No replay buffer saves 26 GB (Atari), 10 GB (SMAX), 250 GB (Hanabi) and 31 GB (Craftax) and makes training 50, 6, "
    "4 and 6 times as fast.",
    (Published("Atari 26 GB and 50 times, SMAX 10 GB and 6, Hanabi 250 GB and 4, Craftax 31 GB and 6", "the table"),),
    digits=0,
    notes=("Steps of all seeds per second of training: no evaluation, no compilation.",),
)

EXPERIMENTS = (SMAX, OVERCOOKED, HANABI, SPEED)
