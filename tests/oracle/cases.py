"""Which combinations of options are replayed: covering arrays of what differs between runs."""

from __future__ import annotations

import dataclasses
from typing import Any

from oracle.covering import Choices, covering_array
from oracle.ring import Ring

RINGS = [field.name for field in dataclasses.fields(Ring)]
ENVS, UPDATES, UPDATES_OF_RUN = 4, 4, 5
PIECES = {  # T steps in segments of L, each after a burn-in of W
    "default": (6, 0, 0),
    "watkins": (1, 0, 0),
    "short": (6, 2, 0),
    "warmed": (6, 3, 2),
    "fully warmed": (4, 0, 4),
    "replayed": (4, 2, 0),
    "replayed warmed": (4, 2, 1),
}
HARD = 1e-5  # a gradient this short is below all rounding: see `clash`

COMPILED: Choices = {
    "pieces": ("default", "short", "warmed", "fully warmed"),
    "norm": ("layer", "batch", "batch_renorm", "none"),
    "l2_final": (0.0, 0.3),
    "l2_inner": (0.0, 0.2),
    "memory": ("none", "lstm", "gru", "mingru", "lru"),
    "mixer": ("vdn", "qmix", "independent"),
    "cuts": ("never", "limit", "anywhere"),
    "norm_input": ("none", "batch", "batch_renorm"),
    "optimizer": ("adam", "radam", "radam later"),
    "clip": (100.0, 1.0, HARD),
    "epsilon": ((1.0, 0.2, 0.5), (0.6, 0.0, 0.8), (0.9, 0.3, 0.0)),
    "returns": ((0.9, 0.0), (0.99, 0.65), (0.8, 1.0)),
    "passes": ((2, 2), (1, 4), (3, 1)),
    "reward_scale": (1.0, 0.3, 2.0),
    "agents": (1, 2),
    "masked": (False, True),
    "world": (False, True),
    "next_step": (False, True),
    "lives": (False, True),
    "bootstrap": (True, False),
    "last_action": (False, True),
    "last_reward": (False, True),
    "targets": ("rollout", "minibatch"),
    "lr_decay": (True, False),
    "head": ("linear", "dueling"),
    "hidden": ((5,), (4, 4)),
    "memory_layers": (1, 2),
    "agent_id": (False, True),
    "seeds": (1, 2),
    "schedule": (0, 7),  # updates
}

SIMULATED: Choices = {
    "mixer": ("vdn", "qmix", "independent"),
    "pieces": ("default", "warmed"),
    "memory": ("none", "lstm", "lru"),
    "cuts": ("limit", "anywhere"),
    "optimizer": ("adam", "radam later"),
    "agents": (1, 2),
    "masked": (False, True),
    "world": (False, True),
    "next_step": (False, True),
    "lives": (False, True),
    "bootstrap": (True, False),
    "last_action": (False, True),
    "last_reward": (False, True),
    "targets": ("rollout", "minibatch"),
    "norm_input": ("none", "batch"),
    "overlap": (False, True),
    "beside": (0, 3),
    "seeds": (1, 2),
}

PROGRAMS = ("compiled", "overlapped")
REPLAYED: Choices = {
    "algorithm": ("dqn", "pqn-replay"),
    "program": PROGRAMS,
    "mixer": ("vdn", "qmix", "independent"),
    "move": ((1, 1.0), (2, 0.3)),  # every so many updates, so far
    "pieces": ("default", "replayed", "replayed warmed"),
    "memory": ("none", "lstm", "mingru"),
    "cuts": ("limit", "anywhere"),
    "n_step": (1, 3),
    "double": (False, True),
    "huber": (False, True),
    "share": (1.0, 0.5),
    "buffer": ((48, 12), (36, 30)),  # steps that it holds, and before learning
    "agents": (1, 2),
    "masked": (False, True),
    "world": (False, True),
    "next_step": (False, True),
    "bootstrap": (True, False),
    "last_action": (False, True),
    "norm_input": ("none", "batch"),
    "l2_inner": (0.0, 0.2),
    "returns": ((0.9, 0.0), (0.99, 0.65)),
    "optimizer": ("adam", "radam later"),
    "seeds": (1, 2),
}
PPO: Choices = {
    "program": PROGRAMS,
    "critic": ("shared", "separate", "world"),
    "pieces": ("default", "short", "warmed"),
    "returns": ((0.9, 0.0), (0.99, 0.65)),
    "memory": ("none", "gru", "mingru", "lru"),
    "cuts": ("limit", "anywhere"),
    "agents": (1, 2),
    "masked": (False, True),
    "world": (False, True),
    "next_step": (False, True),
    "bootstrap": (True, False),
    "clip": (0.2, 0.05),
    "clip_value": (False, True),
    "normalize": (False, True),
    "activation": ("relu", "tanh"),
    "last_action": (False, True),
    "last_reward": (False, True),
    "agent_id": (False, True),
    "norm_input": ("none", "batch"),
    "optimizer": ("adam", "radam later"),
    "seeds": (1, 2),
}
MISSING = {"last_reward": False, "targets": "rollout"}  # what `options` asks for and these choices do not have


def clash(a: tuple[str, Any], b: tuple[str, Any]) -> bool:
    """Whether two choices cannot meet, or could not be told from others if they did."""
    both = dict((a, b))
    batch_norm = str(both.get("norm")).startswith("batch")
    without_memory = both.get("memory") == "none"
    return (
        (without_memory and PIECES[both.get("pieces", "default")][2] > 0)
        or (without_memory and both.get("memory_layers", 1) > 1)
        or (both.get("cuts") == "never" and not both.get("bootstrap", True))
        # A bias before a batch norm has the gradient 0. Ours is 0 but for rounding, and Adam makes every gradient as
        # long as any other, unless all are so short that the rounding is small beside its ε.
        or (batch_norm and both.get("clip", HARD) != HARD)
        # Then RAdam's first steps, which are as long as the gradients, are too short to be seen.
        or (batch_norm and both.get("optimizer") == "radam")
        or (both.get("clip") == HARD and both.get("optimizer") == "radam")
        # Without a target network, what belongs to it stays as it is.
        or (both.get("algorithm") == "pqn-replay" and any(both.get(name) for name in ("double", "huber")))
        or (both.get("algorithm") == "pqn-replay" and both.get("n_step", 1) > 1)
        or (both.get("algorithm") == "pqn-replay" and both.get("move", (1, 1.0)) != (1, 1.0))
        # A sequence of seven steps, and another three for those of the last rollout, do not fit.
        or (both.get("share") == 0.5 and both.get("n_step", 1) > 1)
        or (both.get("critic") == "world" and PIECES[both.get("pieces", "default")][2] > 0)
    )


def ring(case: dict[str, Any]) -> Ring:
    return Ring(**{name: case.get(name, False) for name in RINGS})


def options(case: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a case."""
    steps, segment, burn_in = PIECES[case["pieces"]]
    steps = 4 if "buffer" in case else steps

    def get(name: str) -> Any:
        return case.get(name, COMPILED[name][0])

    (eps_start, eps_finish, eps_decay), (gamma, lam) = get("epsilon"), get("returns")
    epochs, minibatches = get("passes")
    return {
        "total_steps": UPDATES_OF_RUN * steps * ENVS + 1,
        "seed": 3,
        "seeds": case["seeds"],
        "env.num_envs": ENVS,
        "eval.count": 1 if case.get("beside") else 0,
        "simulators.greedy_envs": case.get("beside", 0),
        "network.hidden": get("hidden"),
        "network.norm": get("norm"),
        "network.norm_input": case["norm_input"],
        "network.head": get("head"),
        "network.memory": case["memory"],
        "network.memory_size": 3,
        "network.memory_layers": get("memory_layers"),
        "network.last_action": case["last_action"],
        "network.last_reward": case["last_reward"],
        "network.agent_id": get("agent_id"),
        "learner.rollout_steps": steps,
        "learner.segment_length": segment,
        "learner.burn_in": burn_in,
        "learner.targets": case["targets"],
        "learner.batch_statistics": case.get("statistics", "default"),
        "learner.epochs": epochs,
        "learner.minibatches": minibatches,
        "learner.schedule_steps": get("schedule") * steps * ENVS,
        "learner.lr": 0.03,
        "learner.lr_decay": get("lr_decay"),
        "learner.optimizer": case["optimizer"].split()[0],
        "learner.max_grad_norm": get("clip"),
        "learner.gamma": gamma,
        "learner.lam": lam,
        "learner.eps_start": eps_start,
        "learner.eps_finish": eps_finish,
        "learner.eps_decay": eps_decay,
        "learner.mixer": case.get("mixer", "vdn"),
        "learner.mixer_size": 2,
        "learner.reward_scale": get("reward_scale"),
        "learner.l2_final": get("l2_final"),
        "learner.l2_inner": get("l2_inner"),
        "simulators.overlap": case.get("overlap", False),
        "learner.bootstrap_truncation": case["bootstrap"],
    }


def options_of_replay(case: dict[str, Any]) -> dict[str, Any]:
    (size, start), (interval, rate) = case["buffer"], case["move"]
    target = {
        "target.interval": interval,
        "target.rate": rate,
        "target.double": case["double"],
        "target.n_step": case["n_step"],
        "target.loss": "huber" if case["huber"] else "squared",
    }
    return {
        "algorithm": case["algorithm"],
        **options(case | MISSING),
        "learner.epochs": 1,
        "learner.minibatches": 2,
        "replay.size": size,
        "replay.start": start,
        "replay.batch": 4,
        "replay.share": case["share"],
        "simulators.overlap": case["program"] == "overlapped",
        **(target if case["algorithm"] == "dqn" else {}),
    }


def options_of_ppo(case: dict[str, Any]) -> dict[str, Any]:
    return {
        "algorithm": "ppo",
        **options(case | MISSING | {"clip": 100.0, "last_reward": case["last_reward"]}),
        "network.activation": case["activation"],
        "ppo.critic": case["critic"],
        "ppo.clip": case["clip"],
        "ppo.clip_value": case["clip_value"],
        "ppo.value_weight": 0.7,
        "ppo.entropy": 0.05,
        "ppo.normalize": case["normalize"],
        "simulators.overlap": case["program"] == "overlapped",
    }


def name(case: dict[str, Any]) -> str:
    """Enough of a case to tell what it is about."""
    parts = ("algorithm", "critic", "mixer", "memory", "norm", "pieces", "cuts", "program", "statistics")
    return "-".join(str(case.get(part, "")) for part in parts if part in case)


def size(case: dict[str, Any]) -> int:
    """How long a case takes to compile, roughly; the shortest come first."""
    return (case["memory"] != "none") + (case.get("mixer") == "qmix") + ("warmed" in case["pieces"])


# One step at a time: the Q-learning of Watkins.
WATKINS = {option: values[0] for option, values in COMPILED.items()} | {"pieces": "watkins", "cuts": "limit"}
# Batch statistics of states and successors together where that is not the default, and not together where it is.
_PLAIN = {option: values[0] for option, values in COMPILED.items()} | {"targets": "minibatch", "statistics": "joint"}
_TEAM = {"agents": 2, "masked": True, "mixer": "qmix", "cuts": "anywhere", "returns": (0.99, 0.65)}
JOINT = [
    _PLAIN | {"norm_input": "batch", "cuts": "limit"},
    _PLAIN | _TEAM | {"norm": "batch_renorm", "clip": HARD, "memory": "lstm", "pieces": "warmed", "passes": (1, 4)},
]
JOINT_SIMULATED = {option: values[0] for option, values in SIMULATED.items()} | {
    "targets": "minibatch",
    "statistics": "joint",
    "norm_input": "batch",
    "overlap": True,
    "pieces": "warmed",
    "memory": "lstm",
}
_SEPARATE = {option: values[0] for option, values in REPLAYED.items()} | {
    "norm_input": "batch",
    "statistics": "separate",
}
SEPARATE = [
    _SEPARATE | {"algorithm": "pqn-replay", "pieces": "replayed", "returns": (0.99, 0.65)},
    _SEPARATE | {"double": True, "n_step": 3, "memory": "lstm", "pieces": "replayed warmed", "cuts": "anywhere"},
]
COMPILED_CASES = sorted([*covering_array(COMPILED, clash), WATKINS, *JOINT], key=size)
SIMULATED_CASES = sorted([*covering_array(SIMULATED, clash), JOINT_SIMULATED], key=size)
REPLAYED_CASES = sorted([*SEPARATE, *covering_array(REPLAYED, clash)], key=size)
PPO_CASES = sorted(covering_array(PPO, clash), key=size)
