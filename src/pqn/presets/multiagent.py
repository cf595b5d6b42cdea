"""Several agents and one reward: SMAX, Overcooked, Hanabi and MPE."""

from __future__ import annotations

from pqn.config import Config
from pqn.options import EnvConfig, EvalConfig, LearnerConfig, NetworkConfig
from pqn.presets.base import BOOTSTRAPS, FULL_CLIP, HALF_CLIP, TARGETS_ONCE, WINDOW, Preset

_TABLE = "the paper's table of {} and public configuration"

SMAX_MAPS = (
    "2s3z",
    "3s5z",
    "3s_vs_5z",
    "5m_vs_6m",
    "6h_vs_8z",
    "10m_vs_11m",
    "3s5z_vs_3s6z",
    "smacv2_5_units",
    "smacv2_10_units",
)
OVERCOOKED_LAYOUTS = ("cramped_room", "asymm_advantages", "coord_ring", "forced_coord", "counter_circuit")


def _smax(name: str) -> Config:
    return Config(
        total_steps=10_000_000,
        env=EnvConfig(f"smax:{name}", num_envs=128),
        network=NetworkConfig(
            hidden=(512, 512), norm="batch", norm_input="batch", memory="gru", memory_size=512, agent_id=True
        ),
        learner=LearnerConfig(
            rollout_steps=128,
            burn_in=4,
            epochs=4,
            minibatches=16,
            lr=2.5e-4,
            lr_decay=True,
            max_grad_norm=1.0,
            gamma=0.99,
            lam=0.85,
            eps_start=1.0,
            eps_finish=0.01,
            eps_decay=0.1,
            reward_scale=10.0,
        ),
        eval=EvalConfig(count=20, num_envs=128),
    )


SHAPING = 2_500_000  # steps of all environments together over which the shaped reward fades


def _overcooked(layout: str) -> Config:
    num_envs = 64
    return Config(
        total_steps=5_000_000,
        env=EnvConfig(f"overcooked:{layout}", num_envs=num_envs, kwargs={"shaping_steps": SHAPING // num_envs}),
        network=NetworkConfig(torso="grid", hidden=(512, 512), conv="fused"),
        learner=LearnerConfig(
            rollout_steps=16,
            epochs=4,
            minibatches=16,
            lr=7.5e-5,
            lr_decay=True,
            max_grad_norm=10.0,
            gamma=0.99,
            lam=0.5,
            eps_start=1.0,
            eps_finish=0.2,
            eps_decay=0.2,
        ),
        eval=EvalConfig(count=20, num_envs=64),
    )


_HANABI = Config(
    total_steps=10_000_000_000,
    env=EnvConfig("hanabi:2", num_envs=1024),
    network=NetworkConfig(hidden=(512, 512, 512), head="dueling", agent_id=True),
    learner=LearnerConfig(
        rollout_steps=1,
        epochs=1,
        minibatches=1,
        lr=3e-4,
        lr_decay=False,
        max_grad_norm=0.5,
        gamma=0.99,
        lam=0.0,
        eps_start=0.01,
        eps_finish=0.001,
        eps_decay=0.1,
    ),
    eval=EvalConfig(count=100, num_envs=1024),
)
_SPREAD = Config(
    total_steps=1_000_000,
    env=EnvConfig("mpe:simple_spread", num_envs=32),
    network=NetworkConfig(hidden=(64, 64), agent_id=True),
    learner=LearnerConfig(
        rollout_steps=26, epochs=2, minibatches=8, lr=1e-3, gamma=0.9, lam=0.9, eps_finish=0.05, eps_decay=0.2
    ),
    eval=EvalConfig(num_envs=256),
)


def _published(config: Config, **learner: object) -> Config:
    """`config` as published: time limits end episodes, and half the clip for a loss of half the size (`HALF_CLIP`)."""
    options = {"bootstrap_truncation": False, "max_grad_norm": config.learner.max_grad_norm / 2} | learner
    return config.replace({f"learner.{name}": value for name, value in options.items()})


def _smax_paper(name: str) -> Config:
    config = _published(_smax(name), targets="minibatch")
    return config.replace({"env": EnvConfig(f"smax:{name}", num_envs=128, kwargs={"dead_may_stop": True})})


DEAD = (
    "a dead agent has no legal action and adds nothing to the team's value (there: it may stop, and its value counts)"
)
_DEAD_SEES = "a dead agent still sees its number and keeps its memory (there: it sees zeros only and forgets)"
_RANDOM_START = "learning starts with the first rollout (there: 132 random steps come before it, for the first window)"
_SMAX_DEVIATIONS = (BOOTSTRAPS, FULL_CLIP, TARGETS_ONCE, WINDOW, DEAD, _DEAD_SEES, _RANDOM_START)
_SMAX_PAPER_DEVIATIONS = (HALF_CLIP, WINDOW, _DEAD_SEES, _RANDOM_START)
_SHAPED = "the weight of the shaped reward falls at every step (there: at every rollout of 16)"

PRESETS = {}
for _map in SMAX_MAPS:
    _title = f"SMAX {_map} against the heuristic enemy, GRU and VDN"
    _source = _TABLE.format("SMAX")
    PRESETS[f"smax-{_map}"] = Preset(_smax(_map), _title, _source, _SMAX_DEVIATIONS, "smax-MAP")
    PRESETS[f"smax-{_map}-paper"] = Preset(
        _smax_paper(_map), f"{_title}, as published", _source, _SMAX_PAPER_DEVIATIONS, "smax-MAP-paper"
    )
for _layout in OVERCOOKED_LAYOUTS:
    _config, _title = _overcooked(_layout), f"Overcooked {_layout}, VDN"
    _source = _TABLE.format("Overcooked")
    PRESETS[f"overcooked-{_layout}"] = Preset(
        _config, _title, _source, (BOOTSTRAPS, FULL_CLIP, _SHAPED), "overcooked-LAYOUT"
    )
    PRESETS[f"overcooked-{_layout}-paper"] = Preset(
        _published(_config), f"{_title}, as published", _source, (HALF_CLIP, _SHAPED), "overcooked-LAYOUT-paper"
    )
PRESETS |= {
    "hanabi": Preset(_HANABI, "Hanabi with two players, VDN", _TABLE.format("Hanabi"), (FULL_CLIP,)),
    "hanabi-paper": Preset(
        _published(_HANABI), "Hanabi with two players, VDN, as published", _TABLE.format("Hanabi"), (HALF_CLIP,)
    ),
    "mpe-spread": Preset(
        _SPREAD,
        "simple_spread: three agents share out three landmarks, VDN",
        "our own choice on a 2-core CPU; the paper has no MPE",
    ),
}
