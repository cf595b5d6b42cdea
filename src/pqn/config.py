"""The configuration of a run: all options, what follows from them together, and what must hold between them.

`pqn.options` has the groups, each option with its bounds. `Config.validate` checks options that depend on each other.
There is no JAX here, so `pqn --help` stays instant.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pqn import by_name, renamed
from pqn.errors import ConfigError
from pqn.fields import OneOf, Options, Within, brief
from pqn.options import (
    MOST,
    OWN_NETWORK,
    EnvConfig,
    EvalConfig,
    LearnerConfig,
    LogConfig,
    NetworkConfig,
    PPOConfig,
    ReplayConfig,
    SaveConfig,
    Seed,
    SimulatorsConfig,
    TargetConfig,
)

ALGORITHMS: dict[str, tuple[str, ...]] = {
    "pqn": (),
    "pqn-replay": ("replay",),
    "dqn": ("replay", "target"),
    "ppo": ("ppo",),
}
"""Names of algorithms, and the groups of options that an algorithm reads and others do not.

Each is what `algorithms/NAME.py` calls ALGORITHM, with _ in the file's name for - in NAME.
"""


@dataclasses.dataclass(frozen=True)
class Config(Options):
    """A whole run."""

    preset: str = "custom"
    """Name of the preset this configuration started from."""
    algorithm: Annotated[str, OneOf(ALGORITHMS)] = "pqn"
    """Which algorithm learns."""
    total_steps: Annotated[int, Within(1, 10**15)] = 500_000
    """Environment steps per seed."""
    seed: Seed = 0
    """First seed; the others are seed+1, seed+2, …"""
    seeds: Annotated[int, Within(1, 2**16)] = 1
    """How many seeds to train at once, as one compiled program. They spread over the devices."""
    shards: Annotated[int, Within(1, 2**16)] = 1
    """D, parts of each seed's environments and minibatches that can be on different devices. Results depend on D, but
    not on the number of devices."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    simulators: SimulatorsConfig = dataclasses.field(default_factory=SimulatorsConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    learner: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    replay: ReplayConfig = dataclasses.field(default_factory=ReplayConfig)
    target: TargetConfig = dataclasses.field(default_factory=TargetConfig)
    ppo: PPOConfig = dataclasses.field(default_factory=PPOConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    log: LogConfig = dataclasses.field(default_factory=LogConfig)
    save: SaveConfig = dataclasses.field(default_factory=SaveConfig)

    @property
    def steps_per_update(self) -> int:
        """Environment steps one update collects, per seed: T·N."""
        return self.learner.rollout_steps * self.env.num_envs

    @property
    def updates(self) -> int:
        """Updates in the run; a remainder of `total_steps` smaller than one rollout is left out."""
        return self.total_steps // self.steps_per_update

    @property
    def steps(self) -> int:
        """Environment steps that are really trained, per seed: whole updates."""
        return self.updates * self.steps_per_update

    @property
    def schedule_updates(self) -> int:
        """Updates over which ε and the learning rate run their course."""
        return (self.learner.schedule_steps or self.total_steps) // self.steps_per_update

    @property
    def segment_length(self) -> int:
        """L after defaults."""
        return self.learner.segment_length or (1 if self.network.memory == "none" else self.learner.rollout_steps)

    @property
    def joint_statistics(self) -> bool:
        """Whether states and successors pass through the network together in a gradient step."""
        chosen = self.learner.batch_statistics
        return chosen == "joint" or (chosen == "default" and self.replays)

    @property
    def keeps_last_seen(self) -> bool:
        """Whether a rollout keeps what follows it, for gradient steps to value; a buffer has the successors anyway."""
        return self.joint_statistics and not self.replays

    @property
    def replays(self) -> bool:
        """Whether minibatches come from a buffer; otherwise they are a rollout, split up."""
        return "replay" in ALGORITHMS[self.algorithm]

    def replace(self, options: Mapping[str, object] | None = None, /, **top: object) -> Config:
        """A copy with options changed; nested ones by their command-line name.

        Options of the environment are added to those already there: one at a time as `env.kwargs.KEY`, or several as
        `env.kwargs`; the value None drops one.

        Examples:
          >>> Config().replace({"learner.lr": 0.1}, seeds=3).learner.lr
          0.1

        Raises:
          ConfigError: there is no such option, or its value has the wrong type or is out of bounds.
        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options are given by name, as in {{'learner.lr': 0.1}}, not as {brief(options)}")
        return by_name.changed(self, {**(options or {}), **top})

    def validate(self) -> Config:
        """Returns itself, or raises `ConfigError` for options that do not fit together, with values that would do."""
        for check in (_check_groups, _check_counters, _check_batch, _check_statistics, _check_replay, _check_schedule):
            check(self)
        return self

    def rounding(self) -> str | None:
        """A sentence for the user where `total_steps` is not a whole number of updates."""
        if self.steps == self.total_steps:
            return None
        return (
            f"training {self.steps:,} of {self.total_steps:,} steps: {self.updates:,} whole updates of "
            f"{self.steps_per_update:,} (learner.rollout_steps {self.learner.rollout_steps} × env.num_envs "
            f"{self.env.num_envs})"
        )

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(data: object) -> Config:
        """Inverse of `to_dict`, also after a trip through JSON. Missing names take defaults.

        Names and values that older versions wrote are read as what they are called now.

        Raises:
          ConfigError: a name is unknown, or a value has the wrong type or is out of bounds.
        """
        return by_name.made(Config, renamed.read(data))


def refuse_preset(name: str) -> None:
    """Refuses to vary `preset`. It says where the other options come from; with another name they stay as they are.

    Raises:
      ConfigError: `name` is that of the preset.
    """
    if name == "preset":
        raise ConfigError("preset is a name and no option: to vary it would change nothing else; call once per preset")


def _check_groups(config: Config) -> None:
    """An option that the algorithm does not read must not be set: it would be recorded as if it had an effect."""
    read = ALGORITHMS[config.algorithm]
    for group in sorted({group for groups in ALGORITHMS.values() for group in groups} - {*read}):
        options = getattr(config, group)
        for field in dataclasses.fields(options):
            if getattr(options, field.name) != field.default:
                readers = " or ".join(name for name, groups in ALGORITHMS.items() if group in groups)
                raise ConfigError(
                    f"{group}.{field.name} is set, but algorithm {config.algorithm} does not read it; "
                    f"leave it out, or set algorithm to {readers}"
                )


def _check_counters(config: Config) -> None:
    """Nothing that the compiled program counts may exceed its 32 bits."""
    learner = config.learner
    if config.seed + config.seeds - 1 > MOST:
        raise ConfigError(f"seed is {config.seed} and seeds {config.seeds}; the last seed must be at most {MOST}")
    if config.steps_per_update > MOST:
        raise ConfigError(
            f"one rollout would have {config.steps_per_update} steps (learner.rollout_steps {learner.rollout_steps} × "
            f"env.num_envs {config.env.num_envs}); it must have at most {MOST}"
        )
    if learner.epochs * learner.minibatches > MOST:
        raise ConfigError(
            f"learner.epochs {learner.epochs} × learner.minibatches {learner.minibatches} are too many gradient steps "
            f"for one update; there may be {MOST}"
        )
    if config.updates >= MOST:  # the largest count means "never"
        raise ConfigError(
            f"total_steps {config.total_steps} makes {config.updates} updates; a run can count {MOST - 1}, so lower "
            f"total_steps, or raise learner.rollout_steps ({learner.rollout_steps}) or env.num_envs "
            f"({config.env.num_envs})"
        )


def _check_batch(config: Config) -> None:
    learner, num_envs = config.learner, config.env.num_envs
    if "num_envs" in config.env.kwargs:
        raise ConfigError("env.kwargs has num_envs; how many environments there are is env.num_envs")
    length = config.segment_length
    if learner.rollout_steps % length:
        raise ConfigError(
            f"learner.segment_length {length} does not divide learner.rollout_steps {learner.rollout_steps}; "
            f"try {_near_divisor(learner.rollout_steps, length)}"
        )
    remembers = config.network.memory != "none" or config.network.module != OWN_NETWORK  # or may
    if learner.burn_in > length or (learner.burn_in and not remembers):
        raise ConfigError(
            f"learner.burn_in is {learner.burn_in}; it refreshes a recurrent network's memory (network.memory) and "
            f"must be at most the segment length, here {length}"
        )
    _check_shards(config)
    segments = learner.rollout_steps // length * num_envs // config.shards
    if segments % learner.minibatches and not config.replays:
        per = "" if length == 1 else f" ÷ segment length {length}"
        per += "" if config.shards == 1 else f" ÷ shards {config.shards}"
        raise ConfigError(
            f"learner.minibatches {learner.minibatches} does not divide the batch of {segments} "
            f"(learner.rollout_steps {learner.rollout_steps} × env.num_envs {num_envs}{per}); "
            f"try {_near_divisor(segments, learner.minibatches)}"
        )
    if config.updates < 1:
        raise ConfigError(
            f"total_steps {config.total_steps} is less than one rollout of {config.steps_per_update} steps "
            f"(learner.rollout_steps {learner.rollout_steps} × env.num_envs {num_envs})"
        )


def _check_statistics(config: Config) -> None:
    chosen, network = config.learner.batch_statistics, config.network
    norms = (network.norm, network.norm_input)
    if chosen != "default" and network.module == OWN_NETWORK and not any(norm.startswith("batch") for norm in norms):
        raise ConfigError(
            f"learner.batch_statistics is {chosen}, but network.norm {norms[0]} and network.norm_input {norms[1]} have "
            "no batch statistics; set one of them to batch or batch_renorm, or leave learner.batch_statistics out"
        )


def _check_replay(config: Config) -> None:
    if not config.replays:
        return
    replay, learner, num_envs = config.replay, config.learner, config.env.num_envs
    length = replay.size // num_envs  # of the buffer, for one environment
    needed = max(learner.rollout_steps, steps_to_sample(config))
    if length < needed:
        raise ConfigError(
            f"replay.size {replay.size} holds {length} steps of each environment (env.num_envs {num_envs}); a rollout "
            f"and a sequence need {needed}, so it must be at least {needed * num_envs}"
        )
    if replay.start > replay.size:
        raise ConfigError(f"replay.start {replay.start} is more than replay.size {replay.size}: learning never starts")
    if replay.start >= config.steps:
        raise ConfigError(
            f"replay.start {replay.start} is not less than the {config.steps} steps of the run: learning never starts"
        )
    if replay.batch % config.shards:
        raise ConfigError(
            f"shards {config.shards} does not divide replay.batch {replay.batch}; "
            f"try {_near_divisor(replay.batch, config.shards)}"
        )
    if config.shards > 1 and replay.place == "host":
        raise ConfigError("replay.place host needs a run without shards; set shards to 1, or replay.place to device")
    if needed * num_envs > config.steps:
        raise ConfigError(
            f"a sequence needs {needed} steps of each environment (env.num_envs {num_envs}), and the run has only "
            f"{config.steps} steps: learning never starts; raise total_steps"
        )
    fresh = sequences_of(config)[1] * config.shards
    if fresh > learner.rollout_steps // config.segment_length * num_envs:
        raise ConfigError(
            f"replay.share {replay.share:g} of replay.batch {replay.batch} leaves {fresh} sequences for the last "
            "rollout, which has fewer; raise replay.share, or lower replay.batch"
        )


def sequence_length(config: Config) -> int:
    """W + L + n, steps in a sample of the buffer."""
    return config.learner.burn_in + config.segment_length + config.target.n_step


def steps_to_sample(config: Config) -> int:
    """Steps of each environment that the buffer must hold before it can be sampled from.

    Where some sequences are to end in the last rollout, one that ends with its first step must be there as a whole.
    """
    before = config.learner.rollout_steps - 1 if sequences_of(config)[1] else 0
    return sequence_length(config) + before


def sequences_of(config: Config) -> tuple[int, int]:
    """How many sequences of a shard's minibatch come from the whole buffer, and how many from the last rollout."""
    batch = config.replay.batch // config.shards
    old = round(config.replay.share * batch)
    return old, batch - old


def _check_shards(config: Config) -> None:
    shards, num_envs = config.shards, config.env.num_envs
    if num_envs % shards:
        raise ConfigError(
            f"shards {shards} does not divide env.num_envs {num_envs}; try shards {_near_divisor(num_envs, shards)} or "
            f"env.num_envs {max(1, round(num_envs / shards)) * shards}"
        )


def _check_schedule(config: Config) -> None:
    learner = config.learner
    for name, course, points in (
        ("lr", learner.lr_course, learner.lr_points),
        ("eps", learner.eps_schedule, learner.eps_points),
    ):
        _check_points(f"learner.{name}_points", f"learner.{name}_schedule", course, points)
    if learner.lr_finish and learner.lr_course in ("constant", "piecewise"):
        raise ConfigError(
            f"learner.lr_finish is {learner.lr_finish:g}, but the learning rate is {learner.lr_course} "
            "(learner.lr_decay, learner.lr_schedule) and does not go there; leave it 0"
        )
    if learner.lr_end == 0.0 and 0 < learner.schedule_steps < config.total_steps:
        raise ConfigError(
            f"learner.schedule_steps {learner.schedule_steps} is less than total_steps {config.total_steps}: the "
            "learning rate would be 0 for the rest of the run; raise it, or set learner.lr_decay to false"
        )
    if 0 < learner.schedule_steps < config.steps_per_update:
        raise ConfigError(
            f"learner.schedule_steps {learner.schedule_steps} is less than one rollout of {config.steps_per_update} "
            "steps; leave it 0 for the length of the run"
        )


def _check_points(name: str, schedule: str, course: str, points: tuple[float, ...]) -> None:
    """A piecewise schedule has points, in order, and no other schedule has any."""
    if course != "piecewise":
        if points:
            raise ConfigError(f"{name} is for {schedule} piecewise, which is {course} here; leave it empty")
        return
    shares = points[::2]
    if not points or len(points) % 2:
        raise ConfigError(f"{name} has {len(points)} numbers; it must have pairs of the share of the run and the value")
    if sorted(shares) != list(shares) or shares[-1] > 1.0:
        raise ConfigError(
            f"{name} has the shares {', '.join(f'{share:g}' for share in shares)}; they must be from 0 to 1, and none "
            "less than the one before"
        )


def _near_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` closest to `wanted`."""
    small = [d for d in range(1, math.isqrt(total) + 1) if total % d == 0]
    return min((*small, *(total // d for d in small)), key=lambda d: (abs(d - wanted), d))
